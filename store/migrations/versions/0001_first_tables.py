"""Sweeps, trials, attempts, measurements, step samples, machines, environments, and the view `throughput`."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

THROUGHPUT = """
CREATE VIEW throughput AS
SELECT attempts.id AS attempt_id, sweeps.name AS sweep, trials.id AS trial_id, trials.model, trials.strategy, trials.num_gpus,
       trials.batch_size, trials.image_px, trials.precision, trials.data, trials.device_kind, machines.host,
       attempts.repeat, measurements.images_per_second, measurements.median_step_s, measurements.jitter_s, attempts.started_at
FROM attempts
JOIN trials ON trials.id = attempts.trial_id
JOIN sweeps ON sweeps.id = attempts.sweep_id
JOIN machines ON machines.id = attempts.machine_id
JOIN measurements ON measurements.attempt_id = attempts.id
WHERE attempts.outcome = 'completed'
"""


def upgrade() -> None:
    op.create_table(
        "environments",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("software_key", sa.Text(), nullable=False),
        sa.Column("python", sa.Text(), nullable=False),
        sa.Column("tensorflow", sa.Text(), nullable=False),
        sa.Column("keras", sa.Text(), nullable=False),
        sa.Column("scalemark", sa.Text(), nullable=False),
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("description", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
    )
    op.create_table(
        "machines",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("cpu", sa.Text(), nullable=False),
        sa.Column("num_cores", sa.Integer(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.Column("num_gpus", sa.Integer(), nullable=False),
        sa.Column("gpu", sa.Text(), nullable=False),
        sa.Column("driver", sa.Text(), nullable=False),
        sa.Column("gpus", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
    )
    op.create_table(
        "sweeps",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(), nullable=False),
        sa.Column("finished_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "trials",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("strategy", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("num_gpus", sa.Integer(), nullable=False),
        sa.Column("hosts", sa.Integer(), nullable=False),
        sa.Column("device_kind", sa.Text(), nullable=False),
        sa.Column("variable_update", sa.Text(), nullable=False),
        sa.Column("local_parameter_device", sa.Text(), nullable=False),
        sa.Column("all_reduce", sa.Text(), nullable=False),
        sa.Column("staged_vars", sa.Boolean(), nullable=False),
        sa.Column("gradient_repacking", sa.Integer(), nullable=False),
        sa.Column("compact_gradients", sa.Boolean(), nullable=False),
        sa.Column("precision", sa.Text(), nullable=False),
        sa.Column("loss_scale", sa.Text(), nullable=False),
        sa.Column("xla", sa.Text(), nullable=False),
        sa.Column("optimizer", sa.Text(), nullable=False),
        sa.Column("learning_rate", sa.Double(), nullable=False),
        sa.Column("momentum", sa.Double(), nullable=False),
        sa.Column("weight_decay", sa.Double(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.Column("data_dir", sa.Text(), nullable=False),
        sa.Column("distortions", sa.Boolean(), nullable=False),
        sa.Column("data_format", sa.Text(), nullable=False),
        sa.Column("image_px", sa.Integer(), nullable=False),
        sa.Column("num_classes", sa.Integer(), nullable=False),
        sa.Column("batch_size", sa.Integer(), nullable=False),
        sa.Column("scaling", sa.Text(), nullable=False),
        sa.Column("steps_per_execution", sa.Integer(), nullable=False),
        sa.Column("gpu_thread_mode", sa.Text(), nullable=False),
        sa.Column("gpu_thread_count", sa.Integer(), nullable=False),
        sa.Column("visibility", sa.Text(), nullable=False),
        sa.Column("min_warm_up_steps", sa.Integer(), nullable=False),
        sa.Column("num_steps", sa.Integer(), nullable=False),
        sa.Column("seed", sa.Integer(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "attempts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("sweep_id", sa.Integer(), nullable=False),
        sa.Column("trial_id", sa.Text(), nullable=False),
        sa.Column("machine_id", sa.Integer(), nullable=False),
        sa.Column("environment_id", sa.Integer(), nullable=True),
        sa.Column("repeat", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=False),
        sa.Column("visible_devices", sa.Text(), nullable=False),
        sa.Column("run_dir", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(), nullable=False),
        sa.Column("duration_s", sa.Double(), nullable=False),
        sa.CheckConstraint(
            "outcome IN ('completed', 'failed', 'out_of_memory', 'timed_out', 'hung', 'interrupted', 'unsupported', 'invalid')",
            name="attempts_outcome",
        ),
        sa.ForeignKeyConstraint(
            ["environment_id"],
            ["environments.id"],
        ),
        sa.ForeignKeyConstraint(
            ["machine_id"],
            ["machines.id"],
        ),
        sa.ForeignKeyConstraint(
            ["sweep_id"],
            ["sweeps.id"],
        ),
        sa.ForeignKeyConstraint(
            ["trial_id"],
            ["trials.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("sweep_id", "trial_id", "repeat", "attempt", name="attempts_once"),
    )
    op.create_index(op.f("ix_attempts_sweep_id"), "attempts", ["sweep_id"], unique=False)
    op.create_index(op.f("ix_attempts_trial_id"), "attempts", ["trial_id"], unique=False)
    op.create_table(
        "left_out",
        sa.Column("sweep_id", sa.Integer(), nullable=False),
        sa.Column("overrides", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["sweep_id"],
            ["sweeps.id"],
        ),
        sa.PrimaryKeyConstraint("sweep_id", "overrides"),
    )
    op.create_table(
        "sweep_trials",
        sa.Column("sweep_id", sa.Integer(), nullable=False),
        sa.Column("trial_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["sweep_id"],
            ["sweeps.id"],
        ),
        sa.ForeignKeyConstraint(
            ["trial_id"],
            ["trials.id"],
        ),
        sa.PrimaryKeyConstraint("sweep_id", "trial_id"),
    )
    op.create_table(
        "measurements",
        sa.Column("attempt_id", sa.Integer(), nullable=False),
        sa.Column("images_per_second", sa.Double(), nullable=False),
        sa.Column("median_step_s", sa.Double(), nullable=False),
        sa.Column("jitter_s", sa.Double(), nullable=False),
        sa.Column("num_steps", sa.Integer(), nullable=False),
        sa.Column("num_warm_up_steps", sa.Integer(), nullable=False),
        sa.Column("steady", sa.Boolean(), nullable=False),
        sa.Column("trace_s", sa.Double(), nullable=False),
        sa.Column("first_step_s", sa.Double(), nullable=False),
        sa.Column("data_wait_share", sa.Double(), nullable=False),
        sa.Column("cpu_s", sa.Double(), nullable=False),
        sa.Column("peak_host_memory_bytes", sa.BigInteger(), nullable=False),
        sa.Column("peak_device_memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("first_loss", sa.Double(), nullable=True),
        sa.Column("last_loss", sa.Double(), nullable=True),
        sa.Column("num_parameters", sa.BigInteger(), nullable=False),
        sa.Column("op_placement", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"],
            ["attempts.id"],
        ),
        sa.PrimaryKeyConstraint("attempt_id"),
    )
    op.create_table(
        "step_samples",
        sa.Column("attempt_id", sa.Integer(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("start_s", sa.Double(), nullable=False),
        sa.Column("duration_s", sa.Double(), nullable=False),
        sa.Column("data_wait_s", sa.Double(), nullable=False),
        sa.Column("loss", sa.Double(), nullable=True),
        sa.CheckConstraint("phase IN ('warm_up', 'measure')", name="step_samples_phase"),
        sa.ForeignKeyConstraint(
            ["attempt_id"],
            ["attempts.id"],
        ),
        sa.PrimaryKeyConstraint("attempt_id", "step"),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_environments_software_key"), "environments", ["software_key"])
    op.execute(THROUGHPUT)
