"""Reads the free axis of a table that says when a row was measured."""

from __future__ import annotations

from datetime import date, datetime

WHEN = "when"


def day_of(value: object) -> date:
    """Return the day of a date, or of a date with a time. Raises ValueError."""
    text = str(value)
    try:
        return datetime.fromisoformat(text).date()
    except ValueError:
        raise ValueError(
            f"{WHEN}={text[:40]}: no date; wanted one as 2026-03-14, or 2026-03-14T23:10:00"
        ) from None
