"""Draws a sight for a terminal of any size: the sweep above, then tables, those with the newest
results first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from analysis.pivot import Rank
from analysis.text.titles import table_notes
from plots.tables.layout import Layout, Shown
from plots.watch.sight import Sight
from plots.watch.sparkline import legend, scale, sparkline
from scalemark.cli.terminal import for_people
from scalemark.text.untrusted import visible
from store.live.view import fitted, render

LEAST_OF_SWEEP = 8  # lines, where tables want the rest

ALL = "no sweep is running: the whole database; one that begins is shown"


@dataclass(frozen=True, slots=True)
class View:
    """With too little height, tables are left out and counted; `is_last`: all is shown, whatever
    the height.
    """

    sight: Sight
    is_last: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, ascii_only = options.max_width, options.ascii_only
        tables = [
            _lines(layout, width, ascii_only=ascii_only)
            for layout in _newest_first(self.sight.tables)
        ]
        told = _foot(self.sight, ascii_only=ascii_only, whole=self.is_last)
        foot = [line for text in told for line in text.wrap(console, width)]
        head = (
            list(Text(visible(self.sight.problem), style="bold yellow").wrap(console, width))
            if self.sight.problem
            else []
        )
        if not self.sight.problem and self.sight.sweep is None:
            head.append(Text(ALL, style="bold"))
        common = (
            [Text(""), Text(visible(self.sight.heading), style="bold")]
            if self.sight.heading
            else []
        )
        if console.is_terminal and not self.is_last:
            room = options.max_height - len(head) - len(common) - len(foot)
            wanted = sum(map(len, tables))
            of_sweep = max(LEAST_OF_SWEEP, room - wanted) if self.sight.sweep else 0
            tables, num_left = _fitting(tables, room - of_sweep)
            foot = [*_left_out(num_left), *foot]
            options = options.update_height(of_sweep)
        for line in head:
            yield fitted(line, width, ascii_only=ascii_only)
        if self.sight.sweep:
            yield from console.render(render(self.sight.sweep), options)
        for line in [*common, *(line for table in tables for line in table), *foot]:
            yield fitted(line, width, ascii_only=ascii_only)


def _newest_first(tables: Sequence[Layout]) -> list[Layout]:
    newest = [
        max(attempt for result in layout.table.results for attempt in result.attempt_ids)
        for layout in tables
    ]
    return [
        layout for _, layout in sorted(zip(newest, tables, strict=True), key=lambda pair: -pair[0])
    ]


def _fitting(tables: list[list[Text]], room: int) -> tuple[list[list[Text]], int]:
    """As many as there is room for, and how many are left out."""
    shown: list[list[Text]] = []
    for table in tables:
        # a line tells of those that are left out
        if room - len(table) < (len(shown) + 1 < len(tables)):
            break
        room -= len(table)
        shown.append(table)
    return shown, len(tables) - len(shown)


def _left_out(num: int) -> list[Text]:
    told = (
        f"and {num} more table{'' if num == 1 else 's'}; a higher window shows more, python -m "
        "plots tables all"
    )
    return [Text(told, style="dim")] if num else []


def _foot(sight: Sight, *, ascii_only: bool, whole: bool) -> list[Text]:
    """What must stand with every number, once; `whole`: also how the cells are read, for which
    there is room in the end.
    """
    tables = sight.tables
    if not tables:
        return []
    cells = [shown.result for layout in tables for _, row in layout.rows for shown in row]
    notes = dict.fromkeys(note for layout in tables for note in table_notes(layout.table))
    if whole:
        notes |= dict.fromkeys(
            [*(note for layout in tables for note in layout.notes), *sight.notes]
        )
    return [
        Text(visible(note), style="dim") for note in [legend(cells, ascii_only=ascii_only), *notes]
    ]


def _lines(layout: Layout, width: int, *, ascii_only: bool) -> list[Text]:
    """An empty one, title, headings, rows. Where the cells are too wide, the bars and the best
    number stand for them.
    """
    most = scale(layout.table.results)
    bars = [
        sparkline([shown.result for shown in row], most, ascii_only=ascii_only)
        for _, row in layout.rows
    ]
    heading = f"0..{for_people(most)}" if most else ""
    columns = [
        _Column(layout.corner, [Text(visible(name)) for name, _ in layout.rows]),
        *(
            _Column(title, [_cell(row[index]) for _, row in layout.rows], right=True)
            for index, title in enumerate(layout.columns)
        ),
        _Column(heading, [Text(bar, style="cyan") for bar in bars]),
    ]
    if sum(column.width + 2 for column in columns) - 2 > width:
        columns = [
            columns[0],
            columns[-1],
            _Column("most", [_most(row) for _, row in layout.rows], right=True),
        ]
    rows = [
        Text("  ").join(column.padded(index) for column in columns)
        for index in range(-1, len(layout.rows))
    ]
    for row in rows:
        row.rstrip()
    return [Text(""), Text(visible(layout.title), style="bold"), *rows]


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    cells: Sequence[Text]
    right: bool = False

    @property
    def width(self) -> int:
        return max([cell_len(visible(self.title)), *(cell.cell_len for cell in self.cells)])

    def padded(self, index: int) -> Text:
        """Of this row; -1: the heading."""
        cell = self.cells[index].copy() if index >= 0 else Text(visible(self.title), style="dim")
        space = Text(set_cell_size("", self.width - cell.cell_len))
        return space + cell if self.right else cell + space


def _cell(shown: Shown) -> Text:
    return Text(visible(shown.text), style={Rank.BEST: "bold"}.get(shown.rank, ""))


def _most(row: Sequence[Shown]) -> Text:
    numbers = [
        shown.result.images_per_second
        for shown in row
        if shown.result and shown.result.images_per_second is not None
    ]
    return Text(for_people(max(numbers)) if numbers else "")
