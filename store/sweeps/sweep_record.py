"""Reads what a database holds of one sweep, for its `sweep.json`."""

from __future__ import annotations

import sqlalchemy as sa

from scalemark.records.sweep import AskedFor, SweepRecord
from store import schema
from store.database import reading


def read_sweep(engine: sa.Engine, sweep_id: int) -> SweepRecord:
    """Return all that a sweep was ever asked for, also before it was continued. Raises
    StoreError.
    """
    sweeps, links = schema.SweepRow, schema.SweepTrialRow
    trials, left_out = schema.TrialRow, schema.LeftOutRow
    asked_for = (
        sa.select(links.position, trials.spec)
        .join(trials, trials.id == links.trial_id)
        .where(links.sweep_id == sweep_id)
        .order_by(links.position, links.trial_id)
    )
    refused = sa.select(left_out.overrides, left_out.reason).where(left_out.sweep_id == sweep_id)
    with reading(engine) as connection:
        sweep = connection.execute(sa.select(sweeps.__table__).where(sweeps.id == sweep_id)).one()
        cells = connection.execute(refused.order_by(left_out.overrides))
        return SweepRecord(
            name=sweep.name,
            reason=sweep.reason,
            command=sweep.command,
            started_at=sweep.started_at,
            trials=tuple(AskedFor(**row) for row in connection.execute(asked_for).mappings()),
            left_out=tuple((overrides, reason) for overrides, reason in cells),
        )
