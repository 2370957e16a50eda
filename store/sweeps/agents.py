"""Answers what the controller and the agents of a shared sweep ask its database, beside claims:
settings, wishes, and how far it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from scalemark.records.outcomes import IN_FLIGHT, Outcome, State
from store import schema
from store.database import reading, writing
from store.errors import StoreError
from store.reading.queries import check_sweep
from store.sweeps.ledger import LostError
from store.sweeps.repeat_states import change
from store.sweeps.shared import DATABASE_TIME

# in sweeps.settings: what the controller wants of all agents now; a controller that begins again
# wants nothing
WISH = "wish"
_Sweep, _Orchestrator, _Machine = schema.SweepRow, schema.OrchestratorRow, schema.MachineRow
_Repeat, _Attempt, _Trial = schema.RepeatRow, schema.AttemptRow, schema.TrialRow
_OF_REPEAT = (
    (_Repeat.sweep_id == _Attempt.sweep_id)
    & (_Repeat.trial_id == _Attempt.trial_id)
    & (_Repeat.repeat == _Attempt.repeat)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRow:
    """An attempt of a sweep that has ended; the fields are those of
    `sweeper.live.snapshot.EndedAttempt`.
    """

    attempt_id: int
    repeat_id: int
    trial_id: str
    repeat: int
    outcome: Outcome
    message: str
    is_final: bool  # the repeat is settled, not to be tried again
    run_dir: str  # within the sweep's; whole when it is elsewhere
    duration_s: float | None
    throughput: float | None
    item: str | None  # what is counted per second
    median_step_s: float | None
    jitter_s: float | None
    verdict: str | None
    verdict_reasons: tuple[str, ...]


def settings_of(engine: sa.Engine, sweep: str) -> tuple[int, dict[str, Any]]:
    """Return the id of a shared sweep, and what its controller wrote down for agents. Raises
    StoreError for others, and for none.
    """
    check_sweep(engine, sweep)
    statement = sa.select(_Sweep.id, _Sweep.settings).where(_Sweep.name == sweep)
    with reading(engine) as connection:
        row = connection.execute(statement).one()
    if row.settings is None:
        raise StoreError(
            f"sweep {sweep}: it runs on one machine; agents join sweeps of launcher=agents, "
            "slurm or ray"
        )
    return row.id, row.settings


def wish_of(engine: sa.Engine, sweep_id: int) -> int:
    """Return what `set_wish` left; 0 where nothing is wished."""
    with reading(engine) as connection:
        settings = connection.scalar(sa.select(_Sweep.settings).where(_Sweep.id == sweep_id))
    return int((settings or {}).get(WISH, 0))


def set_wish(engine: sa.Engine, sweep_id: int, controller: int, wish: int) -> None:
    """Write a wish for all agents, which each finds within a heartbeat, also later ones.

    Raises LostError, with nothing written, when the sweep is not this controller's any more.
    """
    alive = sa.select(_Orchestrator.id).where(
        _Orchestrator.id == controller, _Orchestrator.ended_at.is_(None)
    )
    with writing(engine) as connection:
        settings = _settings_under(connection, sweep_id, controller)
        if settings is None or connection.scalar(alive.with_for_update()) is None:
            raise LostError(f"the wish of controller {controller}")
        update = sa.update(_Sweep).where(_Sweep.id == sweep_id)
        connection.execute(update.values(settings={**settings, WISH: wish}))


def come_back(engine: sa.Engine, sweep_id: int, controller: int) -> bool:
    """Let a controller whose lease was over go on. False, and nothing is written, when another has
    begun since.
    """
    again = {"ended_at": None, "note": "", "heartbeat_at": DATABASE_TIME}
    with writing(engine) as connection:
        if _settings_under(connection, sweep_id, controller) is None:
            return False
        own = sa.update(_Orchestrator).where(_Orchestrator.id == controller)
        return connection.execute(own.values(again)).rowcount == 1


def _settings_under(
    connection: sa.Connection, sweep_id: int, controller: int
) -> dict[str, Any] | None:
    """Return the settings of a sweep whose newest controller this is; None of others. No other
    controller begins until the transaction is through.
    """
    locked = sa.select(_Sweep.settings).where(_Sweep.id == sweep_id).with_for_update()
    settings: dict[str, Any] = connection.scalar(locked) or {}
    return settings if settings.get("controllers", [])[-1:] == [controller] else None


def give_up(engine: sa.Engine, repeat_id: int, reason: str, at: datetime) -> bool:
    """Skip a repeat that nobody has; False when an agent has it, or had it, meanwhile."""
    nobodys = (
        _Repeat.id == repeat_id,
        _Repeat.state == State.PENDING,
        _Repeat.orchestrator_id.is_(None),
    )
    with writing(engine) as connection:
        return change(connection, nobodys, State.SKIPPED, at, reason, reason=reason)


def had_repeats(engine: sa.Engine, sweep_id: int) -> set[int]:
    """Return orchestrators that run a repeat, or were the last that did."""
    had = (_Repeat.sweep_id == sweep_id, _Repeat.orchestrator_id.is_not(None))
    with reading(engine) as connection:
        return set(connection.scalars(sa.select(_Repeat.orchestrator_id).where(*had).distinct()))


def num_open(engine: sa.Engine, sweep_id: int) -> dict[int, tuple[int, int]]:
    """Return, for each number of hosts of a trial, how many repeats nobody has, and how many an
    agent has; those with none are left out.
    """
    is_nobodys = _Repeat.orchestrator_id.is_(None)
    num = sa.func.count()
    statement = (
        sa.select(_Trial.hosts, num.filter(is_nobodys), num.filter(~is_nobodys))
        .join(_Trial, _Trial.id == _Repeat.trial_id)
        .where(_Repeat.sweep_id == sweep_id, _Repeat.state.in_((State.PENDING, *IN_FLIGHT)))
        .group_by(_Trial.hosts)
    )
    with reading(engine) as connection:
        rows = connection.execute(statement)
        return {hosts: (waiting, running) for hosts, waiting, running in rows}


def last_attempt(engine: sa.Engine) -> int:
    """Return the id of the newest attempt; 0 without any."""
    with reading(engine) as connection:
        return connection.scalar(sa.select(sa.func.max(_Attempt.id))) or 0


def ended_since(engine: sa.Engine, sweep_id: int, attempt_id: int) -> list[EndedRow]:
    """Return the attempts of a sweep that were recorded after this one, in order."""
    measured = schema.MeasurementRow
    is_last = _Repeat.num_attempts == _Attempt.attempt
    statement = (
        sa.select(
            _Attempt.id.label("attempt_id"),
            _Repeat.id.label("repeat_id"),
            sa.and_(is_last, _Repeat.state == _Attempt.outcome).label("is_final"),
            _Attempt.trial_id,
            _Attempt.repeat,
            _Attempt.outcome,
            _Attempt.message,
            _Attempt.run_dir,
            _Attempt.duration_s,
            measured.throughput,
            measured.item,
            measured.median_step_s,
            measured.jitter_s,
            measured.verdict,
            measured.verdict_reasons,
        )
        .join(_Repeat, _OF_REPEAT)
        .outerjoin(measured, measured.attempt_id == _Attempt.id)
        .where(_Attempt.sweep_id == sweep_id, _Attempt.id > attempt_id)
        .order_by(_Attempt.id)
    )
    found = []
    with reading(engine) as connection:
        for row in connection.execute(statement).mappings():
            values: dict[str, Any] = dict(row)
            values["outcome"] = Outcome(row["outcome"])
            values["verdict_reasons"] = tuple(row["verdict_reasons"] or ())
            found.append(EndedRow(**values))
    return found


def left_after_an_attempt(engine: sa.Engine, sweep_id: int, attempt_id: int) -> Counter[State]:
    """Count how repeats ended that are to be tried again and that nobody runs now, as far as that
    was recorded after this attempt.
    """
    statement = (
        sa.select(_Attempt.outcome, sa.func.count())
        .join(_Repeat, sa.and_(_OF_REPEAT, _Repeat.num_attempts == _Attempt.attempt))
        .where(
            _Repeat.sweep_id == sweep_id,
            _Repeat.state.in_((State.PENDING, State.CLAIMED)),
            _Attempt.id > attempt_id,
        )
        .group_by(_Attempt.outcome)
    )
    with reading(engine) as connection:
        return Counter({State(outcome): num for outcome, num in connection.execute(statement)})


def num_completed_shared(
    engine: sa.Engine,
    sweep: str,
    pool: str | None,
    software_key: str,
    *,
    shares_host: bool,
    trial_ids: Iterable[str],
) -> Mapping[str, int]:
    """Count completed attempts that are enough for a shared sweep: its own, on any host, and all
    that were made in its pool.

    Those that ran side by side with others count only for a sweep that `shares_host` itself.
    """
    environments = schema.EnvironmentRow
    counts = _Sweep.name == sweep
    if pool is not None:
        counts |= _Machine.pool == pool
    statement = (
        sa.select(_Attempt.trial_id, sa.func.count())
        .join(_Sweep, _Sweep.id == _Attempt.sweep_id)
        .join(_Machine, _Machine.id == _Attempt.machine_id)
        .join(environments, environments.id == _Attempt.environment_id)
        .where(
            counts,
            _Attempt.outcome == Outcome.COMPLETED,
            _Attempt.deleted_at.is_(None),
            _Attempt.shares_host.in_((False, True) if shares_host else (False,)),
            environments.software_key == software_key,
        )
        .group_by(_Attempt.trial_id)
    )
    wanted = set(trial_ids)
    with reading(engine) as connection:
        rows = connection.execute(statement).all()
    return {trial_id: num for trial_id, num in rows if trial_id in wanted}
