"""Slurm's commands are asked the same, whatever their user has set for those typed by hand."""

import pytest

from sweeper.slurm.commands import SlurmEndedError, SlurmError, SlurmSilentError, ask

GONE = "scancel: error: Kill job error on job id 1_1: Invalid job id specified"
DONE = "scancel: error: Kill job error on job id 1_2: Job/step already completing or completed"


def test_variables_of_the_user_and_of_a_job_that_we_run_in_do_not_count(monkeypatch):
    for name in (
        "SQUEUE_PARTITION",
        "SCANCEL_INTERACTIVE",
        "SBATCH_WAIT",
        "SACCT_FORMAT",
        "SLURM_JOB_ID",
    ):
        monkeypatch.setenv(name, "theirs")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm.conf")
    monkeypatch.setenv("WORD", "kept")
    reported = ask("env", variables={"SCALEMARK_DB": "given"}).splitlines()
    assert "theirs" not in "".join(reported)
    assert {"SLURM_CONF=/etc/slurm.conf", "WORD=kept", "SCALEMARK_DB=given"} <= set(reported)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (GONE, SlurmEndedError),
        (f"{GONE}\n{DONE}", SlurmEndedError),
        (
            f"{GONE}\nscancel: error: Kill job error on job id 1_3: Access/permission denied",
            SlurmError,
        ),
        (
            f"{GONE}\nscancel: error: Kill job error on job id 1_3: Socket timed out on send/recv operation",
            SlurmSilentError,
        ),
        ("sbatch: error: Batch job submission failed: Connection reset by peer", SlurmSilentError),
        ("", SlurmError),
    ],
)
def test_errors_are_sorted_into_ended_silent_and_refused(said, kind):
    with pytest.raises(SlurmError) as error:
        ask("sh", "-c", "printf '%s\\n' \"$0\" >&2; exit 1", said)
    assert type(error.value) is kind
