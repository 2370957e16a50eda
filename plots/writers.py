"""Writes tables as text for a terminal or Markdown, or as records in CSV or JSON."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from analysis.labels import axes_of
from analysis.pivot import Cell
from analysis.results import AXES
from plots.layout import Document, Layout, Shown, varied_axes
from scalemark.cli.terminal import PIPE_WIDTH, color_system, finite, fitted, print_columns
from scalemark.text.untrusted import for_markdown, visible
from store.commands.read import write_csv
from store.errors import StoreError
from store.filters import nearest

Write = Callable[[Document, TextIO], None]

_SPREAD = ("throughput_low", "throughput_high")
_KEY_FIGURES = ("throughput", *_SPREAD, "speed_up", "mfu", "memory_bytes")
_MOST_ROWS = 1_000  # that a terminal shows with bold cells; more would take seconds


def names() -> list[str]:
    """Return the names of all formats."""
    return sorted(_WRITERS)


def chosen(name: str | None, as_json: bool = False) -> Write:
    """Return the writer of this format, or that for terminals. Raises StoreError."""
    if as_json and name not in (None, "json"):
        raise StoreError(f"--json with --format {name}: give either")
    wanted = "json" if as_json else name or "terminal"
    if wanted == "md":
        wanted = "markdown"
    if wanted not in _WRITERS:
        raise StoreError(f"{wanted[:100]}: no such format; {nearest(wanted[:100], names())}")
    return _WRITERS[wanted]


def _write_terminal(document: Document, out: TextIO) -> None:
    """Write bold and folded lines on a terminal, and plain ones where a pipe or a file reads."""
    num_rows = sum(len(layout.rows) for layout in document.tables)
    is_terminal = None if num_rows <= _MOST_ROWS else False
    console = Console(
        file=out, highlight=False, force_terminal=is_terminal, color_system=color_system()
    )
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    widest = 0
    if console.is_terminal:
        for layout in document.tables:
            headings = [*layout.heads, *layout.columns]
            widths, gap = fitted(headings, _texts(layout), PIPE_WIDTH)
            widest = max(widest, sum(widths) + gap * (len(widths) - 1))
    is_short = widest > console.width
    if document.heading:
        _say(console, document.heading, "bold")
    for line in document.doubts:
        _say(console, line)
    if document.heading or document.doubts:
        console.print()
    for number, layout in enumerate(document.tables):
        if number:
            console.print()
        if layout.title:
            _say(console, layout.title, "bold")
        _print_table(console, layout, is_short=is_short)
        for note in layout.notes:
            _say(console, note, "dim")
    if document.notes:
        console.print()
    for note in document.notes:
        _say(console, note, "dim")
    if is_short and any(_texts(table) != _texts(table, is_short=True) for table in document.tables):
        hint = f"left out for width: intervals; {widest} columns or --show interval has them"
        _say(console, hint, "dim")


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(Text(visible(text), style=style), soft_wrap=not console.is_terminal)


def _texts(layout: Layout, *, is_short: bool = False) -> list[list[str]]:
    text_of = attrgetter("short" if is_short else "text")
    return [[*heads, *map(text_of, cells)] for heads, cells in layout.rows]


def _print_table(console: Console, layout: Layout, *, is_short: bool) -> None:
    rows = _texts(layout, is_short=is_short)
    bold = set()
    for number, (heads, cells) in enumerate(layout.rows):
        for place, cell in enumerate(cells, len(heads)):
            if cell.is_bold:
                bold.add((number, place))
    right = frozenset(map(visible, layout.columns))
    print_columns(console, [*layout.heads, *layout.columns], rows, right, bold=bold)


def _write_markdown(document: Document, out: TextIO) -> None:
    """Write what GitHub shows as tables: for READMEs, issues and chats."""
    blocks = []
    if document.heading:
        blocks.append(f"**{for_markdown(document.heading)}**")
    blocks += map(for_markdown, document.doubts)
    for layout in document.tables:
        if layout.title:
            blocks.append(f"### {for_markdown(layout.title)}")
        blocks.append("\n".join(_markdown_grid(layout)))
        blocks.append(_markdown_notes(layout.notes))
    blocks.append(_markdown_notes(document.notes))
    out.write("\n\n".join(filter(None, blocks)) + "\n")


def _markdown_grid(layout: Layout) -> Iterator[str]:
    yield _markdown_row(map(for_markdown, (*layout.heads, *layout.columns)))
    yield f"|{' --- |' * len(layout.heads)}{' ---: |' * len(layout.columns)}"
    for heads, cells in layout.rows:
        texts = list(map(for_markdown, heads))
        for cell in cells:
            text = for_markdown(cell.text)
            texts.append(f"**{text}**" if cell.is_bold else text)
        yield _markdown_row(texts)


def _markdown_row(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _markdown_notes(notes: Sequence[str]) -> str:
    return "\n".join(f"- {for_markdown(note)}" for note in notes)


def _write_csv(document: Document, out: TextIO) -> None:
    """Write the tables that people see, with unrounded numbers: each figure of a cell has a column.
    Of several tables the first column has their titles.
    """
    columns: dict[str, None] = {}
    rows = []
    for layout in document.tables:
        above = {"table": layout.title} if len(document.tables) > 1 else {}
        columns |= dict.fromkeys((*above, *layout.heads))
        for place, column in enumerate(layout.columns):
            for _, cells in layout.rows:
                columns |= dict.fromkeys(_named(column, cells[place]))
        for heads, cells in layout.rows:
            row: dict[str, object] = {**above, **dict(zip(layout.heads, heads, strict=True))}
            for column, cell in zip(layout.columns, cells, strict=True):
                row |= _named(column, cell)
            rows.append(row)
    write_csv(list(columns), ([row.get(name) for name in columns] for row in rows), out)


def _named(column: str, cell: Shown) -> dict[str, object]:
    """Return the numbers of a cell, by `4 GPUs images/s`, `4 GPUs speed-up` and the like."""
    return {f"{column} {name}".rstrip(): number for name, number in cell.numbers.items()}


def _write_tidy(document: Document, out: TextIO) -> None:
    """Write a line per result, with unrounded numbers: the axes that vary and key figures first."""
    rows = records(document)
    results = chain.from_iterable(layout.table.results for layout in document.tables)
    # free axes may differ between trials: the first record has those of its own only
    known = dict.fromkeys(chain.from_iterable(rows))
    first = filter(known.__contains__, (*varied_axes(list(results)), *_KEY_FIGURES))
    columns = list(dict.fromkeys(first) | known)
    write_csv(columns, ([row.get(name) for name in columns] for row in rows), out)


def _write_json(document: Document, out: TextIO) -> None:
    """Write the tidy records, with their types."""
    json.dump(finite(records(document)), out, indent=1)
    out.write("\n")


def records(document: Document) -> list[dict[str, Any]]:
    """Return a record for each cell that has a result, table by table: what `--json` of other
    commands says of it, and all of its axes.
    """
    rows = []
    for layout in document.tables:
        table = layout.table
        for row in table.rows:
            for column in table.columns:
                cell = table.cells.get((row, column))
                if cell is not None:
                    rows.append(_record(cell))
    return rows


def _record(cell: Cell) -> dict[str, Any]:
    result = cell.result
    axes = {axis: result.axes[axis] for axis in axes_of([result])}
    lacked = {axis for axis in AXES if axes.get(axis) is None}
    record = {
        **axes,
        **result.facts(),
        "host": result.environment.host,
        "rank": cell.rank,
        "item": result.item,
        "mfu": result.usage.mfu,
        "memory_bytes": result.usage.memory_bytes,
    }
    if not result.environment.origin.is_ours:
        record["citation"] = result.citation
    return {name: value for name, value in record.items() if name not in lacked}


_WRITERS: Mapping[str, Write] = {
    "csv": _write_csv,
    "json": _write_json,
    "markdown": _write_markdown,
    "terminal": _write_terminal,
    "tidy": _write_tidy,
}
