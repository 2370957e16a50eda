"""Several tables to be read together: what they all have in common stands there once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from analysis.results import Environment
from analysis.selection import Selection
from analysis.tables.table import Table
from analysis.text.titles import SIMULATED, table_title, title
from plots.parts import Failed, stop
from plots.tables.layout import Layout, lay_out
from store.errors import StoreError


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Tables whose titles and notes say only what is not said for all of them."""

    heading: str  # the setting that all share; empty for a single table
    tables: tuple[Layout, ...]
    notes: tuple[str, ...]  # of all tables, the legend last, in one line


def document(
    tables: Sequence[Table],
    selection: Selection,
    quantities: Sequence[str] | None = None,
    failed: Failed = stop,
) -> Document:
    """Lay out tables of this selection. One that fails is left out, and `failed` is called. Raises
    StoreError when no other is left.
    """
    layouts = []
    for one in tables:
        try:
            layouts.append(lay_out(one, selection, quantities))
        except Exception as error:  # whatever it is, the other tables are worth showing
            failed(f"table {table_title(one.environment, one.setting)}", error)
    if not layouts:
        raise StoreError("no table: none of this selection can be laid out")
    legend = list(dict.fromkeys(line for layout in layouts for line in layout.legend))
    foot = ["; ".join(legend)] if legend else []
    if len(layouts) == 1:
        (layout,) = layouts
        alone = replace(layout, notes=(*layout.notes, *foot), legend=())
        return Document(heading="", tables=(alone,), notes=())
    common = _common([layout.table.setting for layout in layouts])
    environments = _environments([layout.table.environment for layout in layouts])
    is_simulated = all(layout.table.environment.is_simulated for layout in layouts)
    shared = set(layouts[0].notes).intersection(*(layout.notes for layout in layouts))
    once = [line for line in layouts[0].notes if line in shared]
    shown = []
    for layout in layouts:
        notes = tuple(line for line in layout.notes if line not in shared)
        title_text = _title(layout.table, common, environments)
        if is_simulated:
            title_text = title_text.removeprefix(SIMULATED)
        shown.append(replace(layout, title=title_text, notes=notes, legend=()))
    heading = f"{SIMULATED if is_simulated else ''}{title(common)}".removesuffix(": ")
    return Document(heading=heading, tables=tuple(shown), notes=(*once, *foot))


def _common(settings: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return what all settings share, but for the model, which every title names."""
    common = dict(settings[0])
    common.pop("model", None)
    for setting in settings:
        for axis in list(common):
            if axis not in setting or setting[axis] != common[axis]:
                del common[axis]
    return common


def _title(table: Table, common: Mapping[str, object], environments: Mapping[str, str]) -> str:
    own = {axis: value for axis, value in table.setting.items() if axis not in common}
    parts = table_title(table.environment, own), environments[table.environment.key]
    return ", ".join(part for part in parts if part)


def _environments(environments: Sequence[Environment]) -> dict[str, str]:
    """Return what distinguishes each environment: its host, its versions, or at last its key."""
    different = {environment.key: environment for environment in environments}
    hosts = {environment.host for environment in different.values()}
    texts = {}
    for key, environment in different.items():
        text = f"on {environment.host}" if len(hosts) > 1 else ""
        if len(hosts) < len(different):
            text = f"{text} ({environment.versions})" if text else environment.versions
        texts[key] = text
    if len(different) == 1:
        return dict.fromkeys(different, "")
    num_like = Counter((text, different[key].shares_host) for key, text in texts.items())
    for key, text in texts.items():
        if num_like[text, different[key].shares_host] > 1:
            texts[key] = f"{text}, environment {key}"
    return texts
