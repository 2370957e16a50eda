"""Sweeps that agents on many hosts share, placements over several hosts, and the rate of the link between these."""

from typing import Any, Literal

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

SIMULATED = "trials.device_kind = 'simulated_gpu'"
MEASURED = "trials.device_kind <> 'simulated_gpu'"

TRIAL_AXES = """trials.model, trials.strategy, trials.num_gpus, trials.hosts, trials.device_kind, trials.variable_update,
       trials.local_parameter_device, trials.all_reduce, trials.precision, trials.xla, trials.optimizer, trials.data,
       trials.image_px, trials.batch_size, trials.scaling, trials.planted"""

OF_ATTEMPTS = """FROM attempts
JOIN trials ON trials.id = attempts.trial_id
JOIN machines ON machines.id = attempts.machine_id"""

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
MEDIAN_ON_1 = MEDIAN.format(  # one GPU is on one host: a curve holds one such trial
    trial="(SELECT one.id FROM trials AS one WHERE one.curve = grouped.curve AND one.num_gpus = 1 AND one.hosts = 1)",
    same_group=SAME_GROUP.format(group="grouped"),
)

# As in 0005; a curve holds several numbers of hosts now, each a row of its own.
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
WAITING = sa.text("state = 'pending' AND orchestrator_id IS NULL")


def upgrade() -> None:
    for view in ("scaling", "simulated_scaling"):
        op.execute(f"DROP VIEW {view}")
    added: dict[str, list[sa.Column[Any]]] = {
        "sweeps": [sa.Column("settings", sa.JSON(), nullable=True)],
        "orchestrators": [_text("note"), sa.Column("lease_s", sa.Double(), nullable=True)],
        "repeats": [sa.Column("turn", sa.Integer(), nullable=True)],
        "placements": [_text("hosts"), _text("rank_start")],
        "machines": [_text("pool")],
        "measurements": [sa.Column("link_bytes_per_s", sa.Double(), nullable=True)],
    }
    for table, columns in added.items():
        _add(table, columns)
    op.create_index("ix_repeats_waiting", "repeats", ["sweep_id", "turn"], sqlite_where=WAITING, postgresql_where=WAITING)
    for before, which in (("", MEASURED), ("simulated_", SIMULATED)):
        op.execute(SCALING.format(name=f"{before}scaling", which=which, **FILLED_IN))


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False, server_default="")


def _add(table: str, columns: list[sa.Column[Any]]) -> None:
    """SQLite would leave rows on the disk as they are, without the new values; `check --salvage` takes whole rows only."""
    anew: Literal["always", "never"] = "always" if op.get_bind().dialect.name == "sqlite" else "never"
    with op.batch_alter_table(table, recreate=anew) as batch:
        for column in columns:
            batch.add_column(column)
