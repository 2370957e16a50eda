"""Several tables to be read together: what they all have in common is told once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from analysis.pivot import Table
from analysis.results import Place
from analysis.selection import Selection
from analysis.text.titles import table_title, title
from plots.parts import Failed, stop
from plots.tables.layout import Layout, lay_out
from store.errors import StoreError


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Tables whose titles and notes say only what is not said for all of them."""

    heading: str  # what all tables have in common; empty where there is nothing, or one table only
    tables: tuple[Layout, ...]
    notes: tuple[str, ...]  # of all tables; last the legend


def document(
    tables: Sequence[Table],
    selection: Selection,
    quantities: Sequence[str] | None = None,
    failed: Failed = stop,
) -> Document:
    """Lay out tables of this selection. Those for which that fails are left out, and `failed` is
    told. Raises StoreError when no other is left.
    """
    layouts = []
    for one in tables:
        try:
            layouts.append(lay_out(one, selection, quantities))
        except Exception as error:  # whatever it is, the other tables are worth showing
            failed(f"table {table_title(one.place, one.setting)}", error)
    if not layouts:
        raise StoreError("no table: none of this selection can be laid out")
    tables = [layout.table for layout in layouts]
    if len(layouts) == 1:
        return Document(heading="", tables=tuple(layouts), notes=())
    common = _common([table.setting for table in tables])
    legend = list(dict.fromkeys(line for layout in layouts for line in layout.legend))
    everywhere = (
        set(layouts[0].notes).intersection(*(layout.notes for layout in layouts)).difference(legend)
    )
    notes = [line for line in layouts[0].notes if line in everywhere]
    places = _places([table.place for table in tables])
    told = everywhere.union(legend)
    return Document(
        heading=title(common),
        tables=tuple(
            replace(
                layout,
                title=_title(layout.table, common, places),
                notes=tuple(line for line in layout.notes if line not in told),
                legend=(),
            )
            for layout in layouts
        ),
        notes=(*notes, *legend),
    )


def _common(settings: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Not the model: every table is called by it."""
    return {
        axis: value
        for axis, value in settings[0].items()
        if axis != "model"
        and all(axis in setting and setting[axis] == value for setting in settings)
    }


def _title(table: Table, common: Mapping[str, object], places: Mapping[str, str]) -> str:
    own = table_title(
        table.place, {axis: value for axis, value in table.setting.items() if axis not in common}
    )
    return ", ".join(filter(None, (own, places[table.place.key])))


def _places(places: Sequence[Place]) -> dict[str, str]:
    """What tells them from each other; empty where there is one only."""
    different = {place.key: place for place in places}
    if len(different) == 1:
        return dict.fromkeys(different, "")
    hosts = {place.host for place in different.values()}
    same_host = len(hosts) < len(different)
    told = {}
    for key, place in different.items():
        versions = (
            (f"({place.versions})" if len(hosts) > 1 else f"with {place.versions}")
            if same_host
            else ""
        )
        told[key] = " ".join(filter(None, (f"on {place.host}" if len(hosts) > 1 else "", versions)))
    num_like = Counter((text, different[key].shares_host) for key, text in told.items())
    return {
        key: f"{text}, place {key}" if num_like[text, different[key].shares_host] > 1 else text
        for key, text in told.items()
    }
