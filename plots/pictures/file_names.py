"""Names of pictures: the model, and only what tells a picture from its neighbors of the same
model.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence

from analysis.tables.table import Table
from analysis.text.titles import program_name
from scalemark.text.wording import as_typed, safe_name


def file_names(tables: Sequence[Table]) -> list[str]:
    """Return a name per table, as `resnet50`, `train-program=3f2a1c` of one of two programs, and
    `resnet50-box7-a1b2c3` where machines or software differ.
    """
    neighbors: dict[object, list[Table]] = defaultdict(list)
    for table in tables:
        neighbors[table.setting.get("model")].append(table)
    num_environments = len({table.environment.key for table in tables})
    names = []
    for table in tables:
        parts = [str(table.setting["model"])] if "model" in table.setting else []
        for axis in ("command", "read", "model_digest", "scaling"):
            values = {
                str(other.setting.get(axis)) for other in neighbors[table.setting.get("model")]
            }
            if axis in table.setting and len(values) > 1:
                parts.append(_part(axis, table.setting[axis]))
        if num_environments > 1:
            parts += [table.environment.host, table.environment.key]
        names.append(safe_name("-".join(parts)))
    return unique(names)


def unique(names: Sequence[str]) -> list[str]:
    """Number names from the second of each on."""
    seen: Counter[str] = Counter()
    numbered = []
    for name in names:
        seen[name] += 1
        suffix = "" if seen[name] == 1 else f"-{seen[name]}"
        numbered.append(f"{name}{suffix}".removeprefix("-"))
    return numbered


def _part(axis: str, value: object) -> str:
    if axis == "command":
        return program_name(str(value)).replace(" ", "=")
    if axis == "read":  # a pattern would be too long
        kind, colon, _ = str(value).partition(":")
        digest = hashlib.sha256(str(value).encode()).hexdigest()[:6]
        return f"read={kind}-{digest}" if colon else f"read={kind}"
    return f"{axis}={as_typed(value)}"
