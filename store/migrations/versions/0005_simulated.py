"""What was planted, hardware that is simulated, and the truth behind simulated numbers; views keep these apart from measurements."""

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

SIMULATED = "trials.device_kind = 'simulated_gpu'"
MEASURED = "trials.device_kind <> 'simulated_gpu'"

TRIAL_AXES = """trials.model, trials.strategy, trials.num_gpus, trials.hosts, trials.device_kind, trials.variable_update,
       trials.local_parameter_device, trials.all_reduce, trials.precision, trials.xla, trials.optimizer, trials.data,
       trials.image_px, trials.batch_size, trials.scaling, trials.planted"""

RUN_DIR = """CASE WHEN substr(attempts.run_dir, 1, 1) = '/' THEN attempts.run_dir
            ELSE sweeps.run_dir || '/' || attempts.run_dir END AS run_dir"""

OF_ATTEMPTS = """FROM attempts
JOIN trials ON trials.id = attempts.trial_id
JOIN sweeps ON sweeps.id = attempts.sweep_id
JOIN machines ON machines.id = attempts.machine_id"""

THROUGHPUT = """
CREATE VIEW {name} AS
SELECT attempts.id AS attempt_id, sweeps.name AS sweep, trials.id AS trial_id, {axes},
       machines.host, machines.gpu, environments.software_key, attempts.shares_host, attempts.repeat,
       measurements.images_per_second, measurements.images_per_second_low, measurements.images_per_second_high,
       measurements.median_step_s, measurements.p90_step_s, measurements.jitter_s, measurements.data_wait_share,
       measurements.cpu_s, measurements.peak_host_memory_bytes, measurements.peak_device_memory_bytes,
       measurements.verdict, attempts.started_at
{of_attempts}
JOIN measurements ON measurements.attempt_id = attempts.id
LEFT JOIN environments ON environments.id = attempts.environment_id
WHERE attempts.outcome = 'completed' AND attempts.deleted_at IS NULL AND {which}
"""

LATEST_ATTEMPTS = f"""
CREATE VIEW latest_attempts AS
SELECT attempts.id AS attempt_id, sweeps.name AS sweep, trials.id AS trial_id, {TRIAL_AXES},
       machines.host, attempts.repeat, attempts.attempt, attempts.outcome, attempts.message, attempts.exit_code,
       attempts.started_at, attempts.duration_s,
       CASE WHEN {MEASURED} THEN measurements.images_per_second END AS images_per_second, measurements.verdict,
       {RUN_DIR},
       CASE WHEN {SIMULATED} THEN measurements.images_per_second END AS simulated_images_per_second
{OF_ATTEMPTS}
LEFT JOIN measurements ON measurements.attempt_id = attempts.id
WHERE attempts.deleted_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM attempts AS later
    WHERE later.trial_id = attempts.trial_id AND later.sweep_id = attempts.sweep_id AND later.repeat = attempts.repeat
          AND later.attempt > attempts.attempt AND later.deleted_at IS NULL
)
"""

FAILURES = f"""
CREATE VIEW failures AS
SELECT attempts.id AS attempt_id, sweeps.name AS sweep, trials.id AS trial_id, {TRIAL_AXES},
       machines.host, attempts.repeat, attempts.attempt, attempts.outcome, attempts.message, attempts.exit_code,
       attempts.started_at, attempts.duration_s, {RUN_DIR}
{OF_ATTEMPTS}
WHERE attempts.outcome <> 'completed' AND attempts.deleted_at IS NULL
"""

SAME_GROUP = """attempts.machine_id = {group}.machine_id AND environments.software_key = {group}.software_key
        AND attempts.shares_host = {group}.shares_host AND attempts.outcome = 'completed' AND attempts.deleted_at IS NULL"""

MEDIAN = """(
    SELECT avg(ranked.images_per_second)
    FROM (
      SELECT measurements.images_per_second, row_number() OVER (ORDER BY measurements.images_per_second) AS place,
             count(*) OVER () AS num
      FROM attempts
      JOIN measurements ON measurements.attempt_id = attempts.id
      JOIN environments ON environments.id = attempts.environment_id
      WHERE attempts.trial_id = {trial} AND {same_group}
    ) AS ranked
    WHERE 2 * ranked.place BETWEEN ranked.num AND ranked.num + 2
  )"""  # no division: DuckDB, which runs the text of views itself, knows none of whole numbers

MEDIAN_OF_ROW = MEDIAN.format(trial="grouped.trial_id", same_group=SAME_GROUP.format(group="grouped"))
MEDIAN_ON_1 = MEDIAN.format(
    trial="(SELECT one.id FROM trials AS one WHERE one.curve = grouped.curve AND one.num_gpus = 1)",
    same_group=SAME_GROUP.format(group="grouped"),
)

# The axes in GROUP BY let conditions on them reach the tables' indexes; DISTINCT, of rows that all differ, keeps both engines
# from working out each median anew wherever it is named.
SCALING = """
CREATE VIEW {name} AS
SELECT compared.*, compared.images_per_second / nullif(compared.images_per_second_on_1, 0) AS speed_up,
       compared.images_per_second / nullif(compared.images_per_second_on_1, 0) / compared.num_gpus AS efficiency
FROM (
  SELECT DISTINCT grouped.*,
  {median_of_row} AS images_per_second,
  {median_on_1} AS images_per_second_on_1
  FROM (
    SELECT trials.id AS trial_id, trials.curve, {axes},
           attempts.machine_id, machines.host, machines.gpu, environments.software_key, attempts.shares_host,
           count(*) AS num_repeats, min(measurements.images_per_second) AS lowest,
           max(measurements.images_per_second) AS highest,
           sum(CASE WHEN measurements.verdict = 'valid' THEN 0 ELSE 1 END) AS num_doubtful
    {of_attempts}
    JOIN measurements ON measurements.attempt_id = attempts.id
    JOIN environments ON environments.id = attempts.environment_id
    WHERE attempts.outcome = 'completed' AND attempts.deleted_at IS NULL AND {which}
    GROUP BY trials.id, trials.curve, {axes},
             attempts.machine_id, machines.host, machines.gpu, environments.software_key, attempts.shares_host
  ) AS grouped
) AS compared
"""

FILLED_IN = {"axes": TRIAL_AXES, "of_attempts": OF_ATTEMPTS, "median_of_row": MEDIAN_OF_ROW, "median_on_1": MEDIAN_ON_1}


def upgrade() -> None:
    for view in ("throughput", "latest_attempts", "failures", "scaling"):
        op.execute(f"DROP VIEW {view}")
    # SQLite would leave rows on the disk as they are, without the new value; `check --salvage` takes whole rows only.
    anew: Literal["always", "never"] = "always" if op.get_bind().dialect.name == "sqlite" else "never"
    with op.batch_alter_table("trials", recreate=anew) as table:
        table.add_column(sa.Column("planted", sa.Text(), nullable=False, server_default=""))
    with op.batch_alter_table("machines", recreate=anew) as table:
        table.add_column(sa.Column("hardware_profile", sa.Text(), nullable=False, server_default=""))
    with op.batch_alter_table("measurements", recreate=anew) as table:
        table.add_column(sa.Column("truth", sa.JSON(), nullable=True))
    for before, which in (("", MEASURED), ("simulated_", SIMULATED)):
        for name, view in (("throughput", THROUGHPUT), ("scaling", SCALING)):
            op.execute(view.format(name=f"{before}{name}", which=which, **FILLED_IN))
    for view in (LATEST_ATTEMPTS, FAILURES):
        op.execute(view)
