"""Text for people: bold and folded on a terminal, plain where a pipe or a file reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from plots.tables.document import Document
from plots.tables.layout import Layout
from scalemark.text.untrusted import visible

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
    rows = [
        [layout.corner, *layout.columns],
        *([name, *(cell.text for cell in cells)] for name, cells in layout.rows),
    ]
    rows = [[visible(text) for text in row] for row in rows]
    widths = [max(map(cell_len, cells)) for cells in zip(*rows, strict=True)]
    for row in rows:
        first, *others = zip(row, widths, strict=True)
        padded = (" " * (width - cell_len(text)) + text for text, width in others)
        yield "  ".join([first[0] + " " * (first[1] - cell_len(first[0])), *padded])


def _draw(console: Console, document: Document) -> None:
    if document.heading:
        console.print(Text(visible(document.heading), style="bold"), end="\n\n")
    for number, layout in enumerate(document.tables):
        if number:
            console.print()
        if layout.title:
            console.print(Text(visible(layout.title), style="bold"))
        console.print(_table(layout))
        for note in layout.notes:
            console.print(Text(visible(note), style="dim"))
    if document.notes:
        console.print()
    for note in document.notes:
        console.print(Text(visible(note), style="dim"))


def _table(layout: Layout) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column(Text(visible(layout.corner)), overflow="fold")
    for column in layout.columns:
        table.add_column(Text(visible(column)), justify="right", overflow="fold")
    for name, cells in layout.rows:
        table.add_row(
            Text(visible(name)),
            *(Text(visible(cell.text), style="bold" if cell.is_bold else "") for cell in cells),
        )
    return table
