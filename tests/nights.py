"""A database with a history: a sweep each night, written by the real writer."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from scalemark.records.machine import Machine
from scalemark.records.trial import TrialSpec
from store.writer import Writer
from tests.filled import ENVIRONMENT, MACHINE, PLACEMENT, attempt, begin

FIRST = datetime(2026, 1, 1, 22, 30, tzinfo=UTC)
WIGGLE = (1.0, 1.01, 0.99, 1.004, 0.993, 1.007, 0.998)
"""Learns by how much nights differ without any change."""


def steady(num_nights: int, level: float = 100.0, shift: int = 0) -> list[float]:
    """Return images/s that wiggle about a level."""
    return [level * WIGGLE[(night * 3 + shift) % len(WIGGLE)] for night in range(num_nights)]


def slower(values: Sequence[float], since: int, factor: float) -> list[float]:
    """Return the same, slower from a night on."""
    return [value * (factor if night >= since else 1) for night, value in enumerate(values)]


def fill_nights(
    url: str,
    history: Mapping[TrialSpec, Sequence[float | None]],
    *,
    machines: Sequence[Machine] = (MACHINE,),
    environments: Sequence[Mapping[str, Any]] = (ENVIRONMENT,),
    first: datetime = FIRST,
    name: str = "night",
    hours: float = 24.0,
) -> None:
    """Write a sweep each night with a process per trial; None: not measured. Of several machines or
    environments the last stays from its night on.
    """
    writer = Writer(url)
    num_nights = max(map(len, history.values()))
    for night in range(num_nights):
        values = {spec: of[night] for spec, of in history.items() if night < len(of)}
        known = {spec: value for spec, value in values.items() if value is not None}
        if not known:
            continue
        started_at = first + timedelta(hours=hours * night)
        environment = dict(environments[min(night, len(environments) - 1)])
        ledger = begin(
            writer,
            dict.fromkeys(known, 1),
            name=f"{name}-{night}",
            machine=machines[min(night, len(machines) - 1)],
            environment=environment,
            rerun=True,
            started_at=started_at,
        )
        for repeat in ledger.open_repeats():
            spec = next(one for one in known if one.trial_id == repeat.trial_id)
            ledger.claim(repeat)
            number = ledger.run(repeat, "/runs/x", PLACEMENT, started_at)
            finished = attempt(
                spec,
                known[spec],
                repeat=repeat.repeat,
                number=number,
                environment=environment,
                started_at=started_at,
            )
            ledger.finish(repeat.repeat_id, finished)
        ledger.end(started_at, finished=True)
    writer.close()


def with_packages(**packages: str) -> dict[str, Any]:
    """Return the environment with other versions."""
    return ENVIRONMENT | {"packages": ENVIRONMENT["packages"] | packages}
