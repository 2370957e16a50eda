"""Lists the sweeps of a database, newest first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from scalemark.records.outcomes import Outcome
from store.database import reading
from store.filters.selection import deleted_at
from store.schema import AttemptRow, SweepRow, SweepTrialRow, TrialRow

_Kind = tuple[str, str, int]  # model, engine, number of trials


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSweep:
    """A sweep, and how much of what it asked for there is."""

    sweep: str
    started_at: datetime
    finished_at: datetime | None  # None while something is left to run
    models: tuple[str, ...]
    engines: tuple[str, ...]
    num_trials: int  # asked for, also where they were finished earlier
    num_attempts: int  # its own, without deleted ones
    num_completed: int  # of these
    reason: str
    command: str


def every_sweep(engine: sa.Engine) -> list[ListedSweep]:
    """Raises StoreError when the database cannot be read."""
    trial = TrialRow.__table__.columns
    kinds = (
        sa.select(SweepTrialRow.sweep_id, trial["model"], trial["engine"], sa.func.count())
        .join(TrialRow, TrialRow.id == SweepTrialRow.trial_id)
        .group_by(SweepTrialRow.sweep_id, trial["model"], trial["engine"])
    )
    ended = (
        sa.select(AttemptRow.sweep_id, AttemptRow.outcome, sa.func.count())
        .where(deleted_at(False))
        .group_by(AttemptRow.sweep_id, AttemptRow.outcome)
    )
    of_sweep: dict[int, list[_Kind]] = defaultdict(list)
    outcomes: dict[int, dict[str, int]] = defaultdict(dict)
    with reading(engine) as connection:
        for sweep_id, model, of_engine, num in connection.execute(kinds):
            of_sweep[sweep_id].append((model, of_engine, num))
        for sweep_id, outcome, num in connection.execute(ended):
            outcomes[sweep_id][outcome] = num
        sweeps = connection.execute(sa.select(SweepRow.__table__).order_by(SweepRow.id.desc()))
        rows = sweeps.mappings().all()
    return [
        ListedSweep(
            sweep=row["name"],
            started_at=row["started_at"],
            finished_at=row["finished_at"],
            models=_sorted(model for model, _, _ in of_sweep[row["id"]]),
            engines=_sorted(of_engine for _, of_engine, _ in of_sweep[row["id"]]),
            num_trials=sum(num for _, _, num in of_sweep[row["id"]]),
            num_attempts=sum(outcomes[row["id"]].values()),
            num_completed=outcomes[row["id"]].get(Outcome.COMPLETED, 0),
            reason=row["reason"],
            command=row["command"],
        )
        for row in rows
    ]


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))
