"""Writes tables as text for a terminal, Markdown, HTML or LaTeX, or as records in CSV or JSON."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from analysis.labels import axes_of
from analysis.pivot import Cell
from plots.options import draft_of
from plots.tables.layout import Document, Layout, Shown
from scalemark.cli.terminal import PIPE_WIDTH, finite, fitted, print_columns
from scalemark.records import trial
from scalemark.records.references import Origin
from scalemark.text.untrusted import visible
from scalemark.text.wording import CsvLines, as_typed, guarded, shortened
from store.errors import StoreError
from store.filters.selection import nearest

Write = Callable[[Sequence[Document], TextIO], None]

# endings of files, too
_SHORT_NAMES = {"md": "markdown", "tex": "latex", "htm": "html", "txt": "terminal"}
_MOST_ROWS = 1_000  # that a terminal shows with bold cells; more would take seconds


def names() -> list[str]:
    """Return the names of all formats."""
    return sorted(_WRITERS)


def of_file(path: Path) -> str | None:
    """Return the format for the ending of a file's name; None where it has none. Raises StoreError
    for another ending.
    """
    ending = path.suffix.removeprefix(".").lower()
    if not ending or ending == "txt":
        return None
    if ending not in _WRITERS and ending not in _SHORT_NAMES:
        raise StoreError(
            f"--out {shortened(path.name, 60)}: no format has this ending; name one with "
            f"--format, of {', '.join(names())}"
        )
    return ending


def chosen(name: str | None, as_json: bool = False) -> Write:
    """Return the writer of this format, else the one for terminals. Raises StoreError for an
    unknown name.
    """
    if as_json and name not in (None, "json"):
        raise StoreError(f"--json with --format {name}: give either")
    wanted = "json" if as_json else _SHORT_NAMES.get(name or "terminal", name or "terminal")
    if wanted not in _WRITERS:
        raise StoreError(f"{wanted[:100]}: no such format; {nearest(wanted[:100], names())}")
    return _WRITERS[wanted]


def write_file(documents: Sequence[Document], write: Write, path: Path) -> None:
    """Write the file whole or not at all. Raises StoreError when it cannot be written."""
    try:
        with draft_of(path) as draft, draft.open("w", encoding="utf-8", newline="") as out:
            write(documents, out)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; choose another file with --out") from error


# Text


def _write_terminal(documents: Sequence[Document], out: TextIO) -> None:
    """Write bold and folded lines on a terminal, and plain ones where a pipe or a file reads."""
    num_rows = sum(len(layout.rows) for document in documents for layout in document.tables)
    is_terminal = None if num_rows <= _MOST_ROWS else False
    console = Console(file=out, highlight=False, force_terminal=is_terminal)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    for number, document in enumerate(documents):
        if number:
            console.print()
        _print_document(console, document)


def _print_document(console: Console, document: Document) -> None:
    widest = max(_width(layout) for layout in document.tables)
    is_short = widest > console.width
    above = [*filter(None, [document.heading]), *document.doubts]
    for line in above:
        _say(console, line, "bold" if line == document.heading else "")
    if above:
        console.print()
    for number, layout in enumerate(document.tables):
        if number:
            console.print()
        if layout.title:
            _say(console, layout.title, "bold")
        _print_table(console, layout, is_short=is_short)
        for note in layout.notes:
            _say(console, note, "dim")
    notes = list(document.notes)
    if is_short and any(cell.short != cell.text for cell in _cells(document)):
        notes.append(f"left out for width: intervals; {widest} columns or --show interval has them")
    if document.notes:
        console.print()
    for note in notes:
        _say(console, note, "dim")


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(Text(visible(text), style=style), soft_wrap=not console.is_terminal)


def _cells(document: Document) -> Iterator[Shown]:
    for layout in document.tables:
        for _, cells in layout.rows:
            yield from cells


def _width(layout: Layout) -> int:
    rows = [[*heads, *(cell.text for cell in cells)] for heads, cells in layout.rows]
    widths, gap = fitted([*layout.heads, *layout.columns], rows, PIPE_WIDTH)
    return sum(widths) + gap * (len(widths) - 1)


def _print_table(console: Console, layout: Layout, *, is_short: bool) -> None:
    rows = []
    bold = set()
    for number, (heads, cells) in enumerate(layout.rows):
        rows.append([*heads, *(cell.short if is_short else cell.text for cell in cells)])
        for place, cell in enumerate(cells, start=len(heads)):
            if cell.is_bold:
                bold.add((number, place))
    right = frozenset(map(visible, layout.columns))
    print_columns(console, [*layout.heads, *layout.columns], rows, right, bold=bold)


# Markup


def _write_markdown(documents: Sequence[Document], out: TextIO) -> None:
    """Write what GitHub shows as tables: for READMEs, issues and chats."""
    blocks = []
    for document in documents:
        blocks += [f"**{_for_markdown(document.heading)}**"] if document.heading else []
        blocks += [_for_markdown(line) for line in document.doubts]
        for layout in document.tables:
            blocks += [f"### {_for_markdown(layout.title)}"] if layout.title else []
            blocks.append("\n".join(_markdown_grid(layout)))
            blocks += _markdown_notes(layout.notes)
        blocks += _markdown_notes(document.notes)
    out.write("\n\n".join(blocks) + "\n")


def _markdown_grid(layout: Layout) -> Iterator[str]:
    yield _row_of(map(_for_markdown, (*layout.heads, *layout.columns)))
    yield f"|{' --- |' * len(layout.heads)}{' ---: |' * len(layout.columns)}"
    for heads, cells in layout.rows:
        texts = [_marked(cell, _for_markdown, "**{}**") for cell in cells]
        yield _row_of([*map(_for_markdown, heads), *texts])


def _row_of(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _marked(cell: Shown, escaped: Callable[[str], str], bold: str) -> str:
    text = escaped(cell.text)
    return bold.format(text) if cell.is_bold else text


def _markdown_notes(notes: Sequence[str]) -> list[str]:
    return ["\n".join(f"- {_for_markdown(note)}" for note in notes)] if notes else []


def _for_markdown(text: str) -> str:
    """Escape what Markdown and HTML obey; both leave underscores within words alone."""
    return re.sub(r"[\\`*|<>\[\]#~&]|(?<!\w)_|_(?!\w)", r"\\\g<0>", visible(text))


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>scalemark: tables</title>
<style>
:root { color-scheme: light dark }
body { font-family: system-ui, sans-serif; margin: 1rem; max-width: 70rem }
div { overflow-x: auto }
table { border-collapse: collapse; margin-top: 1.5rem }
caption { text-align: left; font-weight: bold; padding: .3rem 0 }
th, td { padding: .2rem .6rem; border-bottom: 1px solid #8888; text-align: right }
td { font-variant-numeric: tabular-nums }
thead th { border-bottom: 2px solid }
tbody th, thead th.head { text-align: left; font-weight: normal }
.best { font-weight: bold }
ul { color: GrayText; font-size: smaller; padding-left: 1rem }
</style>
</head>
<body>
"""


def _write_html(documents: Sequence[Document], out: TextIO) -> None:
    """Write one page that needs no other file."""
    out.write(_PAGE)
    for document in documents:
        if document.heading:
            out.write(f"<h2>{for_html(document.heading)}</h2>\n")
        for line in document.doubts:
            out.write(f"<p>{for_html(line)}</p>\n")
        for layout in document.tables:
            out.write(f"<div>{html_table(layout)}</div>\n{_html_notes(layout.notes)}")
        out.write(_html_notes(document.notes))
    out.write("</body>\n</html>\n")


def html_table(layout: Layout) -> str:
    """Return the table with a caption, and scopes that screen readers read."""
    heads = [f'<th scope="col" class="head">{for_html(text)}</th>' for text in layout.heads]
    heads += [f'<th scope="col">{for_html(text)}</th>' for text in layout.columns]
    caption = f"<caption>{for_html(layout.title)}</caption>" if layout.title else ""
    lines = [f"<table>{caption}", f"<thead><tr>{''.join(heads)}</tr></thead>", "<tbody>"]
    for texts, cells in layout.rows:
        row = [f'<th scope="row">{for_html(text)}</th>' for text in texts]
        for cell in cells:
            best = ' class="best"' if cell.is_bold else ""
            row.append(f"<td{best}>{for_html(cell.text)}</td>")
        lines.append(f"<tr>{''.join(row)}</tr>")
    return "\n".join([*lines, "</tbody>", "</table>"])


def _html_notes(notes: Sequence[str]) -> str:
    items = "".join(f"<li>{for_html(note)}</li>" for note in notes)
    return f"<ul>{items}</ul>\n" if notes else ""


def for_html(text: str) -> str:
    return html.escape(visible(text))


def _write_latex(documents: Sequence[Document], out: TextIO) -> None:
    """Write tables for papers, which need booktabs and a LaTeX that reads UTF-8."""
    out.write("% \\usepackage[utf8]{inputenc} \\usepackage[T1]{fontenc} \\usepackage{booktabs}\n")
    for document in documents:
        common = [*filter(None, [document.heading]), *document.doubts, *document.notes]
        for layout in document.tables:  # each can be taken alone, with the notes of all
            out.writelines(f"{line}\n" for line in _latex_table(layout, common))


def _latex_table(layout: Layout, notes: Sequence[str]) -> Iterator[str]:
    yield "\\begin{table}"
    yield "\\centering"
    if layout.title:
        yield f"\\caption{{{_for_latex(layout.title)}}}"
    yield f"\\begin{{tabular}}{{{'l' * len(layout.heads)}{'r' * len(layout.columns)}}}"
    yield "\\toprule"
    yield f"{' & '.join(map(_for_latex, (*layout.heads, *layout.columns)))} \\\\"
    yield "\\midrule"
    for heads, cells in layout.rows:
        texts = [_marked(cell, _for_latex, "\\textbf{{{}}}") for cell in cells]
        yield f"{' & '.join([*map(_for_latex, heads), *texts])} \\\\"
    yield "\\bottomrule"
    yield "\\end{tabular}"
    for note in (*layout.notes, *notes):
        yield f"\\par\\footnotesize {_for_latex(note)}"
    yield "\\end{table}"


def _for_latex(text: str) -> str:
    """Escape a text. LaTeX takes a bracket that begins a row for an option: braces hide it."""
    escaped = "".join(_LATEX.get(letter, letter) for letter in visible(text))
    return f"{{[}}{escaped[1:]}" if escaped[:1] == "[" else escaped


_LATEX = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "|": "\\textbar{}",
    '"': "\\textquotedbl{}",
    "–": "--",
    "≈": "$\\approx$",
    "↓": "$\\downarrow$",
    "†": "$\\dagger$",
    "×": "$\\times$",
}


# Records


def _write_csv(documents: Sequence[Document], out: TextIO) -> None:
    """Write a line per result, with unrounded numbers."""
    found = records(documents)
    shown = visible if out.isatty() else str  # a file keeps text as it is
    lines = CsvLines(out)
    # free axes may differ between trials: the first record has those of its own only
    columns = list(dict.fromkeys(name for record in found for name in record))
    lines.write_rows([columns])
    lines.write_rows([_csv_cell(record.get(name), shown) for name in columns] for record in found)


def _csv_cell(value: object, shown: Callable[[str], str]) -> object:
    """Join lists with spaces, and guard text that a spreadsheet would take for a formula."""
    if isinstance(value, bool):
        return as_typed(value)
    if isinstance(value, list):
        value = " ".join(map(str, value))
    return guarded(shown(value)) if isinstance(value, str) else value


def _write_json(documents: Sequence[Document], out: TextIO) -> None:
    """Write the records of CSV, with their types."""
    json.dump([finite(record) for record in records(documents)], out, indent=1)
    out.write("\n")


def records(documents: Sequence[Document]) -> list[dict[str, Any]]:
    """Return a record for each cell that has a result, table by table. All have the same fields:
    axes that no trial of ours has are none.
    """
    tables = [layout.table for document in documents for layout in document.tables]
    found = []
    for table in tables:
        for row in table.rows:
            for column in table.columns:
                cell = table.cells.get((row, column))
                if cell is not None:
                    found.append(_record(cell))
    if not all(record["origin"] == Origin.PUBLISHED for record in found):
        for name in trial.AXES:
            if all(record.get(name) is None for record in found):
                for record in found:
                    record.pop(name, None)
    return found


def _record(cell: Cell) -> dict[str, Any]:
    result = cell.result
    environment, baseline = result.environment, result.baseline
    return {
        "origin": str(environment.origin),
        "environment": environment.key,
        "host": environment.host,
        "machine": environment.machine,
        "versions": environment.versions,
        "environment_device_kind": str(environment.device_kind),
        "shares_host": environment.shares_host,
        **{axis: result.axes[axis] for axis in axes_of([result])},
        "trial_id": result.trial_id,
        "outcome": str(result.outcome),
        "is_valid": result.is_valid,
        "failed_repeats": list(result.failed),
        "rank": str(cell.rank),
        "num_repeats": len(result.repeats),
        "repeats": list(result.repeats),
        "item": result.item,
        "is_reported": result.is_reported,
        "throughput": result.throughput,
        "throughput_low": result.low,
        "throughput_high": result.high,
        "speed_up": result.speed_up,
        "efficiency": result.efficiency,
        "mfu": result.usage.mfu,
        "memory_bytes": result.usage.memory_bytes,
        "variable_bytes": result.usage.variable_bytes,
        "optimizer_state_bytes": result.usage.optimizer_state_bytes,
        "attempt_ids": list(result.attempt_ids),
        "baseline_trial_id": baseline and baseline.trial_id,
        "baseline_strategy": baseline and baseline.strategy,
        "baseline_num_gpus": baseline and baseline.num_gpus,
        "baseline_hosts": baseline and baseline.hosts,
        "baseline_throughput": baseline and baseline.throughput,
    }


_WRITERS: Mapping[str, Write] = {
    "csv": _write_csv,
    "html": _write_html,
    "json": _write_json,
    "latex": _write_latex,
    "markdown": _write_markdown,
    "terminal": _write_terminal,
}
