"""Finds runs of the baseline that do not count, as its code or software has changed since."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from scalemark.host import software
from scalemark.records.trial import TrialSpec
from store.reading.completed_repeats import OtherRun, runs_of_other_software

_DIGITS = 8  # of commits and digests
_PARTS = ("python", "kernel", "packages", "variables")


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncounted:
    """Completed runs of the baseline with other code or software than it would run with now."""

    num: int
    differences: tuple[str, ...]  # what the newest of them had, as `code (commit 8672327d)`


def uncounted(
    engine: sa.Engine,
    named: str,
    baseline: TrialSpec,
    machine_key: str,
    now: Mapping[str, Any],
    since: datetime,
) -> Uncounted | None:
    """Return None where there are none. `named` is the beginning of the id that the user gave; the
    baseline has another id where the file of its model has changed. `now` describes the software.
    """
    runs = runs_of_other_software(
        engine, named, baseline.trial_id, machine_key, software.key(now), since=since
    )
    found = [differences for run in runs if (differences := tuple(_of(run, baseline, now)))]
    return Uncounted(num=len(found), differences=found[-1]) if found else None


def _of(run: OtherRun, baseline: TrialSpec, now: Mapping[str, Any]) -> Iterator[str]:
    """Yield in what a run differs."""
    if run.spec.model_digest != baseline.model_digest:
        yield f"code ({baseline.model} of digest {run.spec.model_digest[:_DIGITS]})"
    program, program_now = run.software.get("program", {}), now.get("program", {})
    if program != program_now:
        yield f"code ({', '.join(_of_code(program, program_now)) or 'not recorded'})"
    yield from (part for part in _PARTS if run.software[part] != now[part])


def _of_code(then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """Yield what a run's code had that differs; that it is dirty is said by its diff."""
    for name, value in then.items():
        had = value.removesuffix(software.DIRTY)
        if had == now.get(name, "").removesuffix(software.DIRTY):
            continue
        if had:
            yield f"{name} {had[:_DIGITS]}"
        elif name == "diff":
            yield "without changes"
        elif name != "code":  # of a checkout this is empty
            yield f"without {name}"
