"""Finds the report of a larger sweep, which that of a part of it must not replace."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from store.errors import NoSweepError
from store.reading.queries import asked_for

_SWEEP = re.compile(r'<meta name="scalemark-sweep" content="([^"]*)">')
_HEAD = 4096  # characters of a page, which have it


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptReport:
    """A report that stays as it is."""

    path: Path
    sweep: str
    num_trials: int


def kept_report(path: Path, engine: sa.Engine, sweep: str) -> KeptReport | None:
    """Return the report at `path` where it is of a sweep of more trials, and `sweep` ran only some
    of these again, or a single trial, whichever it is; else None.
    """
    there = _sweep_of(path)
    if there in ("", sweep):
        return None
    try:
        others = asked_for(engine, there).positions.keys()
    except NoSweepError:  # of another database
        return None
    own = asked_for(engine, sweep).positions.keys()
    if own < others or len(own) == 1 < len(others):
        return KeptReport(path=path, sweep=there, num_trials=len(others))
    return None


def _sweep_of(path: Path) -> str:
    """Return the sweep that a report is of; empty of any other file, and where there is none."""
    try:
        with path.open(encoding="utf-8") as file:
            found = _SWEEP.search(file.read(_HEAD))
    except (OSError, UnicodeDecodeError):
        return ""
    return html.unescape(found[1]) if found else ""
