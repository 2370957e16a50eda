"""Marks and words that stand in tables and charts beside a number, or for one."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.results import Result
from scalemark.records.outcomes import Outcome

NOT_RUN = "–"
NOT_PUBLISHED = "N/A"
NOT_IN_TABLE = "n/a"
SUSPECT = "*"
PARTLY_FAILED = "†"
REPORTED = "‡"
TIE = "≈"
OUT = "↓"
SYMBOLS = {
    Outcome.OUT_OF_MEMORY: "OOM",
    Outcome.HUNG: "HANG",
    Outcome.TIMED_OUT: "TIMEOUT",
    Outcome.UNSUPPORTED: "UNSUP",
    Outcome.FAILED: "FAIL",
    Outcome.INTERRUPTED: "STOP",
    Outcome.INVALID: "INVALID",
}
"""A word for each outcome that has no number."""

MEANINGS = {
    "OOM": "out of memory",
    "HANG": "hung: its steps stopped coming",
    "TIMEOUT": "took longer than it was allowed to",
    "UNSUP": "not supported by this machine or software",
    "FAIL": "failed",
    "STOP": "interrupted",
    "INVALID": "ran to its end, but has no number that may be quoted",
    NOT_RUN: "not run",
    NOT_PUBLISHED: "not published",
    NOT_IN_TABLE: "no row of the table that was taken in",
}


def symbols_of_repeats(results: Sequence[Result]) -> list[str]:
    """Return the symbols of repeats that brought no number, each once."""
    outcomes = [outcome for result in results for outcome in result.failed]
    return list(dict.fromkeys(SYMBOLS[Outcome(outcome)] for outcome in outcomes))
