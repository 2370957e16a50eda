"""Reads the axes of trials as columns, each trial once however many attempts it has."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import sqlalchemy as sa

from store.filters.selection import NOT_AXES
from store.reading.columns import Array, Kind, fetch, kind_of, take
from store.schema import TrialRow
from store.trial_rows import free_columns

AXES = tuple(column.name for column in TrialRow.__table__.columns if column.name not in NOT_AXES)
_KINDS = {column.name: kind_of(column) for column in TrialRow.__table__.columns}
_APART = ("seed", *(name for name in AXES if _KINDS[name] is Kind.NUMBERS))
"""Axes that are read by themselves. All others, which many trials have alike, are one text; each
different one is parsed once.
"""

_MOST_IDS = 10_000  # in one statement; SQLite takes 32,766


@dataclass(frozen=True, slots=True)
class TrialColumns:
    """Trials with their axes."""

    ids: pd.Categorical  # all different: the code is the trial's place
    axes: dict[str, Any]  # name -> array as long as ids

    def of(self, places: Array) -> dict[str, Any]:
        """Return trial_id and all axes of the trials at these places."""
        return {"trial_id": take(self.ids, places)} | {
            name: take(column, places) for name, column in self.axes.items()
        }

    def places_of(self, ids: pd.Categorical) -> Array:
        """Return where the trials of these ids are."""
        places = pd.Index(self.ids.categories).get_indexer(ids.categories)
        return np.asarray(places, np.int64).take(ids.codes)


def read_trials(connection: sa.Connection, ids: pd.Categorical) -> TrialColumns:
    """Return at least the trials of these ids, with all axes, free ones last."""
    free = free_columns(connection)
    alike = [name for name in AXES if name not in _APART]
    columns = TrialRow.__table__.columns
    array = {"sqlite": sa.func.json_array, "postgresql": sa.func.json_build_array}[
        connection.dialect.name
    ]
    together = sa.cast(array(*(columns[name] for name in alike)), sa.Text).label("together")
    reported = (
        TrialRow.id,
        together,
        *(columns[name] for name in _APART),
        *free.values(),
    )
    statement = sa.select(*reported).where(_among(TrialRow.id, ids.categories))
    kinds = {"id": Kind.WORDS, "together": Kind.WORDS} | {name: _KINDS[name] for name in _APART}
    kinds |= {name: kind_of(column) for name, column in free.items()}
    found = fetch(connection, statement, kinds)
    parsed = _parsed(alike, found["together"].categories)
    axes = {
        name: found[name] if name in _APART else take(parsed[name], found["together"].codes)
        for name in AXES
    }
    axes |= {name: found[name] for name in free}
    return TrialColumns(ids=found["id"], axes=axes)


def _among(column: Any, words: Collection[str]) -> sa.ColumnElement[bool]:
    """Return whether the column is one of these words; true when they are so many that reading all
    rows is faster than looking them up.
    """
    found: sa.ColumnElement[bool] = (
        column.in_(list(words)) if len(words) <= _MOST_IDS else sa.true()
    )
    return found


def _parsed(names: Sequence[str], together: Iterable[str]) -> dict[str, Any]:
    rows = [json.loads(text) for text in together]
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return {name: _array(_KINDS[name], of) for name, of in zip(names, cells, strict=True)}


def _array(kind: Kind, cells: tuple[Any, ...]) -> Any:
    if kind is Kind.WORDS:
        codes, words = pd.factorize(np.array(cells, object))
        return pd.Categorical.from_codes(codes, categories=pd.Index(words, dtype=object))
    if None in cells:  # of trials that lack the axis
        return pd.array(cells, "boolean" if kind is Kind.MAYBE_FLAGS else "Int64")
    return np.array(cells, np.bool_ if kind in (Kind.FLAGS, Kind.MAYBE_FLAGS) else np.int64)
