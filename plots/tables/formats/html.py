"""HTML for browsers and mails: one page with tables that screen readers can read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TextIO

from plots.tables.document import Document
from plots.tables.layout import Layout, Shown
from scalemark.text.untrusted import visible

_BEGIN = """<!DOCTYPE html>
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
tbody th, thead th:first-child { text-align: left; font-weight: normal }
.best { font-weight: bold }
ul { color: GrayText; font-size: smaller; padding-left: 1rem }
</style>
</head>
<body>
"""
_END = "</body>\n</html>\n"


def write(documents: Sequence[Document], out: TextIO) -> None:
    out.write(_BEGIN)
    for document in documents:
        out.writelines(f"{line}\n" for line in _lines(document))
    out.write(_END)


def _lines(document: Document) -> Iterator[str]:
    if document.heading:
        yield f"<h2>{_escaped(document.heading)}</h2>"
    for layout in document.tables:
        yield from _table(layout)
        yield from _notes(layout.notes)
    yield from _notes(document.notes)


def _table(layout: Layout) -> Iterator[str]:
    yield "<div><table>"
    if layout.title:
        yield f"<caption>{_escaped(layout.title)}</caption>"
    headings = "".join(
        f'<th scope="col">{_escaped(text)}</th>' for text in (layout.corner, *layout.columns)
    )
    yield f"<thead><tr>{headings}</tr></thead>"
    yield "<tbody>"
    for name, cells in layout.rows:
        yield f'<tr><th scope="row">{_escaped(name)}</th>{"".join(map(_cell, cells))}</tr>'
    yield "</tbody>"
    yield "</table></div>"


def _cell(cell: Shown) -> str:
    best = ' class="best"' if cell.is_bold else ""
    return f"<td{best}>{_escaped(cell.text)}</td>"


def _notes(notes: Sequence[str]) -> Iterator[str]:
    if notes:
        yield f"<ul>{''.join(f'<li>{_escaped(note)}</li>' for note in notes)}</ul>"


def _escaped(text: str) -> str:
    return escape(visible(text))
