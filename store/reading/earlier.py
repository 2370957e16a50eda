"""Reads what earlier attempts say to a plan: how many completed, how fast they were, how long they
took, how they ended, also in a search for the largest batch, and which trials a race stopped.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median
from typing import Any

import sqlalchemy as sa

from scalemark.records.attempt import BEHIND
from scalemark.records.measurement import IMAGES, State
from scalemark.records.trial import AXES, TrialSpec
from store.database import reading
from store.filters import deleted_at
from store.reading.queries import Row, printed_numbers, rows, selected
from store.rows import in_chunks
from store.schema import (
    AttemptRow,
    EnvironmentRow,
    MachineRow,
    MeasurementRow,
    OrchestratorRow,
    PlacementRow,
    RepeatRow,
    SweepRow,
)


def num_completed(
    engine: sa.Engine,
    machine_key: str,
    software_key: str,
    *,
    shares_host: bool = False,
    of_others: bool = False,
) -> dict[str, int]:
    """Return by trial id how many completed attempts it has on this machine with this software,
    or `of_others`.

    Those that ran side by side with others count only for a sweep that `shares_host` itself.
    """
    has_software = EnvironmentRow.software_key == software_key
    statement = (
        sa.select(AttemptRow.trial_id, sa.func.count())
        .join(MachineRow, MachineRow.id == AttemptRow.machine_id)
        .join(EnvironmentRow, EnvironmentRow.id == AttemptRow.environment_id)
        .where(
            AttemptRow.outcome == "completed",
            MachineRow.key == machine_key,
            ~has_software if of_others else has_software,
            AttemptRow.shares_host.in_((False, True) if shares_host else (False,)),
            deleted_at(False),
        )
        .group_by(AttemptRow.trial_id)
    )
    with reading(engine) as connection:
        return dict(connection.execute(statement).all())


def last_software(
    engine: sa.Engine, trial_id: str, machine_key: str, software_key: str
) -> dict[str, Any]:
    """Describe the software that a trial last completed with on a machine, but for one: it has."""
    statement = (
        sa.select(EnvironmentRow.description)
        .join(AttemptRow, AttemptRow.environment_id == EnvironmentRow.id)
        .join(MachineRow, MachineRow.id == AttemptRow.machine_id)
        .where(
            AttemptRow.outcome == "completed",
            AttemptRow.trial_id == trial_id,
            MachineRow.key == machine_key,
            EnvironmentRow.software_key != software_key,
            deleted_at(False),
        )
        .order_by(AttemptRow.id.desc())
        .limit(1)
    )
    description: dict[str, Any] = selected(engine, statement)[0]["description"]
    return description


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedRepeat:
    """One process that measured a trial to its end."""

    throughput: float
    item: str = IMAGES  # what is counted per second
    attempt_id: int = 0
    # loss, and other numbers that a program printed: the last values
    metrics: Mapping[str, float] = field(default_factory=dict)


def completed_repeats(
    engine: sa.Engine,
    trial_ids: Sequence[str],
    machine_key: str,
    software_key: str,
    *,
    shares_host: bool = False,
    after: int = 0,
    since: datetime | None = None,
) -> dict[str, tuple[CompletedRepeat, ...]]:
    """Return by trial id the repeats that `store.reading.earlier.num_completed` counts, oldest
    first; trials without any are missing. `after` leaves out attempts up to this id: see
    `last_attempt`; `since` those that were started earlier.
    """
    machines = sa.select(MachineRow.id).where(MachineRow.key == machine_key)
    statement = (
        _completed()
        .join(EnvironmentRow, EnvironmentRow.id == AttemptRow.environment_id)
        .where(
            AttemptRow.machine_id.in_(machines),
            AttemptRow.shares_host.in_((False, True) if shares_host else (False,)),
            AttemptRow.started_at >= since if since is not None else sa.true(),
            EnvironmentRow.software_key == software_key,
            AttemptRow.id > after,
        )
    )
    return _by_trial(engine, statement, trial_ids)


def completed_repeats_of_sweep(
    engine: sa.Engine, trial_ids: Sequence[str], sweep: str
) -> dict[str, tuple[CompletedRepeat, ...]]:
    """Return the same of the repeats that a sweep has completed, with whatever software."""
    statement = _completed().join(SweepRow, SweepRow.id == AttemptRow.sweep_id)
    return _by_trial(engine, statement.where(SweepRow.name == sweep), trial_ids)


def printed_by(engine: sa.Engine, trial_id: str) -> set[str] | None:
    """Return the names of the numbers of completed repeats beside the speed; None without any."""
    repeats = _by_trial(engine, _completed(), [trial_id]).get(trial_id)
    return {name for repeat in repeats for name in repeat.metrics} if repeats else None


_Completed = tuple[str, float, str, int, dict[str, Any] | None, float | None]


def _completed() -> sa.Select[*_Completed]:
    return (
        sa.select(
            AttemptRow.trial_id,
            MeasurementRow.throughput,
            MeasurementRow.item,
            AttemptRow.id,
            MeasurementRow.metrics,
            MeasurementRow.last_loss,
        )
        .join(MeasurementRow, MeasurementRow.attempt_id == AttemptRow.id)
        .where(AttemptRow.outcome == "completed", MeasurementRow.throughput > 0, deleted_at(False))
        .order_by(AttemptRow.id)
    )


def _by_trial(
    engine: sa.Engine, statement: sa.Select[*_Completed], trial_ids: Sequence[str]
) -> dict[str, tuple[CompletedRepeat, ...]]:
    repeats: dict[str, tuple[CompletedRepeat, ...]] = {}
    with reading(engine) as connection:
        for ids in in_chunks(trial_ids):
            for trial_id, throughput, item, attempt_id, metrics, loss in connection.execute(
                statement.where(AttemptRow.trial_id.in_(ids))
            ):
                repeat = CompletedRepeat(
                    throughput=throughput,
                    item=item,
                    attempt_id=attempt_id,
                    metrics=printed_numbers(metrics, loss),
                )
                repeats[trial_id] = (*repeats.get(trial_id, ()), repeat)
    return repeats


def last_attempt(engine: sa.Engine) -> int:
    """Return the id of the newest attempt; 0 when there is none."""
    with reading(engine) as connection:
        return connection.scalar(sa.select(sa.func.max(AttemptRow.id))) or 0


def raced_out(connection: sa.Connection) -> dict[tuple[str, str], str]:
    """Return the reason by trial id and machine key. The last sweep with repeats of a trial
    decides: one that did not race stops nobody.
    """
    is_out = sa.and_(
        RepeatRow.state == State.SKIPPED, RepeatRow.reason.like(BEHIND.format("%", "%", "%"))
    )
    last = (
        sa.select(RepeatRow.trial_id, sa.func.max(RepeatRow.sweep_id).label("sweep_id"))
        .where(RepeatRow.trial_id.in_(sa.select(RepeatRow.trial_id).where(is_out)))
        .group_by(RepeatRow.trial_id)
        .subquery()
    )
    statement = (
        sa.select(RepeatRow.trial_id, MachineRow.key, RepeatRow.reason)
        .join(
            last,
            sa.and_(last.c.trial_id == RepeatRow.trial_id, last.c.sweep_id == RepeatRow.sweep_id),
        )
        .join(OrchestratorRow, OrchestratorRow.id == RepeatRow.orchestrator_id)
        .join(MachineRow, MachineRow.id == OrchestratorRow.machine_id)
        .where(is_out)
        .distinct()
    )
    reasons = {}
    for trial_id, machine, reason in connection.execute(statement):
        reasons[trial_id, machine] = reason
    return reasons


_ALIKE = (
    *("model", "device_kind", "num_gpus", "hosts", "image_px", "seq_len", "batch_size"),
    *("gradient_accumulation", "recompute", "num_steps", "min_window_s"),
)
"""Axes that tell how long an attempt takes: trials that share them take about as long."""

_COLUMNS = ", ".join(_ALIKE)
_MEDIANS = f"""
WITH taken AS (
  SELECT attempts.trial_id, attempts.duration_s, {", ".join(f"trials.{axis}" for axis in _ALIKE)},
         row_number() OVER (PARTITION BY trial_id ORDER BY duration_s) AS place,
         count(*) OVER (PARTITION BY trial_id) AS num_attempts
  FROM attempts
  JOIN trials ON trials.id = attempts.trial_id
  JOIN machines ON machines.id = attempts.machine_id
  WHERE attempts.outcome = 'completed' AND attempts.deleted_at IS NULL
        AND attempts.duration_s IS NOT NULL AND machines.key = :machine
)
SELECT trial_id, {_COLUMNS}, num_attempts, avg(duration_s) AS duration_s
FROM taken
WHERE place IN ((num_attempts + 1) / 2, (num_attempts + 2) / 2)
GROUP BY trial_id, {_COLUMNS}, num_attempts
ORDER BY trial_id
"""


def recorded_durations_s(engine: sa.Engine, machine_key: str) -> list[Row]:
    """Return each trial's median over its completed attempts on this machine, of whatever software:
    trial_id, the axes of trials that take about as long, num_attempts and duration_s.
    """
    return rows(engine, _MEDIANS, machine=machine_key)


class Durations:
    """Estimates how long attempts will take, from what was recorded."""

    def __init__(self, recorded: Sequence[Row] = ()) -> None:
        """`recorded` as `recorded_durations_s` gives it."""
        self._own_s: dict[str, float] = {row["trial_id"]: row["duration_s"] for row in recorded}
        alike: dict[tuple[object, ...], list[float]] = defaultdict(list)
        for row in recorded:
            alike[tuple(row[axis] for axis in _ALIKE)].append(row["duration_s"])
        self._alike_s = {key: median(durations_s) for key, durations_s in alike.items()}

    def expected_s(self, spec: TrialSpec) -> float | None:
        """Return the median of this trial's own attempts, else of trials that do as much work on as
        many devices, else None.
        """
        if not self._own_s:  # only then is the id, a digest of the whole spec, worth computing
            return None
        own_s = self._own_s.get(spec.trial_id)
        if own_s is not None:
            return own_s
        axes = [AXES[name] for name in _ALIKE]
        key = tuple(None if spec.lacks(axis) else spec.value(axis) for axis in axes)
        return self._alike_s.get(key)


SEARCH = ".search"
"""How the name of a sweep ends that looks for the largest value of an axis."""
IS_OF_SEARCH = SweepRow.name.like(f"%{SEARCH}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """What must be equal for what is known of a trial to answer a search."""

    machine_key: str
    software_key: str
    shares_host: bool
    host_memory_bytes: int | None
    after: int = 0  # attempts up to this id do not count


def ended(engine: sa.Engine, trial_ids: Sequence[str], where: Where) -> dict[str, list[Row]]:
    """Return by trial id how its attempts ended, oldest first, also those that a search deleted:
    outcome, is_of_search, and what was measured, which is None where it did not complete.
    """
    found: dict[str, list[Row]] = defaultdict(list)
    statement = _of_searches(where)
    for ids in in_chunks(trial_ids):
        for row in selected(engine, statement.where(AttemptRow.trial_id.in_(ids))):
            found[row["trial_id"]].append(row)
    return found


def _of_searches(where: Where) -> sa.Select[*tuple[Any, ...]]:
    # an attempt that lacked memory early has no environment: its sweep knows the software
    key = sa.func.coalesce(EnvironmentRow.software_key, OrchestratorRow.software_key)
    measured = MeasurementRow
    # of a device, or of the host where devices have no memory of their own
    peak = sa.func.coalesce(measured.peak_device_memory_bytes, measured.peak_host_memory_bytes)
    is_its_repeat = sa.and_(
        RepeatRow.sweep_id == AttemptRow.sweep_id,
        RepeatRow.trial_id == AttemptRow.trial_id,
        RepeatRow.repeat == AttemptRow.repeat,
    )
    return (
        sa.select(
            *(AttemptRow.trial_id, AttemptRow.outcome, IS_OF_SEARCH.label("is_of_search")),
            *(measured.throughput, measured.throughput_low, measured.throughput_high),
            *(measured.item, measured.verdict_reasons, peak.label("peak_bytes")),
        )
        .join(MachineRow, MachineRow.id == AttemptRow.machine_id)
        .join(SweepRow, SweepRow.id == AttemptRow.sweep_id)
        .join(PlacementRow, PlacementRow.id == AttemptRow.placement_id)
        .join(RepeatRow, is_its_repeat)
        .join(OrchestratorRow, OrchestratorRow.id == RepeatRow.orchestrator_id)
        .outerjoin(EnvironmentRow, EnvironmentRow.id == AttemptRow.environment_id)
        .outerjoin(MeasurementRow, MeasurementRow.attempt_id == AttemptRow.id)
        .where(
            MachineRow.key == where.machine_key,
            key == where.software_key,
            AttemptRow.shares_host.in_((False, True) if where.shares_host else (False,)),
            PlacementRow.host_memory_bytes.is_not_distinct_from(where.host_memory_bytes),
            sa.or_(deleted_at(False), IS_OF_SEARCH),
            AttemptRow.id > where.after,
        )
        .order_by(AttemptRow.id)
    )
