"""Jobs are read as squeue tells of them."""

import pytest

from sweeper.launchers import JobState
from sweeper.slurm.jobs import SlurmJob, read_jobs, why_gone

pytestmark = pytest.mark.cluster

LINES = """\
12_10|PENDING|1|Resources|/runs/s
12_9|COMPLETING|1|TimeLimit|/runs/s
12_8|COMPLETING|1|None|/runs/s
12_7|RUNNING|1|None|/runs/s
7|NODE_FAIL|2|NodeDown|/runs/a|b
8|CANCELLED|1|None|(null)
slurm_load_jobs error: this is no job
"""


def test_jobs_are_read_in_order_with_why_they_wait_or_ended():
    assert read_jobs(LINES) == [
        SlurmJob(
            job_id="7", state=JobState.ENDED, hosts=2, why="its host failed", comment="/runs/a|b"
        ),
        SlurmJob(job_id="8", state=JobState.ENDED, hosts=1, why="canceled", comment="(null)"),
        SlurmJob(job_id="12_7", state=JobState.RUNNING, hosts=1, why="", comment="/runs/s"),
        SlurmJob(job_id="12_8", state=JobState.ENDED, hosts=1, why="", comment="/runs/s"),
        SlurmJob(
            job_id="12_9",
            state=JobState.ENDED,
            hosts=1,
            why="its time limit came; launcher.slurm.time_min sets it",
            comment="/runs/s",
        ),
        SlurmJob(
            job_id="12_10", state=JobState.QUEUED, hosts=1, why="Resources", comment="/runs/s"
        ),
    ]


def test_a_state_of_a_newer_slurm_counts_as_running():
    (job,) = read_jobs("1|EXPEDITING|1|None|/runs/s\n")
    assert job.state is JobState.RUNNING


def test_a_cluster_without_accounts_cannot_tell_of_forgotten_jobs(slurm_cluster):
    assert why_gone("1_1") == ""
