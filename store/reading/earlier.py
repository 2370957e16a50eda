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
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import IMAGES, State
from scalemark.records.trial import TrialSpec
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


SIZES = (
    *("model", "image_px", "num_classes", "seq_len", "batch_size", "gradient_accumulation"),
    "recompute",
)
"""Axes that tell how much a step computes on each device."""

_COLUMNS = ", ".join(SIZES)

_MEDIANS = """
WITH taken AS (
  SELECT attempts.trial_id, {columns}, trials.device_kind, trials.num_gpus, trials.hosts,
         trials.num_steps, trials.min_window_s, {duration_s} AS duration_s,
         {window_s} AS window_s, measurements.num_steps AS num_measured,
         measurements.num_warm_up_steps
  FROM attempts
  JOIN trials ON trials.id = attempts.trial_id
  JOIN machines ON machines.id = attempts.machine_id
  JOIN sweeps ON sweeps.id = attempts.sweep_id
  LEFT JOIN measurements ON measurements.attempt_id = attempts.id
  WHERE attempts.outcome = 'completed' AND attempts.deleted_at IS NULL AND ({where})
)
SELECT trial_id, {columns}, device_kind, num_gpus, hosts, num_steps, min_window_s, num_attempts,
       avg(duration_s) AS duration_s, avg(window_s) AS window_s,
       avg(window_s / num_measured) AS step_s,
       avg(CAST(num_warm_up_steps AS FLOAT)) AS num_warm_up_steps
FROM (
  SELECT taken.*, row_number() OVER (PARTITION BY trial_id ORDER BY duration_s) AS place,
         count(*) OVER (PARTITION BY trial_id) AS num_attempts
  FROM taken
  WHERE duration_s IS NOT NULL
) AS ranked
WHERE place IN ((num_attempts + 1) / 2, (num_attempts + 2) / 2)
GROUP BY trial_id, {columns}, device_kind, num_gpus, hosts, num_steps, min_window_s, num_attempts
ORDER BY trial_id
"""


_ON_MACHINE = "machines.key = :machine"
_IS_SIMULATED = f"trials.device_kind = '{DeviceKind.SIMULATED_GPU}'"
# the window of simulated devices is no part of the time that their process took
_PROCESS = {
    "columns": _COLUMNS,
    "duration_s": "attempts.duration_s",
    "window_s": f"CASE WHEN {_IS_SIMULATED} THEN NULL ELSE measurements.window_s END",
}
_OF_PROCESSES = _MEDIANS.format(where=_ON_MACHINE, **_PROCESS)
_OF_DEVICES = _MEDIANS.format(
    where=_ON_MACHINE,
    columns=_COLUMNS,
    duration_s=f"""CASE WHEN {_IS_SIMULATED}
         THEN measurements.time_to_first_step_s + measurements.window_s
         ELSE attempts.duration_s END""",
    window_s="measurements.window_s",
)


def recorded_durations_s(
    engine: sa.Engine, machine_key: str, *, on_devices: bool = False
) -> list[Row]:
    """Return each trial's median over its completed attempts on this machine, of whatever software:
    trial_id, SIZES, device_kind, num_gpus, hosts, num_steps, min_window_s, num_attempts,
    duration_s; of that, window_s, step_s and num_warm_up_steps where they were measured.
    `on_devices`: of simulated ones what their devices would take, and not the process that
    simulates them.
    """
    return rows(engine, _OF_DEVICES if on_devices else _OF_PROCESSES, machine=machine_key)


class Durations:
    """Estimates how long attempts will take, from what was recorded."""

    def __init__(self, recorded: Sequence[Row] = ()) -> None:
        """`recorded` as `recorded_durations_s` gives it."""
        self._own_s: dict[str, float] = {row["trial_id"]: row["duration_s"] for row in recorded}
        self._alike: dict[_Like, list[Row]] = defaultdict(list)
        for row in recorded:
            self._alike[row["model"], row["device_kind"], row["num_gpus"], row["hosts"]].append(row)
        self._alike_s: dict[tuple[object, ...], float] = {}  # as far as it was asked for

    def expected_s(self, spec: TrialSpec) -> float | None:
        """Return the median of this trial's own attempts, else of trials of equal model,
        device_kind, num_gpus and hosts, else None. Those that measured other numbers of steps, or
        computed more or less in a step, count as if they had done as this one.
        """
        if self._own_s:  # only then is the id, a digest of the whole spec, worth computing
            own_s = self._own_s.get(spec.trial_id)
            if own_s is not None:
                return own_s
        like = (spec.model, str(spec.device_kind), spec.num_gpus, spec.hosts)
        if like not in self._alike:
            return None
        sizes = {name: getattr(spec, name) for name in SIZES}
        key = (like, spec.num_steps, spec.min_window_s, *sizes.values())
        if key not in self._alike_s:
            work = _step_work(sizes)
            as_if_s = []
            for row in self._alike[like]:
                other = _step_work(row)
                as_if_s.append(_as_if_s(row, spec, work / other if work and other else 1.0))
            self._alike_s[key] = median(as_if_s)
        return self._alike_s[key]


_AGAIN = 4 / 3  # what computes its layers again before the backward pass, which takes two of three


def _step_work(sizes: Mapping[str, Any]) -> float:
    """Return how much a step computes by SIZES, for one model; 0 of a program without a batch."""
    examples = (sizes["batch_size"] or 0) * (sizes["gradient_accumulation"] or 1)
    of_each = (sizes["image_px"] or 1) ** 2 * (sizes["seq_len"] or 1)
    return float(examples * of_each * (_AGAIN if sizes["recompute"] else 1))


def _as_if_s(row: Row, spec: TrialSpec, times: float) -> float:
    """Return how long that trial would take with the steps of this one, each of so many times its
    work: what is no step stays.
    """
    duration_s: float = row["duration_s"]
    asked = (spec.num_steps, spec.min_window_s, 1.0)
    if row["step_s"] is None or row["num_steps"] is None or not spec.num_steps:
        return duration_s  # no number of steps was given to a program
    if (row["num_steps"], row["min_window_s"], times) == asked:
        return duration_s
    step_s: float = row["step_s"]
    warm_up_s: float = (row["num_warm_up_steps"] or 0) * step_s
    rest_s: float = max(0.0, duration_s - row["window_s"] - warm_up_s)
    window_s: float = max(spec.num_steps * step_s * times, spec.min_window_s)
    return rest_s + warm_up_s * times + window_s


_Like = tuple[str, str, int, int]  # model, device_kind, num_gpus, hosts


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
