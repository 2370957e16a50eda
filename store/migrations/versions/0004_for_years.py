"""Identities that travel, packed steps, shared placements, GPUs and links, tags, notes, references, and the views for readers."""

import hashlib
import json
import math
import uuid
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

from store.errors import StoreError

revision = "0004"
down_revision = "0003"

STATES = (
    "state IN ('pending', 'claimed', 'running', 'completed', 'failed', 'out_of_memory', 'timed_out', 'hung', 'interrupted', "
    "'unsupported', 'invalid', 'skipped')"
)
IN_FLIGHT = "state IN ('claimed', 'running')"
ONE_SUBJECT = (
    "(CASE WHEN sweep_id IS NULL THEN 0 ELSE 1 END) + (CASE WHEN trial_id IS NULL THEN 0 ELSE 1 END)"
    " + (CASE WHEN attempt_id IS NULL THEN 0 ELSE 1 END) = 1"
)

TRIAL_AXES = """trials.model, trials.strategy, trials.num_gpus, trials.hosts, trials.device_kind, trials.variable_update,
       trials.local_parameter_device, trials.all_reduce, trials.precision, trials.xla, trials.optimizer, trials.data,
       trials.image_px, trials.batch_size, trials.scaling"""

RUN_DIR = """CASE WHEN substr(attempts.run_dir, 1, 1) = '/' THEN attempts.run_dir
            ELSE sweeps.run_dir || '/' || attempts.run_dir END AS run_dir"""

OF_ATTEMPTS = """FROM attempts
JOIN trials ON trials.id = attempts.trial_id
JOIN sweeps ON sweeps.id = attempts.sweep_id
JOIN machines ON machines.id = attempts.machine_id"""

THROUGHPUT = f"""
CREATE VIEW throughput AS
SELECT attempts.id AS attempt_id, sweeps.name AS sweep, trials.id AS trial_id, {TRIAL_AXES},
       machines.host, machines.gpu, environments.software_key, attempts.shares_host, attempts.repeat,
       measurements.images_per_second, measurements.images_per_second_low, measurements.images_per_second_high,
       measurements.median_step_s, measurements.p90_step_s, measurements.jitter_s, measurements.data_wait_share,
       measurements.cpu_s, measurements.peak_host_memory_bytes, measurements.peak_device_memory_bytes,
       measurements.verdict, attempts.started_at
{OF_ATTEMPTS}
JOIN measurements ON measurements.attempt_id = attempts.id
LEFT JOIN environments ON environments.id = attempts.environment_id
WHERE attempts.outcome = 'completed' AND attempts.deleted_at IS NULL
"""

LATEST_ATTEMPTS = f"""
CREATE VIEW latest_attempts AS
SELECT attempts.id AS attempt_id, sweeps.name AS sweep, trials.id AS trial_id, {TRIAL_AXES},
       machines.host, attempts.repeat, attempts.attempt, attempts.outcome, attempts.message, attempts.exit_code,
       attempts.started_at, attempts.duration_s, measurements.images_per_second, measurements.verdict,
       {RUN_DIR}
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

# The axes in GROUP BY let conditions on them reach the tables' indexes; DISTINCT, of rows that all differ, keeps both engines
# from working out each median anew wherever it is named.
SCALING = f"""
CREATE VIEW scaling AS
SELECT compared.*, compared.images_per_second / nullif(compared.images_per_second_on_1, 0) AS speed_up,
       compared.images_per_second / nullif(compared.images_per_second_on_1, 0) / compared.num_gpus AS efficiency
FROM (
  SELECT DISTINCT grouped.*,
  {MEDIAN.format(trial="grouped.trial_id", same_group=SAME_GROUP.format(group="grouped"))} AS images_per_second,
  {MEDIAN.format(trial="(SELECT one.id FROM trials AS one WHERE one.curve = grouped.curve AND one.num_gpus = 1)",
                 same_group=SAME_GROUP.format(group="grouped"))} AS images_per_second_on_1
  FROM (
    SELECT trials.id AS trial_id, trials.curve, {TRIAL_AXES},
           attempts.machine_id, machines.host, machines.gpu, environments.software_key, attempts.shares_host,
           count(*) AS num_repeats, min(measurements.images_per_second) AS lowest,
           max(measurements.images_per_second) AS highest,
           sum(CASE WHEN measurements.verdict = 'valid' THEN 0 ELSE 1 END) AS num_doubtful
    {OF_ATTEMPTS}
    JOIN measurements ON measurements.attempt_id = attempts.id
    JOIN environments ON environments.id = attempts.environment_id
    WHERE attempts.outcome = 'completed' AND attempts.deleted_at IS NULL
    GROUP BY trials.id, trials.curve, {TRIAL_AXES},
             attempts.machine_id, machines.host, machines.gpu, environments.software_key, attempts.shares_host
  ) AS grouped
) AS compared
"""

STEP_SAMPLES = {
    "sqlite": """
CREATE VIEW step_samples AS
SELECT attempt_id, step, CASE WHEN place < num_warm_up THEN 'warm_up' ELSE 'measure' END AS phase,
       (sum(gap_us + duration_us) OVER (PARTITION BY attempt_id ORDER BY place) - duration_us) / 1e6 AS start_s,
       duration_us / 1e6 AS duration_s, wait_us / 1e6 AS data_wait_s, loss, num_steps
FROM (
  SELECT arrays.attempt_id, each.key AS place, arrays.first_step + each.key * arrays.num_steps AS step, arrays.num_warm_up,
         arrays.num_steps, (arrays.least_duration + each.value) * arrays.time_unit_us AS duration_us,
         coalesce(json_extract(arrays.data_wait, '$[' || each.key || ']'), 0) * arrays.time_unit_us AS wait_us,
         json_extract(arrays.gap_before, '$[' || each.key || ']') * arrays.time_unit_us AS gap_us,
         arrays.least_loss + json_extract(arrays.loss_over_least, '$[' || each.key || ']') * arrays.loss_unit AS loss
  FROM step_arrays AS arrays
  JOIN attempts ON attempts.id = arrays.attempt_id AND attempts.deleted_at IS NULL
  CROSS JOIN json_each(arrays.duration_over_least) AS each
)
""",
    "postgresql": """
CREATE VIEW step_samples AS
SELECT attempt_id, step, CASE WHEN place < num_warm_up THEN 'warm_up' ELSE 'measure' END AS phase,
       CAST(sum(gap_us + duration_us) OVER (PARTITION BY attempt_id ORDER BY place) - duration_us AS double precision) / 1e6
           AS start_s,
       CAST(duration_us AS double precision) / 1e6 AS duration_s,
       CAST(wait_us AS double precision) / 1e6 AS data_wait_s, loss, num_steps
FROM (
  SELECT arrays.attempt_id, each.number - 1 AS place, arrays.first_step + (each.number - 1) * arrays.num_steps AS step,
         arrays.num_warm_up, arrays.num_steps,
         (arrays.least_duration + CAST(each.over_least AS bigint)) * arrays.time_unit_us AS duration_us,
         coalesce(CAST(each.wait AS bigint), 0) * arrays.time_unit_us AS wait_us, CAST(each.gap AS bigint) * arrays.time_unit_us AS gap_us,
         arrays.least_loss + CAST(each.loss AS double precision) * arrays.loss_unit AS loss
  FROM step_arrays AS arrays
  JOIN attempts ON attempts.id = arrays.attempt_id AND attempts.deleted_at IS NULL
  CROSS JOIN LATERAL ROWS FROM (json_array_elements_text(arrays.duration_over_least), json_array_elements_text(arrays.data_wait),
                  json_array_elements_text(arrays.gap_before), json_array_elements_text(arrays.loss_over_least))
       WITH ORDINALITY AS each (over_least, wait, gap, loss, number)
) AS unpacked
""",
}

STATE_CHANGES = {
    "sqlite": """
CREATE VIEW state_changes AS
SELECT events.repeat_id, sweeps.name AS sweep, repeats.trial_id, repeats.repeat, events.number, events.attempt, events.state,
       events.detail,
       strftime('%Y-%m-%d %H:%M:%S', events.at_unix_us / 1000000, 'unixepoch') || printf('.%06d', events.at_unix_us % 1000000) AS at
FROM events
JOIN repeats ON repeats.id = events.repeat_id
JOIN sweeps ON sweeps.id = repeats.sweep_id
""",
    "postgresql": """
CREATE VIEW state_changes AS
SELECT events.repeat_id, sweeps.name AS sweep, repeats.trial_id, repeats.repeat, events.number, events.attempt, events.state,
       events.detail, timestamp '1970-01-01' + events.at_unix_us * interval '1 microsecond' AS at
FROM events
JOIN repeats ON repeats.id = events.repeat_id
JOIN sweeps ON sweeps.id = repeats.sweep_id
""",
}


def upgrade() -> None:
    op.execute("DROP VIEW throughput")
    _database_info()
    _machines()
    _environments()
    _sweeps()
    _trials()
    if op.get_bind().dialect.name == "sqlite":
        _sweep_trials()
    _repeats()
    _events()
    _attempts()
    _op_placements()
    _steps()
    _annotations()
    _references()
    dialect = op.get_bind().dialect.name
    for view in (THROUGHPUT, LATEST_ATTEMPTS, FAILURES, SCALING, STEP_SAMPLES[dialect], STATE_CHANGES[dialect]):
        op.execute(sa.text(view.replace(":", "\\:")))


def _database_info() -> None:
    info = op.create_table(
        "database_info", sa.Column("name", sa.Text(), nullable=False), sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.get_bind().execute(sa.insert(info), {"name": "id", "value": uuid.uuid4().hex})


def _machines() -> None:
    gpus = op.create_table(
        "gpus",
        sa.Column("machine_id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("pci_bus_id", sa.Text(), nullable=False),
        sa.Column("compute_capability", sa.Text(), nullable=False),
        sa.Column("power_limit_w", sa.Double(), nullable=True),
        sa.Column("numa_node", sa.Integer(), nullable=True),
        sa.Column("cores", sa.Text(), nullable=False),
        sa.Column("mig_parent", sa.Text(), nullable=True),
        sa.Column("mig_mode", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["machine_id"], ["machines.id"]),
        sa.PrimaryKeyConstraint("machine_id", "uuid"),
    )
    op.create_table(
        "gpu_links",
        sa.Column("machine_id", sa.Integer(), nullable=False),
        sa.Column("first_uuid", sa.Text(), nullable=False),
        sa.Column("second_uuid", sa.Text(), nullable=False),
        sa.Column("num_nvlinks", sa.Integer(), nullable=False),
        sa.Column("pcie", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["machine_id"], ["machines.id"]),
        sa.PrimaryKeyConstraint("machine_id", "first_uuid", "second_uuid"),
    )
    connection = op.get_bind()
    for machine_id, found in connection.execute(sa.text("SELECT id, gpus FROM machines ORDER BY id")).all():
        told = [one for gpu in _parsed(found) for one in (gpu, *gpu.get("mig_devices", ()))]
        rows = [_gpu(gpu) | {"machine_id": machine_id, "position": position} for position, gpu in enumerate(told)]
        if rows:
            connection.execute(sa.insert(gpus), rows)
    with op.batch_alter_table("machines") as table:
        table.drop_column("gpus")


def _gpu(told: dict[str, Any]) -> dict[str, Any]:
    same = ("uuid", "name", "memory_bytes", "pci_bus_id", "compute_capability", "power_limit_w")
    later = {name: told.get(name) for name in ("numa_node", "mig_parent")}
    cores = ",".join(map(str, told.get("cores", ())))
    return {name: told[name] for name in same} | later | {"cores": cores, "mig_mode": told.get("mig_mode", False)}


def _environments() -> None:
    with op.batch_alter_table("environments") as table:
        for name in ("diff", "cuda", "cudnn"):
            table.add_column(sa.Column(name, sa.Text(), nullable=False, server_default=""))


def _sweeps() -> None:
    with op.batch_alter_table("sweeps") as table:
        table.add_column(sa.Column("uid", sa.Text(), nullable=True))
        table.add_column(sa.Column("run_dir", sa.Text(), nullable=True))
        table.add_column(sa.Column("origin", sa.Text(), nullable=False, server_default=""))
    sweeps = sa.table("sweeps", sa.column("id"), sa.column("uid"), sa.column("name"), sa.column("started_at", sa.DateTime()), sa.column("command"))
    connection = op.get_bind()
    for row in connection.execute(sa.select(sweeps)).mappings().all():
        uid = _sweep_uid(row["name"], row["started_at"], row["command"])
        connection.execute(sa.update(sweeps).where(sweeps.c.id == row["id"]).values(uid=uid))
    with op.batch_alter_table("sweeps") as table:
        table.alter_column("uid", existing_type=sa.Text(), nullable=False)
        table.create_unique_constraint("sweeps_uid", ["uid"])


def _sweep_uid(name: str, started_at: datetime, command: str) -> str:
    """As scalemark.records.sweep.sweep_uid was when this was written."""
    at = started_at.replace(tzinfo=UTC).isoformat(timespec="microseconds")
    return hashlib.sha256(json.dumps([name, at, command]).encode()).hexdigest()[:16]


def _trials() -> None:
    with op.batch_alter_table("trials") as table:
        table.add_column(sa.Column("curve", sa.Text(), nullable=True))
    connection = op.get_bind()
    curves = [{"of": id_, "curve": _curve(spec)} for id_, spec in connection.execute(sa.text("SELECT id, spec FROM trials")).all()]
    if curves:
        connection.execute(sa.text("UPDATE trials SET curve = :curve WHERE id = :of"), curves)
    with op.batch_alter_table("trials") as table:
        table.alter_column("curve", existing_type=sa.Text(), nullable=False)
    op.create_index("ix_trials_curve", "trials", ["curve", "num_gpus"])
    op.create_index("ix_trials_model", "trials", ["model", "num_gpus"])


def _sweep_trials() -> None:
    """Without numbers of rows, which nothing needs: copied, because there is nothing to alter."""
    with op.batch_alter_table("sweep_trials", recreate="always", table_kwargs={"sqlite_with_rowid": False}):
        pass


def _curve(spec: str) -> str:
    """As scalemark.records.trial.TrialSpec.curve was when this was written."""
    told = json.loads(spec)
    num_gpus = told.pop("num_gpus")
    if told.get("scaling") == "strong":
        told["batch_size"] *= num_gpus
    return _digest(told)


def _repeats() -> None:
    op.drop_index("ix_repeats_trial_id", "repeats")
    op.drop_index("ix_repeats_sweep_id_state", "repeats")
    op.create_index("ix_repeats_in_flight", "repeats", ["trial_id"], sqlite_where=sa.text(IN_FLIGHT), postgresql_where=sa.text(IN_FLIGHT))
    op.execute(
        "UPDATE repeats SET started_at = NULL, run_dir = NULL, placement = NULL, pid = NULL, start_ticks = NULL "
        f"WHERE NOT {IN_FLIGHT}"
    )


def _events() -> None:
    op.drop_index("ix_events_repeat_id", "events")
    op.rename_table("events", "old_events")
    op.create_table(
        "events",
        sa.Column("repeat_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("at_unix_us", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.CheckConstraint(STATES, name="events_state"),
        sa.ForeignKeyConstraint(["repeat_id"], ["repeats.id"]),
        sa.PrimaryKeyConstraint("repeat_id", "number"),
        sqlite_with_rowid=False,
    )
    seconds_and_more = {
        "sqlite": "CAST(strftime('%s', at) AS INTEGER) * 1000000 + CAST(substr(at || '000000', 21, 6) AS INTEGER)",
        "postgresql": "CAST(extract(epoch FROM at) * 1000000 AS bigint)",
    }[op.get_bind().dialect.name]
    op.execute(
        "INSERT INTO events (repeat_id, number, at_unix_us, attempt, state, detail) "
        f"SELECT repeat_id, row_number() OVER (PARTITION BY repeat_id ORDER BY id), {seconds_and_more}, attempt, state, detail "
        "FROM old_events"
    )
    op.drop_table("old_events")


def _attempts() -> None:
    placements = op.create_table(
        "placements",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("start", sa.Text(), nullable=False),
        sa.Column("devices", sa.Text(), nullable=False),
        sa.Column("visible_devices", sa.Text(), nullable=False),
        sa.Column("cores", sa.Text(), nullable=False),
        sa.Column("spare_core", sa.Integer(), nullable=True),
        sa.Column("shares_host", sa.Boolean(), nullable=False),
        sa.Column("host_memory_bytes", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
    )
    connection = op.get_bind()
    attempts = sa.table("attempts", *map(sa.column, ("start", "visible_devices", "cores")), sa.column("shares_host", sa.Boolean()))
    found = connection.execute(sa.select(attempts).distinct()).mappings().all()
    rows = [dict(row) | {"devices": "", "spare_core": None, "host_memory_bytes": None} for row in found]
    rows = [row | {"key": _digest(row)} for row in rows]
    if rows:
        connection.execute(sa.insert(placements), rows)
    with op.batch_alter_table("attempts") as table:
        table.add_column(sa.Column("placement_id", sa.Integer(), nullable=True))
        table.add_column(sa.Column("deleted_at", sa.DateTime(), nullable=True))
    op.execute(
        "UPDATE attempts SET placement_id = (SELECT placements.id FROM placements WHERE placements.start = attempts.start "
        "AND placements.visible_devices = attempts.visible_devices AND placements.cores = attempts.cores "
        "AND placements.shares_host = attempts.shares_host)"
    )
    op.drop_index("ix_attempts_trial_id", "attempts")
    with op.batch_alter_table("attempts") as table:
        for name in ("start", "visible_devices", "cores"):
            table.drop_column(name)
        table.alter_column("placement_id", existing_type=sa.Integer(), nullable=False)
        table.create_foreign_key("attempts_placement", "placements", ["placement_id"], ["id"])
        table.drop_constraint("attempts_once", type_="unique")
        table.create_unique_constraint("attempts_once", ["trial_id", "sweep_id", "repeat", "attempt"])


def _op_placements() -> None:
    described = op.create_table(
        "op_placements",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("description", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
    )
    with op.batch_alter_table("measurements") as table:
        table.add_column(sa.Column("op_placement_id", sa.Integer(), nullable=True))
    connection = op.get_bind()
    ids: dict[str, int] = {}
    for attempt_id, found in connection.execute(sa.text("SELECT attempt_id, op_placement FROM measurements ORDER BY attempt_id")).all():
        description = _parsed(found)
        key = _digest(description)
        if key not in ids:
            statement = sa.insert(described).values(key=key, description=description).returning(described.c.id)
            ids[key] = connection.execute(statement).scalar_one()
        connection.execute(
            sa.text("UPDATE measurements SET op_placement_id = :id WHERE attempt_id = :of"), {"id": ids[key], "of": attempt_id}
        )
    impossible = "images_per_second < 0 OR images_per_second >= 1e300"
    if found := connection.execute(sa.text(f"SELECT attempt_id FROM measurements WHERE {impossible}")).scalars().all():
        raise StoreError(
            f"images/s of attempt {', '.join(map(str, found[:5]))} is not a finite number; nothing was changed. "
            f"`DELETE FROM measurements WHERE {impossible}` lets the upgrade go on"
        )
    with op.batch_alter_table("measurements") as table:
        table.drop_column("op_placement")
        table.alter_column("op_placement_id", existing_type=sa.Integer(), nullable=False)
        table.create_foreign_key("measurements_op_placement", "op_placements", ["op_placement_id"], ["id"])
        table.create_check_constraint("measurements_images_per_second", "images_per_second >= 0 AND images_per_second < 1e300")


def _steps() -> None:
    arrays = op.create_table(
        "step_arrays",
        sa.Column("attempt_id", sa.Integer(), nullable=False),
        sa.Column("first_step", sa.Integer(), nullable=False),
        sa.Column("num_steps", sa.Integer(), nullable=False),
        sa.Column("num_warm_up", sa.Integer(), nullable=False),
        sa.Column("time_unit_us", sa.BigInteger(), nullable=False),
        sa.Column("least_duration", sa.BigInteger(), nullable=False),
        sa.Column("least_loss", sa.Double(), nullable=True),
        sa.Column("loss_unit", sa.Double(), nullable=False),
        sa.Column("duration_over_least", sa.JSON(), nullable=False),
        sa.Column("data_wait", sa.JSON(), nullable=False),
        sa.Column("gap_before", sa.JSON(), nullable=False),
        sa.Column("loss_over_least", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"]),
        sa.PrimaryKeyConstraint("attempt_id"),
    )
    connection = op.get_bind()
    columns = "step, phase, start_s, duration_s, data_wait_s, loss, num_steps"
    of_attempt = sa.text(f"SELECT {columns} FROM step_samples WHERE attempt_id = :id ORDER BY step")
    for (attempt_id,) in connection.execute(sa.text("SELECT DISTINCT attempt_id FROM step_samples ORDER BY attempt_id")).all():
        steps = [dict(row) for row in connection.execute(of_attempt, {"id": attempt_id}).mappings()]
        try:
            packed = _packed(steps)
        except (ValueError, OverflowError) as error:
            remove = f"DELETE FROM step_samples WHERE attempt_id = {attempt_id}"
            raise StoreError(
                f"attempt {attempt_id}: its steps cannot be kept: {error}; nothing was changed. "
                f"Its run folder has them, too: `{remove}` lets the upgrade go on"
            ) from error
        connection.execute(sa.insert(arrays), packed | {"attempt_id": attempt_id})
    op.drop_table("step_samples")


def _packed(steps: list[dict[str, Any]]) -> dict[str, Any]:
    """As scalemark.records.step_arrays.pack was when this was written. Raises ValueError for what no trainer has left."""
    first, num_steps = steps[0]["step"], steps[0]["num_steps"]
    num_warm_up = sum(step["phase"] == "warm_up" for step in steps)
    for index, step in enumerate(steps):
        regular = step["step"] == first + index * num_steps and step["num_steps"] == num_steps
        if not regular or (step["phase"] == "warm_up") != (index < num_warm_up):
            raise ValueError(f"step {step['step']} is not the one after step {steps[index - 1]['step']}")
    unit_us = int("1" + "0" * max(len(str(round(min(step["duration_s"] for step in steps) * 1e6))) - 5, 0))
    starts, durations, waits = (
        [round(step[name] / (unit_us / 1e6)) for step in steps] for name in ("start_s", "duration_s", "data_wait_s")
    )
    ends = [0, *(start + duration for start, duration in zip(starts, durations, strict=True))]
    losses = [step["loss"] for step in steps if step["loss"] is not None]
    exponents = [math.floor(math.log10(abs(loss))) + 1 for loss in losses if loss]
    loss_unit = 10.0 ** max(min(exponents) - 5, max(exponents) - 16, -300) if exponents else 1.0
    least = min(losses, default=0.0)
    return {
        "first_step": first,
        "num_steps": num_steps,
        "num_warm_up": num_warm_up,
        "time_unit_us": unit_us,
        "least_duration": min(durations),
        "least_loss": least if losses else None,
        "loss_unit": loss_unit,
        "duration_over_least": [duration - min(durations) for duration in durations],
        "data_wait": waits if any(waits) else [],
        "gap_before": [start - end for start, end in zip(starts, ends, strict=False)],
        "loss_over_least": [None if step["loss"] is None else round((step["loss"] - least) / loss_unit) for step in steps],
    }


def _annotations() -> None:
    for name, text in (("tags", "tag"), ("notes", "note")):
        op.create_table(
            name,
            sa.Column("id", sa.Integer(), nullable=False),
            sa.Column("sweep_id", sa.Integer(), nullable=True),
            sa.Column("trial_id", sa.Text(), nullable=True),
            sa.Column("attempt_id", sa.Integer(), nullable=True),
            sa.Column(text, sa.Text(), nullable=False),
            sa.Column("added_at", sa.DateTime(), nullable=False),
            sa.CheckConstraint(ONE_SUBJECT, name=f"{name}_one_subject"),
            sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"]),
            sa.ForeignKeyConstraint(["trial_id"], ["trials.id"]),
            sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"]),
            sa.PrimaryKeyConstraint("id"),
        )
        for column in ("sweep_id", "trial_id", "attempt_id"):
            op.create_index(f"ix_{name}_{column}", name, [column])


def _references() -> None:
    texts = ("origin", "source", "citation", "hardware", "model")
    axes = ("data", "variable_update", "all_reduce", "local_parameter_device", "precision")
    op.create_table(
        "reference_results",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in texts),
        sa.Column("batch_size", sa.Integer(), nullable=True),
        *(sa.Column(name, sa.Text(), nullable=False) for name in axes),
        sa.Column("num_gpus", sa.Integer(), nullable=False),
        sa.Column("images_per_second", sa.Double(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.CheckConstraint("num_gpus >= 1", name="reference_results_num_gpus"),
        sa.CheckConstraint("images_per_second > 0", name="reference_results_images_per_second"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
    )


def _digest(told: object) -> str:
    """Of canonical JSON."""
    return hashlib.sha256(json.dumps(told, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


def _parsed(found: Any) -> Any:
    """A JSON column, which plain SQL gives as text on SQLite."""
    return json.loads(found) if isinstance(found, str) else found
