"""Reads figures that others measured: published ones, and those of tables that were taken in."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import sqlalchemy as sa

from scalemark.host.own_code import typed
from scalemark.records.axes import PREFIX, is_free, name_in_records, number_of
from scalemark.records.references import Origin, Reference, ReferenceKind, published
from scalemark.stats.welch import typical
from store.errors import StoreError
from store.filters import ORDERS, Filter, either, parsed_with, pattern, real, several, single, whole
from store.reading.queries import STREAMED, Row, num_attempts, rows_of
from store.rows import in_chunks
from store.schema import ReferenceRow


def known_references(connection: sa.Connection | None) -> list[Row]:
    """Return the fields of each reference that can be looked up, in the order in which they were
    added; without a database those that come with scalemark.
    """
    if connection is None:
        return [asdict(reference) for reference in published()]
    columns = [getattr(ReferenceRow, field.name) for field in fields(Reference)]
    can_be_looked_up = ReferenceRow.origin != ReferenceKind.TABLE
    return rows_of(
        connection, sa.select(*columns).where(can_be_looked_up).order_by(ReferenceRow.id)
    )


_OF_ITS_ROWS = ("axes", "throughput", "repeat", "evidence", "note")
_OF_A_TRIAL = tuple(field.name for field in fields(Reference) if field.name not in _OF_ITS_ROWS)


def measured_elsewhere(connection: sa.Connection) -> list[Row]:
    """Return the fields of each trial, in the order of their first rows, with its `repeats`: the
    throughputs of rows that agree in all axes. `throughput` is their geometric mean.

    What rows say beside their axes, as a note, is left out. In memory are the trials and their
    throughputs, and no more of a million rows.
    """
    trials: dict[tuple[Any, ...], Row] = {}
    for throughput, axes, *own in _of_tables(connection, ReferenceRow.throughput):
        key = (*axes.items(), *own)
        if key not in trials:
            values = dict(zip(_OF_A_TRIAL, own, strict=True))
            trials[key] = {**values, "axes": axes, "repeats": []}
        trials[key]["repeats"].append(throughput)
    for trial in trials.values():
        trial["throughput"] = typical(trial["repeats"])
    return list(trials.values())


def _of_tables(connection: sa.Connection, *first: Any) -> Iterable[Any]:
    """Return rows of tables in their order: columns, the axes, and the fields of their trial."""
    columns = [getattr(ReferenceRow, name) for name in _OF_A_TRIAL]
    statement = (
        sa.select(*first, ReferenceRow.axes, *columns)
        .where(ReferenceRow.origin == ReferenceKind.TABLE)
        .order_by(ReferenceRow.id)
    )
    return connection.execute(statement, execution_options=STREAMED)


def num_corrected(
    connection: sa.Connection, sources: Collection[str], last_id: int, keys: Collection[str]
) -> int:
    """Return how many trials of tables have a new row, of an id above `last_id`, beside an earlier
    one that their tables lack by now: `keys` are those of all rows that these have.
    """
    row = (ReferenceRow.id, ReferenceRow.key, ReferenceRow.source)
    new, gone = set(), set()
    for id_, key, source, axes, *own in _of_tables(connection, *row):
        trial = (*axes.items(), *own)
        if id_ > last_id:
            new.add(trial)
        elif source in sources and key not in keys:
            gone.add(trial)
    return len(new & gone)


def remove(connection: sa.Connection, filters: Sequence[str]) -> tuple[int, int]:
    """Remove the references that filters choose, within the caller's transaction; return how many,
    and how many stay because they come with scalemark. Raises StoreError where there are none.
    """
    statement = sa.select(ReferenceRow.__table__).order_by(ReferenceRow.id)
    ids: list[int] = []
    num_kept = 0
    for rows in connection.execute(statement).mappings().partitions(_AT_A_TIME):
        part = []
        for row in rows:  # with one column for how variables are shared
            parts = [row[name] for name in _OF_STRATEGY]
            parts += [f"{name}={value}" for name, value in row["axes"].items()]
            strategy = " ".join(text for text in parts if text not in ("", "none", "n/a"))
            part.append({**row, "strategy": strategy})
        for position in chosen(part, filters):
            if part[position]["origin"] == ReferenceKind.PUBLISHED:
                num_kept += 1
            else:
                ids.append(part[position]["id"])
    if not ids and not num_kept:
        own = sa.select(ReferenceRow.source).where(ReferenceRow.origin != ReferenceKind.PUBLISHED)
        there = ", ".join(connection.scalars(own.distinct().order_by(ReferenceRow.source)))
        raise StoreError(
            f"{' '.join(filters)}: no figure is like that; sources to remove: {there or 'none'}"
        )
    for some in in_chunks(ids):
        connection.execute(sa.delete(ReferenceRow).where(ReferenceRow.id.in_(some)))
    return len(ids), num_kept


_AT_A_TIME = 10_000  # rows that are looked at together
_OF_STRATEGY = ("variable_update", "all_reduce", "local_parameter_device")


def has_any(connection: sa.Connection) -> bool:
    """Return whether any table was taken in."""
    of_tables = sa.select(ReferenceRow.id).where(ReferenceRow.origin == ReferenceKind.TABLE)
    return connection.scalar(of_tables.limit(1)) is not None


def is_all(connection: sa.Connection) -> bool:
    """Return whether tables were taken in, and no attempt of our own counts."""
    return has_any(connection) and not num_attempts(connection)


def instead(connection: sa.Connection) -> str:
    """Say how to see numbers that were measured elsewhere; empty where attempts of our own count,
    or where there are no such numbers.
    """
    if is_all(connection):
        shown_by = f"{typed('table')} --origin {Origin.ELSEWHERE}"
        return f"only numbers that were measured elsewhere in it; `{shown_by}` shows them"
    return ""


_TEXTS = ("strategy", *(field.name for field in fields(Reference) if field.type == "str"))
_NUMBERS: Mapping[str, Callable[[Filter, str], float]] = {
    "batch_size": whole,
    "hosts": whole,
    "num_gpus": whole,
    "throughput": real,
}
FIELDS = (*_TEXTS, *_NUMBERS)


def chosen(references: Sequence[Mapping[str, Any]], filters: Sequence[str]) -> list[int]:
    """Return the positions of the references for which all filters hold.

    Case does not matter, nor the `?` that marks what a source leaves in doubt. Raises StoreError
    for text that is no filter, and for two filters of one name that cannot both hold.
    """
    free = {name for reference in references for name in reference.get("axes", ())}
    named = [full_name(text) if _name(text) in free else text for text in filters]
    wanted = parsed(named)
    by_name: dict[str, Filter] = {}
    for asked in wanted:
        if asked.operator != "=":
            continue
        other = by_name.setdefault(asked.name, asked)
        if {*map(_comparable, several(asked))}.isdisjoint(map(_comparable, several(other))):
            raise StoreError(either(other, asked))
    conditions = [(asked.name, _condition(asked)) for asked in wanted]
    positions = []
    for position, reference in enumerate(references):
        if all(holds(_value(reference, name)) for name, holds in conditions):
            positions.append(position)
    return positions


def full_name(text: str) -> str:
    """Return a filter whose name is no field as one of a free axis, also without its prefix."""
    is_bare = _name(text) not in (*FIELDS, "")
    if is_bare:
        return f"{PREFIX}{text.lstrip()}"
    return text


def _name(text: str) -> str:
    """Return the name that a filter begins with; empty where it has a prefix, or none."""
    name = re.match(r"\s*(\w+)(?!\.)\b", text)
    return name[1] if name else ""


def parsed(filters: Sequence[str]) -> list[Filter]:
    """Raises StoreError for text that is no filter, and for unknown names."""
    examples = dict.fromkeys(_TEXTS, "VALUE") | dict.fromkeys(_NUMBERS, "4")
    return parsed_with(filters, examples)


def _value(reference: Mapping[str, Any], name: str) -> Any:
    if is_free(name):
        return reference["axes"].get(name_in_records(name), "")
    return reference[name]


def _condition(asked: Filter) -> Callable[[Any], bool]:
    """Return what has to hold of a value: numbers compare as numbers, and texts without case."""
    read = _NUMBERS.get(asked.name, real)
    if asked.name in _TEXTS:
        asked.check_operator(("=", "!=", "~"))
    elif asked.name in _NUMBERS:
        asked.check_operator(("=", "!=", *ORDERS))
    if asked.operator == "~":
        like = re.compile(pattern(asked), re.IGNORECASE)
        return lambda value: like.search(str(value)) is not None
    if asked.operator in ORDERS:
        holds, limit = ORDERS[asked.operator], read(asked, single(asked))
        return lambda value: isinstance(value, int | float) and holds(value, limit)
    texts = several(asked)
    if asked.name in _NUMBERS:
        for text in texts:
            read(asked, text)
    wanted = {_comparable(text) for text in texts}
    return lambda value: (_comparable(value) in wanted) is (asked.operator == "=")


def _comparable(value: object) -> str | float:
    """Return 2.0 for 2, `2` and `2.0`, and text without case for all else."""
    text = str(value).casefold().rstrip("?")
    number = number_of(text)
    return text if number is None else number
