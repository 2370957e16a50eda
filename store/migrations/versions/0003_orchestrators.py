"""Orchestrators, the state of every repeat with its changes, and how attempts were started."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

STATES = (
    "state IN ('pending', 'claimed', 'running', 'completed', 'failed', 'out_of_memory', 'timed_out', 'hung', 'interrupted', "
    "'unsupported', 'invalid', 'skipped')"
)

REPEATS_OF_EARLIER_SWEEPS = """
INSERT INTO repeats (sweep_id, trial_id, repeat, state, reason, num_attempts)
SELECT attempts.sweep_id, attempts.trial_id, attempts.repeat, attempts.outcome, '', attempts.attempt
FROM attempts
WHERE attempts.attempt = (
    SELECT max(other.attempt) FROM attempts AS other
    WHERE other.sweep_id = attempts.sweep_id AND other.trial_id = attempts.trial_id AND other.repeat = attempts.repeat
)
ORDER BY attempts.id
"""


def upgrade() -> None:
    op.create_table(
        "orchestrators",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("sweep_id", sa.Integer(), nullable=False),
        sa.Column("machine_id", sa.Integer(), nullable=False),
        sa.Column("software_key", sa.Text(), nullable=False),
        sa.Column("shares_host", sa.Boolean(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("boot_id", sa.Text(), nullable=False),
        sa.Column("pid_namespace", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("start_ticks", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.DateTime(), nullable=False),
        sa.Column("heartbeat_at", sa.DateTime(), nullable=False),
        sa.Column("ended_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"]),
        sa.ForeignKeyConstraint(["machine_id"], ["machines.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_orchestrators_sweep_id", "orchestrators", ["sweep_id"])
    op.create_table(
        "repeats",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("sweep_id", sa.Integer(), nullable=False),
        sa.Column("trial_id", sa.Text(), nullable=False),
        sa.Column("repeat", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("num_attempts", sa.Integer(), nullable=False),
        sa.Column("orchestrator_id", sa.Integer(), nullable=True),
        sa.Column("started_at", sa.DateTime(), nullable=True),
        sa.Column("run_dir", sa.Text(), nullable=True),
        sa.Column("placement", sa.JSON(), nullable=True),
        sa.Column("pid", sa.Integer(), nullable=True),
        sa.Column("start_ticks", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(STATES, name="repeats_state"),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"]),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"]),
        sa.ForeignKeyConstraint(["orchestrator_id"], ["orchestrators.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("sweep_id", "trial_id", "repeat", name="repeats_once"),
    )
    op.create_index("ix_repeats_trial_id", "repeats", ["trial_id"])
    op.create_index("ix_repeats_sweep_id_state", "repeats", ["sweep_id", "state"])
    op.create_table(
        "events",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("repeat_id", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.CheckConstraint(STATES, name="events_state"),
        sa.ForeignKeyConstraint(["repeat_id"], ["repeats.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_events_repeat_id", "events", ["repeat_id"])
    op.execute(REPEATS_OF_EARLIER_SWEEPS)
    with op.batch_alter_table("attempts") as table:
        table.add_column(sa.Column("start", sa.Text(), nullable=False, server_default="spawn"))  # all of them, until now
        table.add_column(sa.Column("cores", sa.Text(), nullable=False, server_default=""))
        table.add_column(sa.Column("shares_host", sa.Boolean(), nullable=False, server_default=sa.false()))
        table.alter_column("exit_code", existing_type=sa.Integer(), nullable=True)
        table.alter_column("duration_s", existing_type=sa.Double(), nullable=True)
