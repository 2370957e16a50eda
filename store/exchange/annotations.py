"""Reads and adds the tags and notes that people gave to sweeps, trials and attempts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from store import schema
from store.exchange.portable import Annotation
from store.rows import insert_all

Annotations = dict[Any, tuple[Annotation, ...]]
"""By the id of what they are about."""

_Table = type[schema.TagRow] | type[schema.NoteRow]


def read_annotations(
    connection: sa.Connection, column: str, subjects: Sequence[Any]
) -> tuple[Annotations, Annotations]:
    """Return the tags and the notes of those subjects that have any. `column` names their id."""
    tags = _read(connection, schema.TagRow, "tag", column, subjects)
    return tags, _read(connection, schema.NoteRow, "note", column, subjects)


def add_annotations(
    connection: sa.Connection,
    column: str,
    subject: int | str,
    tags: Sequence[Annotation],
    notes: Sequence[Annotation],
) -> None:
    """Add the tags and notes that are not there yet. The time of a tag does not count."""
    if not tags and not notes:
        return
    known_tags, known_notes = read_annotations(connection, column, [subject])
    words = {tag.text for tag in known_tags.get(subject, ())}
    for tag in dict.fromkeys(tags):
        if tag.text not in words:
            words.add(tag.text)
            row = {column: subject, "tag": tag.text, "added_at": tag.added_at}
            insert_all(connection, schema.TagRow, [row])
    for note in dict.fromkeys(notes):
        if note not in known_notes.get(subject, ()):
            row = {column: subject, "note": note.text, "added_at": note.added_at}
            insert_all(connection, schema.NoteRow, [row])


def _read(
    connection: sa.Connection, table: _Table, text: str, column: str, subjects: Sequence[Any]
) -> Annotations:
    columns = table.__table__.columns
    statement = (
        sa.select(columns[column], columns[text], table.added_at)
        .where(columns[column].in_(subjects))
        .order_by(table.added_at, table.id)
    )
    found: Annotations = {}
    for subject, words, at in connection.execute(statement):
        found[subject] = (*found.get(subject, ()), Annotation(text=words, added_at=at))
    return found
