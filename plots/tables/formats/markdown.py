"""Markdown for READMEs, issues and chats."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TextIO

from plots.tables.document import Document
from plots.tables.layout import Layout, Shown
from scalemark.text.untrusted import visible


def write(documents: Sequence[Document], out: TextIO) -> None:
    blocks = (block for document in documents for block in _blocks(document))
    out.write("\n\n".join(blocks) + "\n")


def _blocks(document: Document) -> Iterator[str]:
    if document.heading:
        yield f"**{_escaped(document.heading)}**"
    for layout in document.tables:
        if layout.title:
            yield f"### {_escaped(layout.title)}"
        yield "\n".join(_grid(layout))
        yield from _notes(layout.notes)
    yield from _notes(document.notes)


def _grid(layout: Layout) -> Iterator[str]:
    yield _line([layout.corner, *layout.columns])
    yield f"|{'|'.join([' --- ', *(' ---: ' for _ in layout.columns)])}|"
    for name, cells in layout.rows:
        yield f"| {' | '.join([_escaped(name), *map(_cell, cells)])} |"


def _line(texts: Sequence[str]) -> str:
    return f"| {' | '.join(map(_escaped, texts))} |"


def _cell(cell: Shown) -> str:
    text = _escaped(cell.text)
    return f"**{text}**" if cell.is_bold else text


def _notes(notes: Sequence[str]) -> Iterator[str]:
    if notes:
        yield "\n".join(f"- {_escaped(note)}" for note in notes)


def _escaped(text: str) -> str:
    """Escape what Markdown and HTML obey; both leave underscores within words alone."""
    return re.sub(r"[\\`*|<>\[\]#~&]|(?<!\w)_|_(?!\w)", r"\\\g<0>", visible(text))
