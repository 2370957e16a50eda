"""Reads how trials ended when they last ran, to say what a plan runs again after a failure."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from scalemark.records.outcomes import Outcome
from store.database import reading
from store.filters.selection import deleted_at
from store.schema import AttemptRow, MachineRow
from store.sweeps.repeat_states import in_chunks

_NO_FAILURE = (Outcome.COMPLETED, Outcome.INTERRUPTED)


def failed_last(
    engine: sa.Engine, trial_ids: Sequence[str], machine_key: str | None
) -> dict[str, Outcome]:
    """Return by trial id how the newest attempt ended, where it failed; of any machine for None."""
    newest = sa.select(sa.func.max(AttemptRow.id)).where(deleted_at(False))
    if machine_key is not None:
        machines = sa.select(MachineRow.id).where(MachineRow.key == machine_key)
        newest = newest.where(AttemptRow.machine_id.in_(machines))
    found: dict[str, Outcome] = {}
    with reading(engine) as connection:
        for ids in in_chunks(trial_ids):
            of_each = newest.where(AttemptRow.trial_id.in_(ids)).group_by(AttemptRow.trial_id)
            statement = sa.select(AttemptRow.trial_id, AttemptRow.outcome)
            for trial_id, outcome in connection.execute(
                statement.where(AttemptRow.id.in_(of_each), AttemptRow.outcome.is_not(None))
            ):
                found[trial_id] = Outcome(outcome)
    return {key: one for key, one in found.items() if one not in _NO_FAILURE}
