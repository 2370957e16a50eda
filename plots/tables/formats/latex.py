"""LaTeX for papers: needs the package booktabs, and a LaTeX that reads UTF-8."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from plots.tables.document import Document
from plots.tables.layout import Layout, Shown
from scalemark.text.untrusted import visible


def write(documents: Sequence[Document], out: TextIO) -> None:
    out.write("% \\usepackage[utf8]{inputenc} \\usepackage[T1]{fontenc} \\usepackage{booktabs}\n")
    for document in documents:
        notes = tuple(filter(None, (document.heading, *document.notes)))
        for layout in document.tables:
            out.writelines(f"{line}\n" for line in _table(layout, notes))


def _table(layout: Layout, notes: Sequence[str]) -> Iterator[str]:
    """Make a table that can be taken alone: notes about all tables are below each."""
    yield "\\begin{table}"
    yield "\\centering"
    if layout.title:
        yield f"\\caption{{{_escaped(layout.title)}}}"
    yield f"\\begin{{tabular}}{{l{'r' * len(layout.columns)}}}"
    yield "\\toprule"
    yield _line([layout.corner, *layout.columns])
    yield "\\midrule"
    for name, cells in layout.rows:
        yield f"{' & '.join([_escaped(name), *map(_cell, cells)])} \\\\"
    yield "\\bottomrule"
    yield "\\end{tabular}"
    for note in (*layout.notes, *notes):
        yield f"\\par\\footnotesize {_escaped(note)}"
    yield "\\end{table}"


def _line(texts: Sequence[str]) -> str:
    return f"{' & '.join(map(_escaped, texts))} \\\\"


def _cell(cell: Shown) -> str:
    text = _escaped(cell.text)
    return f"\\textbf{{{text}}}" if cell.is_bold else text


def _escaped(text: str) -> str:
    """A row may begin with a bracket, which LaTeX would take for an option of the line before:
    braces hide it.
    """
    reported = "".join(_SPECIAL.get(one, one) for one in visible(text))
    return f"{{{reported[0]}}}{reported[1:]}" if reported[:1] == "[" else reported


_SPECIAL = {
    "\\": "\\textbackslash{}",
    "&": "\\&",
    "%": "\\%",
    "$": "\\$",
    "#": "\\#",
    "_": "\\_",
    "{": "\\{",
    "}": "\\}",
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
