"""Defines how transactions of the two engines begin."""

from __future__ import annotations

import json
from typing import Any

BUSY_TIMEOUT_S = 30  # for which a writer waits for another

# of JSON columns: the steps take a fifth less without spaces
compact_json = json.JSONEncoder(separators=(",", ":")).encode

SCALEMARK_ONLY_READS = "scalemark_only_reads"

# Dialect -> execution options of a connection that only reads, all its statements from one moment
ONLY_READS: dict[str, dict[str, Any]] = {
    "sqlite": {SCALEMARK_ONLY_READS: True},
    "postgresql": {
        SCALEMARK_ONLY_READS: True,
        "isolation_level": "REPEATABLE READ",
        "postgresql_readonly": True,
    },
}
