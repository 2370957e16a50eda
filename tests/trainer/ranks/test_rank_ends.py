"""What the kernel did to a rank is reported as far as it can be known."""

import signal

import pytest

from scalemark.records.attempt import HOST_LOST, RANK_LOST, Rank
from scalemark.records.measurement import AttemptResult, Outcome
from scalemark.run_folder import RunFolder
from trainer.rank_ends import RankEnds, judge

PS_1 = Rank(job_name="ps", task_index=1)


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder(tmp_path)
    folder.rank_log(PS_1).touch()
    folder.log.touch()
    return folder


def killed(folder, **changes):
    result, exit_code = judge(folder, RankEnds(exit_codes={PS_1: -signal.SIGKILL}, **changes))
    return exit_code, result.outcome, result.message


def test_a_rank_that_the_kernel_killed_was_out_of_memory(folder):
    reported = "rank ps-1 was killed by the kernel for lack of host memory"
    assert killed(folder, kernel_killed=True) == (4, Outcome.OUT_OF_MEMORY, reported)


def test_beside_other_trials_it_may_have_been_their_memory(folder):
    why = "perhaps by the kernel: it lacked host memory, for this trial or one beside it"
    reported = f"rank ps-1 was killed by SIGKILL, {why}; see log-ps-1.txt"
    assert killed(folder, kernel_killed=True, shares_host=True) == (
        RANK_LOST,
        Outcome.FAILED,
        reported,
    )


def test_an_end_that_nobody_saw_is_reported_as_that(folder):
    result, exit_code = judge(folder, RankEnds(exit_codes={PS_1: None}))
    assert (exit_code, result.message) == (
        RANK_LOST,
        "rank ps-1 ended unseen; see log-ps-1.txt",
    )


def test_a_result_that_worker_0_denies_by_its_end_is_none(folder):
    folder.result.write_text(
        '{"outcome": "completed", "message": "", "measurement": null, "op_placement": {}}'
    )
    worker_0 = Rank(job_name="worker", task_index=0)
    result, exit_code = judge(folder, RankEnds(exit_codes={worker_0: -signal.SIGSEGV}))
    assert (exit_code, result.message) == (
        RANK_LOST,
        "rank worker-0 ended by SIGSEGV; see log.txt",
    )


def test_a_damaged_result_is_reported(folder):
    folder.result.write_text('{"outcome": "compl')
    worker_0 = Rank(job_name="worker", task_index=0)
    result, _ = judge(folder, RankEnds(exit_codes={worker_0: 0}))
    assert result.outcome == Outcome.FAILED
    assert result.message.startswith(
        f"rank worker-0 ended with exit code 0; {folder.result} is damaged"
    )


WORKER_0, WORKER_1 = (Rank(job_name="worker", task_index=index) for index in (0, 1))
COMPLETED = AttemptResult(outcome="completed", message="")


def test_a_host_that_never_ends_makes_the_number_of_the_first_suspect(folder):
    folder.write(folder.result, COMPLETED.to_json())
    both = (WORKER_0, WORKER_1)
    result, exit_code = judge(folder, RankEnds(exit_codes={WORKER_0: 0}, must_complete=both))
    assert (exit_code, result.outcome, result.verdict) == (0, "completed", "suspect")
    assert result.verdict_reasons == (
        "worker-1 had not ended some time after worker-0, and was ended",
    )


def test_an_interrupt_while_others_finish_leaves_the_trial_to_be_run(folder):
    folder.write(folder.result, COMPLETED.to_json())
    both = (WORKER_0, WORKER_1)
    ends = RankEnds(exit_codes={WORKER_0: 0}, must_complete=both, interrupted=True)
    result, _ = judge(folder, ends)
    assert result.outcome == "interrupted"


def test_ranks_that_only_serve_need_not_end(folder):
    folder.write(folder.result, COMPLETED.to_json())
    result, _ = judge(folder, RankEnds(exit_codes={WORKER_0: 0}))
    assert result == COMPLETED


def test_a_lost_host_is_why_the_others_failed(folder):
    folder.rank_log(PS_1).write_text("Error: b: Connection refused\n")
    result, exit_code = judge(folder, RankEnds(exit_codes={WORKER_0: 1, PS_1: HOST_LOST}))
    assert (exit_code, result.outcome) == (HOST_LOST, Outcome.INTERRUPTED)
    assert result.message == (
        "the host of rank ps-1 was lost; see log-ps-1.txt: Error: b: Connection refused"
    )
