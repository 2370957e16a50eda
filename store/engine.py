"""How transactions of the two engines begin."""

from __future__ import annotations

import json
from typing import Any

BUSY_TIMEOUT_S = 30
"""How long who wants to write waits for who is writing."""

compact_json = json.JSONEncoder(separators=(",", ":")).encode
"""Of JSON columns: the steps take a fifth less without spaces."""

SCALEMARK_ONLY_READS = "scalemark_only_reads"
SCALEMARK_BESIDE_OTHERS = "scalemark_beside_others"
"""Execution option of a connection whose transactions do not wait for who else writes: they lock
the rows that they change.
"""

ONLY_READS: dict[str, dict[str, Any]] = {
    "sqlite": {SCALEMARK_ONLY_READS: True},
    "postgresql": {
        SCALEMARK_ONLY_READS: True,
        "isolation_level": "REPEATABLE READ",
        "postgresql_readonly": True,
    },
}
"""Dialect -> execution options of a connection that only reads, all its statements from one
moment.
"""
