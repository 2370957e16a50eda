"""How long a sweep will take, from what its trials, or trials like them, took before where it
runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from store.reading.durations import Durations, recorded_durations_s, recorded_durations_shared_s
from store.reading.queries import Row
from sweeper.planning.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """Of the attempts of a plan, one after another."""

    expected_s: float  # of those that something is known of
    num_attempts: int
    num_unknown: int  # attempts of which nothing is known


class Estimate(Durations):
    """Of attempts, and of whole plans. `where` they are recorded, for people."""

    def __init__(self, recorded: Sequence[Row] = (), where: str = "on this machine") -> None:
        super().__init__(recorded)
        self._where = where

    @classmethod
    def of(cls, engine: sa.Engine | None, machine_key: str) -> Estimate:
        """From the database, where there is one."""
        return cls(recorded_durations_s(engine, machine_key) if engine else ())

    @classmethod
    def of_shared(cls, engine: sa.Engine | None, sweep: str, pool: str | None) -> Estimate:
        """As `of`, for a sweep that runs on other hosts."""
        return cls(
            recorded_durations_shared_s(engine, sweep, pool) if engine else (), "on its hosts"
        )

    def total(self, plan: Plan) -> Total:
        expected = [(trial.num_repeats, self.expected_s(trial.spec)) for trial in plan.trials]
        return Total(
            expected_s=sum(
                num * duration_s for num, duration_s in expected if duration_s is not None
            ),
            num_attempts=plan.num_attempts,
            num_unknown=sum(num for num, duration_s in expected if duration_s is None),
        )

    def describe(self, plan: Plan) -> str:
        """One line for people; empty when nothing is to be run."""
        total = self.total(plan)
        if not total.num_attempts:
            return ""
        if total.num_unknown == total.num_attempts:
            return (
                f"{_attempts(total.num_attempts)} to run; no recorded durations of such trials "
                f"{self._where}: no estimate"
            )
        known = total.num_attempts - total.num_unknown
        text = (
            f"{_attempts(total.num_attempts)} to run; expected: "
            f"{duration_text(total.expected_s)} one after another"
        )
        if total.num_unknown:
            text += (
                f" for {known} of them; no recorded durations for the other {total.num_unknown}: "
                "no estimate"
            )
        return text


def duration_text(seconds: float) -> str:
    """As people say it: 40 s, 12 min, 3 h 05 min, 2 d 4 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def _attempts(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count} attempts"
