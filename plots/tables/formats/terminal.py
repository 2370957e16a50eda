"""Text for people: bold and folded on a terminal, plain where a pipe or a file reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from plots.tables.document import Document
from plots.tables.layout import Layout
from scalemark.cli.terminal import fitted, folded
from scalemark.text.untrusted import visible

_GAP = "  "
_MOST_ROWS = 1_000  # that are drawn with care; more would take seconds


def write(documents: Sequence[Document], out: TextIO) -> None:
    console = Console(file=out, highlight=False)
    num_rows = sum(len(layout.rows) for document in documents for layout in document.tables)
    careful = console.is_terminal and num_rows <= _MOST_ROWS
    for number, document in enumerate(documents):
        if number:
            out.write("\n")
        if careful:
            _draw(console, document)
        else:
            out.writelines(f"{visible(line)}\n" for line in _lines(document))


def _lines(document: Document) -> Iterator[str]:
    yield from (document.heading, "") if document.heading else ()
    for number, layout in enumerate(document.tables):
        yield from ("",) if number else ()
        yield from (layout.title,) if layout.title else ()
        yield from _grid(layout)
        yield from layout.notes
    yield from ("", *document.notes) if document.notes else ()


def _grid(layout: Layout) -> Iterator[str]:
    """Pad with spaces, except at the ends of lines."""
    columns, rows = _texts(layout)
    widths = [max(map(cell_len, cells)) for cells in zip(columns, *rows, strict=True)]
    if layout.above:
        yield _above(layout.above, widths, len(_GAP))
    for row in (columns, *rows):
        first, *others = zip(row, widths, strict=True)
        padded = (" " * (width - cell_len(text)) + text for text, width in others)
        yield _GAP.join([first[0] + " " * (first[1] - cell_len(first[0])), *padded])


def _texts(layout: Layout, *, is_short: bool = False) -> tuple[list[str], list[list[str]]]:
    """Return the line of headings, and those of cells."""
    headings = [visible(text) for text in (layout.corner, *layout.counts)]
    rows = []
    for name, cells in layout.rows:
        texts = [cell.short if is_short else cell.text for cell in cells]
        rows.append([visible(text) for text in (name, *texts)])
    return headings, rows


def _above(heading: str, widths: Sequence[int], gap: int) -> str:
    """Center what the columns count over them."""
    first, *others = widths
    room = sum(others) + gap * (len(others) - 1)
    before = first + gap + max(0, room - cell_len(heading)) // 2
    return " " * before + heading


def _draw(console: Console, document: Document) -> None:
    if document.heading:
        console.print(Text(visible(document.heading), style="bold"), end="\n\n")
    widest = max(max(map(cell_len, _grid(layout))) for layout in document.tables)
    is_short = widest > console.width
    for number, layout in enumerate(document.tables):
        if number:
            console.print()
        if layout.title:
            console.print(Text(visible(layout.title), style="bold"))
        _draw_table(console, layout, is_short=is_short)
        for note in layout.notes:
            console.print(Text(visible(note), style="dim"))
    if document.notes:
        console.print()
    notes = list(document.notes)
    cells = [cell for layout in document.tables for _, of_row in layout.rows for cell in of_row]
    if is_short and any(cell.short != cell.text for cell in cells):
        notes.append(f"left out for width: intervals; {widest} columns or --show interval has them")
    for note in notes:
        console.print(Text(visible(note), style="dim"))


def _draw_table(console: Console, layout: Layout, *, is_short: bool) -> None:
    columns, rows = _texts(layout, is_short=is_short)
    widths, gap = fitted(columns, rows, console.width)
    table = Table(box=None, header_style="bold", padding=(0, gap, 0, 0), pad_edge=False)
    for place, (column, width) in enumerate(zip(columns, widths, strict=True)):
        justify: JustifyMethod = "right" if place else "left"
        heading = Text(folded(column, width))
        table.add_column(heading, justify=justify, overflow="fold", width=width)
    for row, (_, cells) in zip(rows, layout.rows, strict=True):
        styles = ["", *("bold" if cell.is_bold else "" for cell in cells)]
        texts = zip(row, widths, styles, strict=True)
        table.add_row(*(Text(folded(text, width), style) for text, width, style in texts))
    if layout.above:
        console.print(Text(_above(layout.above, widths, gap), style="bold"), no_wrap=True)
    console.print(table)
