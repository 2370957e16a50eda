"""Reads how long trials took on a machine before, to estimate how long they will take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import median

import sqlalchemy as sa

from scalemark.records.devices import DeviceKind
from scalemark.records.trial import TrialSpec
from store.reading.queries import Row, rows

_MEDIANS = """
WITH taken AS (
  SELECT attempts.trial_id, trials.model, trials.device_kind, trials.num_gpus, trials.hosts,
         trials.num_steps, trials.min_window_s, {duration_s} AS duration_s, measurements.window_s,
         measurements.num_steps AS num_measured
  FROM attempts
  JOIN trials ON trials.id = attempts.trial_id
  JOIN machines ON machines.id = attempts.machine_id
  JOIN sweeps ON sweeps.id = attempts.sweep_id
  LEFT JOIN measurements ON measurements.attempt_id = attempts.id
  WHERE attempts.outcome = 'completed' AND attempts.deleted_at IS NULL AND ({where})
)
SELECT trial_id, model, device_kind, num_gpus, hosts, num_steps, min_window_s, num_attempts,
       avg(duration_s) AS duration_s, avg(window_s) AS window_s,
       avg(window_s / num_measured) AS step_s
FROM (
  SELECT taken.*, row_number() OVER (PARTITION BY trial_id ORDER BY duration_s) AS place,
         count(*) OVER (PARTITION BY trial_id) AS num_attempts
  FROM taken
  WHERE duration_s IS NOT NULL
) AS ranked
WHERE place IN ((num_attempts + 1) / 2, (num_attempts + 2) / 2)
GROUP BY trial_id, model, device_kind, num_gpus, hosts, num_steps, min_window_s, num_attempts
ORDER BY trial_id
"""


_ON_MACHINE = "machines.key = :machine"
_OF_PROCESSES = _MEDIANS.format(where=_ON_MACHINE, duration_s="attempts.duration_s")
_OF_SHARED = _MEDIANS.format(
    where="sweeps.name = :sweep OR machines.pool = :pool", duration_s="attempts.duration_s"
)
_OF_DEVICES = _MEDIANS.format(
    where=_ON_MACHINE,
    duration_s=f"""CASE WHEN trials.device_kind = '{DeviceKind.SIMULATED_GPU}'
         THEN measurements.time_to_first_step_s + measurements.window_s
         ELSE attempts.duration_s END""",
)


def recorded_durations_s(
    engine: sa.Engine, machine_key: str, *, on_devices: bool = False
) -> list[Row]:
    """Return each trial's median over its completed attempts on this machine, of whatever software:
    trial_id, model, device_kind, num_gpus, hosts, num_steps, min_window_s, num_attempts,
    duration_s; of that, window_s and step_s where they were measured. `on_devices`: of simulated
    ones what their devices would take, and not the process that simulates them.
    """
    return rows(engine, _OF_DEVICES if on_devices else _OF_PROCESSES, machine=machine_key)


def recorded_durations_shared_s(engine: sa.Engine, sweep: str, pool: str | None) -> list[Row]:
    """Return as `recorded_durations_s` what counts for a shared sweep: its own attempts, on any
    host, and all of its pool.
    """
    return rows(engine, _OF_SHARED, sweep=sweep, pool=pool)


class Durations:
    """Estimates how long attempts will take, from what was recorded."""

    def __init__(self, recorded: Sequence[Row] = ()) -> None:
        """`recorded` as `recorded_durations_s` gives it."""
        self._own_s: dict[str, float] = {row["trial_id"]: row["duration_s"] for row in recorded}
        self._alike: dict[_Like, list[Row]] = defaultdict(list)
        for row in recorded:
            self._alike[row["model"], row["device_kind"], row["num_gpus"], row["hosts"]].append(row)
        self._alike_s: dict[tuple[_Like, int, float], float] = {}  # as far as it was asked for

    def expected_s(self, spec: TrialSpec) -> float | None:
        """Return the median of this trial's own attempts, else of trials of equal model,
        device_kind, num_gpus and hosts, else None. Those that measured more or fewer steps count as
        if they had measured as many as this one.
        """
        if self._own_s:  # only then is the id, a digest of the whole spec, worth computing
            own_s = self._own_s.get(spec.trial_id)
            if own_s is not None:
                return own_s
        like = (spec.model, str(spec.device_kind), spec.num_gpus, spec.hosts)
        if like not in self._alike:
            return None
        key = like, spec.num_steps, spec.min_window_s
        if key not in self._alike_s:
            self._alike_s[key] = median(
                _with_steps_s(row, spec.num_steps, spec.min_window_s) for row in self._alike[like]
            )
        return self._alike_s[key]


def _with_steps_s(row: Row, num_steps: int, min_window_s: float) -> float:
    """Return how long that trial would take with so many steps: what is not its window stays."""
    duration_s: float = row["duration_s"]
    if row["step_s"] is None or (row["num_steps"], row["min_window_s"]) == (
        num_steps,
        min_window_s,
    ):
        return duration_s
    window_s: float = row["window_s"]
    step_s: float = row["step_s"]
    return max(0.0, duration_s - window_s) + max(num_steps * step_s, min_window_s)


_Like = tuple[str, str, int, int]  # model, device_kind, num_gpus, hosts
