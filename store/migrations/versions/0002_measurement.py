"""Engine and input switches of a trial; interval, verdict, telemetry and profile of a measurement."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

THROUGHPUT = """
CREATE VIEW throughput AS
SELECT attempts.id AS attempt_id, sweeps.name AS sweep, trials.id AS trial_id, trials.model, trials.strategy, trials.num_gpus,
       trials.batch_size, trials.image_px, trials.precision, trials.data, trials.device_kind, machines.host,
       attempts.repeat, measurements.images_per_second, measurements.images_per_second_low,
       measurements.images_per_second_high, measurements.median_step_s, measurements.jitter_s, measurements.verdict,
       attempts.started_at
FROM attempts
JOIN trials ON trials.id = attempts.trial_id
JOIN sweeps ON sweeps.id = attempts.sweep_id
JOIN machines ON machines.id = attempts.machine_id
JOIN measurements ON measurements.attempt_id = attempts.id
WHERE attempts.outcome = 'completed'
"""


def upgrade() -> None:
    op.execute("DROP VIEW throughput")
    with op.batch_alter_table("trials") as table:
        for name in ("num_inter_threads", "num_intra_threads", "data_threads"):
            table.add_column(sa.Column(name, sa.Integer(), nullable=False, server_default="0"))
        for name in ("onednn", "cudnn_autotune", "winograd_nonfused", "batchnorm_persistent"):
            table.add_column(sa.Column(name, sa.Text(), nullable=False, server_default="auto"))
        table.add_column(sa.Column("cache", sa.Boolean(), nullable=False, server_default=sa.true()))
        table.add_column(sa.Column("prefetch", sa.Integer(), nullable=False, server_default="2"))
        table.add_column(sa.Column("min_window_s", sa.Double(), nullable=False, server_default="0"))
        table.add_column(sa.Column("profile", sa.Boolean(), nullable=False, server_default=sa.false()))
    with op.batch_alter_table("measurements") as table:
        for name in ("images_per_second_low", "images_per_second_high", "p90_step_s", "window_s", "time_to_first_step_s"):
            table.add_column(sa.Column(name, sa.Double(), nullable=True))
        for name in ("cores_taken_by_others", "last_loss_scale"):
            table.add_column(sa.Column(name, sa.Double(), nullable=True))
        table.add_column(sa.Column("num_skipped_steps", sa.Integer(), nullable=True))
        table.add_column(sa.Column("verdict", sa.Text(), nullable=True))
        for name in ("verdict_reasons", "gpu_telemetry", "profile"):
            table.add_column(sa.Column(name, sa.JSON(), nullable=True))
        table.create_check_constraint("measurements_verdict", "verdict IN ('valid', 'suspect', 'invalid')")
    with op.batch_alter_table("step_samples", table_kwargs={"sqlite_with_rowid": False}) as table:
        table.add_column(sa.Column("num_steps", sa.Integer(), nullable=False, server_default="1"))
    op.execute(THROUGHPUT)
