"""Estimates how long a sweep will take, from what its trials, or trials like them, took before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from scalemark.text.wording import duration_text
from simulator.costs.work import step_work
from store.reading.durations import Durations, recorded_durations_s, recorded_durations_shared_s
from store.reading.queries import Row
from sweeper.planning.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """The expected time of all attempts of a plan, one after another."""

    expected_s: float  # of those with recorded durations
    num_attempts: int
    num_unknown: int  # attempts without


class Estimate(Durations):
    """Durations of attempts and of whole plans; `where` they were recorded, for people."""

    def __init__(self, recorded: Sequence[Row] = (), where: str = "on this machine") -> None:
        super().__init__(recorded, step_work)
        self._where = where

    @classmethod
    def of(cls, engine: sa.Engine | None, machine_key: str) -> Estimate:
        """Read the durations on this machine; without a database there are none."""
        return cls(recorded_durations_s(engine, machine_key) if engine else ())

    @classmethod
    def of_shared(cls, engine: sa.Engine | None, sweep: str, pool: str | None) -> Estimate:
        """Read the durations on the hosts of a shared sweep."""
        return cls(
            recorded_durations_shared_s(engine, sweep, pool) if engine else (), "on its hosts"
        )

    def total(self, plan: Plan) -> Total:
        known_s, num_unknown = 0.0, 0
        for trial in plan.trials:
            expected_s = self.expected_s(trial.spec)
            if expected_s is None:
                num_unknown += trial.num_repeats
            else:
                known_s += trial.num_repeats * expected_s
        return Total(expected_s=known_s, num_attempts=plan.num_attempts, num_unknown=num_unknown)

    def describe(self, plan: Plan) -> str:
        """Return one line for people; empty when nothing is to be run."""
        total = self.total(plan)
        num, unknown = total.num_attempts, total.num_unknown
        if not num:
            return ""
        attempts = "1 attempt to run" if num == 1 else f"{num} attempts to run"
        if unknown == num:
            nothing = f"no recorded durations of such trials {self._where}: no estimate"
            return f"{attempts}; {nothing}"
        text = f"{attempts}; expected: {duration_text(total.expected_s)} one after another"
        if unknown:
            rest = f"no recorded durations for the other {unknown}: no estimate"
            text += f" for {num - unknown} of them; {rest}"
        return text
