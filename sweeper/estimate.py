"""How long a sweep will take, from what its trials, or trials like them, took on this machine before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import sqlalchemy as sa

from store.durations import recorded_durations_s
from store.queries import Row
from store.records import TrialSpec
from sweeper.plan import Plan

_Like = tuple[str, str, int]  # model, device_kind, num_gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """Of the attempts of a plan, one after another."""

    expected_s: float  # of those that something is known of
    num_attempts: int
    num_unknown: int  # attempts of which nothing is known


class Estimate:
    """What attempts are expected to take. Nothing is known where nothing was recorded."""

    def __init__(self, recorded: Sequence[Row] = ()) -> None:
        """`recorded` as store.durations gives it."""
        self._own_s: dict[str, float] = {row["trial_id"]: row["duration_s"] for row in recorded}
        alike: dict[_Like, list[float]] = defaultdict(list)
        for row in recorded:
            alike[row["model"], row["device_kind"], row["num_gpus"]].append(row["duration_s"])
        self._alike_s = {like: median(durations_s) for like, durations_s in alike.items()}

    @classmethod
    def of(cls, engine: sa.Engine | None, machine_key: str) -> Estimate:
        """From the database, where there is one."""
        return cls(recorded_durations_s(engine, machine_key) if engine else ())

    def expected_s(self, spec: TrialSpec) -> float | None:
        """The median of this trial's own attempts, else of the trials of equal model, device_kind and num_gpus, else None."""
        if not self._own_s:
            return None
        return self._own_s.get(spec.trial_id, self._alike_s.get((spec.model, str(spec.device_kind), spec.num_gpus)))

    def total(self, plan: Plan) -> Total:
        expected = [(trial.num_repeats, self.expected_s(trial.spec)) for trial in plan.trials]
        return Total(
            expected_s=sum(num * duration_s for num, duration_s in expected if duration_s is not None),
            num_attempts=plan.num_attempts,
            num_unknown=sum(num for num, duration_s in expected if duration_s is None),
        )

    def describe(self, plan: Plan) -> str:
        """One line for people; empty when nothing is to be run."""
        total = self.total(plan)
        if not total.num_attempts:
            return ""
        if total.num_unknown == total.num_attempts:
            return f"{_attempts(total.num_attempts)} to run; no recorded durations of such trials on this machine: no estimate"
        known = total.num_attempts - total.num_unknown
        text = f"{_attempts(total.num_attempts)} to run; expected: {duration_text(total.expected_s)} one after another"
        if total.num_unknown:
            text += f" for {known} of them; no recorded durations for the other {total.num_unknown}: no estimate"
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
