"""Names of pictures: the model, and only what tells a picture from its neighbors of the same
model.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence

from analysis.tables.table import Table
from analysis.text.titles import program_name
from scalemark.records.environment_axes import INHERITED, is_variable
from scalemark.text.file_name import safe_name
from scalemark.text.wording import as_typed


def file_names(tables: Sequence[Table]) -> list[str]:
    """A name per table, as `resnet50`, `resnet50-precision=fp16`, `resnet50-box7-a1b2c3` where
    machines or software differ; empty for a table of all models that has no neighbor.
    """
    neighbors: dict[object, list[Table]] = defaultdict(list)
    for table in tables:
        neighbors[table.setting.get("model")].append(table)
    num_environments = len({table.environment.key for table in tables})
    names = [
        _name(table, neighbors[table.setting.get("model")], num_environments) for table in tables
    ]
    return unique(names)


def unique(names: Sequence[str]) -> list[str]:
    """Number names from the second of each on."""
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        if seen[name] == 1:
            found.append(name)
        else:
            found.append(f"{name}-{seen[name]}".removeprefix("-"))
    return found


def _name(table: Table, neighbors: Sequence[Table], num_environments: int) -> str:
    parts = [str(table.setting["model"])] if "model" in table.setting else []
    for axis, value in table.setting.items():
        is_nothing = axis == "injected" and not value
        if not is_nothing and len({str(other.setting.get(axis)) for other in neighbors}) > 1:
            parts.append(_part(axis, value))
    if num_environments > 1:
        parts += [table.environment.host, table.environment.key]
    return safe_name("-".join(parts))


def _part(axis: str, value: object) -> str:
    if axis == "command":
        return program_name(str(value)).replace(" ", "=")
    if axis == "read":
        return f"read={_short(str(value))}"
    if value is None and is_variable(axis):
        value = INHERITED
    return f"{axis}={as_typed(value)}"


def _short(read: str) -> str:
    """Return a reader without its pattern, as `regex-3f2a1c`; one that has none as it is."""
    kind, colon, _ = read.partition(":")
    return f"{kind}-{hashlib.sha256(read.encode()).hexdigest()[:6]}" if colon else kind
