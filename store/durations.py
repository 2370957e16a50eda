"""How long trials took on a machine before, for estimates of how long they will take."""

from __future__ import annotations

import sqlalchemy as sa

from store.queries import Row, rows

_MEDIANS = """
SELECT trial_id, model, device_kind, num_gpus, num_attempts, avg(duration_s) AS duration_s
FROM (
  SELECT attempts.trial_id, trials.model, trials.device_kind, trials.num_gpus, attempts.duration_s,
         row_number() OVER (PARTITION BY attempts.trial_id ORDER BY attempts.duration_s) AS place,
         count(*) OVER (PARTITION BY attempts.trial_id) AS num_attempts
  FROM attempts
  JOIN trials ON trials.id = attempts.trial_id
  JOIN machines ON machines.id = attempts.machine_id
  WHERE attempts.outcome = 'completed' AND attempts.deleted_at IS NULL AND attempts.duration_s IS NOT NULL
        AND machines.key = :machine
) AS ranked
WHERE place IN ((num_attempts + 1) / 2, (num_attempts + 2) / 2)
GROUP BY trial_id, model, device_kind, num_gpus, num_attempts
ORDER BY trial_id
"""


def recorded_durations_s(engine: sa.Engine, machine_key: str) -> list[Row]:
    """Each trial's median over its completed attempts on this machine, of whatever software: trial_id, model, device_kind,
    num_gpus, num_attempts, duration_s."""
    return rows(engine, _MEDIANS, machine=machine_key)
