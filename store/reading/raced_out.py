"""Reads which trials a race stopped early, too far behind to lead after all repeats."""

from __future__ import annotations

import sqlalchemy as sa

from scalemark.records.outcomes import State
from store.database import reading
from store.schema import MachineRow, OrchestratorRow, RepeatRow

_PUT_OUT = ("race: % behind %", "race: % slower than %")
"""As sweeper.race.judge words it, and worded it once; who failed, or needs no more repeats, is
reported otherwise.
"""


def raced_out(engine: sa.Engine) -> dict[tuple[str, str], str]:
    """Return the reason by trial id and machine key. The last sweep with repeats of a trial
    decides: one that did not race stops nobody.
    """
    last = (
        sa.select(RepeatRow.trial_id, sa.func.max(RepeatRow.sweep_id).label("sweep_id"))
        .group_by(RepeatRow.trial_id)
        .subquery()
    )
    statement = (
        sa.select(RepeatRow.trial_id, MachineRow.key, RepeatRow.reason)
        .join(
            last,
            sa.and_(last.c.trial_id == RepeatRow.trial_id, last.c.sweep_id == RepeatRow.sweep_id),
        )
        .join(OrchestratorRow, OrchestratorRow.sweep_id == RepeatRow.sweep_id)
        .join(MachineRow, MachineRow.id == OrchestratorRow.machine_id)
        .where(RepeatRow.state == State.SKIPPED, sa.or_(*map(RepeatRow.reason.like, _PUT_OUT)))
        .distinct()
    )
    with reading(engine) as connection:
        return {
            (trial_id, machine): reason
            for trial_id, machine, reason in connection.execute(statement)
        }
