"""Reads what a database holds of one sweep, for its `sweep.json`."""

from __future__ import annotations

import sqlalchemy as sa

from scalemark.records.sweep import AskedFor, SweepRecord
from store import schema
from store.database import reading


def read_sweep(engine: sa.Engine, sweep_id: int) -> SweepRecord:
    """Of a sweep that was continued: all that it was ever asked for. Raises StoreError."""
    sweeps, links, trials, left_out = (
        schema.SweepRow,
        schema.SweepTrialRow,
        schema.TrialRow,
        schema.LeftOutRow,
    )
    asked_for = (
        sa.select(links.position, trials.spec)
        .join(trials, trials.id == links.trial_id)
        .where(links.sweep_id == sweep_id)
        .order_by(links.position, links.trial_id)
    )
    refused = (
        sa.select(left_out.overrides, left_out.reason)
        .where(left_out.sweep_id == sweep_id)
        .order_by(left_out.overrides)
    )
    with reading(engine) as connection:
        told = sa.select(sweeps.name, sweeps.reason, sweeps.command, sweeps.started_at).where(
            sweeps.id == sweep_id
        )
        sweep = connection.execute(told).one()
        return SweepRecord(
            name=sweep.name,
            reason=sweep.reason,
            command=sweep.command,
            started_at=sweep.started_at,
            trials=tuple(
                AskedFor(position=position, spec=spec)
                for position, spec in connection.execute(asked_for)
            ),
            left_out=tuple(
                (overrides, reason) for overrides, reason in connection.execute(refused)
            ),
        )
