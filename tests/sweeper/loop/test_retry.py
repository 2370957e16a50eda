"""A repeat is tried again as often as its settings say for the way it ended, and no more."""

import pytest

from conf.schema import RetryConfig
from scalemark.records.measurement import Outcome
from sweeper import SweepRefusedError
from sweeper.loop.attempt import MOST_LOSSES, check_retries, ended_so, is_tried_again


def num_attempts(retry: RetryConfig, outcome: Outcome, *, crashed: bool = False) -> int:
    """How many attempts are made when all of them end the same way."""
    ended = ended_so(outcome, crashed=crashed)
    number = 1
    while is_tried_again(retry, ended, number):
        number += 1
    return number


def test_a_crash_is_tried_once_more_by_default():
    assert num_attempts(RetryConfig(), Outcome.FAILED, crashed=True) == 2
    assert num_attempts(RetryConfig(), Outcome.FAILED, crashed=False) == 1
    assert num_attempts(RetryConfig(crashed=0, failed=5), Outcome.FAILED, crashed=True) == 1


@pytest.mark.parametrize("outcome", [Outcome.TIMED_OUT, Outcome.HUNG, Outcome.OUT_OF_MEMORY])
def test_what_was_ended_for_a_known_reason_has_no_result_but_did_not_crash(outcome):
    assert ended_so(outcome, crashed=True) == outcome


def test_what_a_lost_host_interrupts_is_left_to_the_next_command_after_some_tries():
    assert num_attempts(RetryConfig(crashed=0), Outcome.INTERRUPTED) == 1 + MOST_LOSSES


def test_an_interrupt_by_somebody_else_counts_as_a_crash():
    assert num_attempts(RetryConfig(crashed=2), Outcome.INTERRUPTED, crashed=True) == 3
    assert ended_so(Outcome.INTERRUPTED, crashed=True) == "crashed"


@pytest.mark.parametrize("outcome", sorted(set(Outcome) - {Outcome.INTERRUPTED, Outcome.FAILED}))
def test_what_ended_otherwise_is_never_tried_again(outcome):
    assert num_attempts(RetryConfig(crashed=9, failed=9), outcome) == 1


@pytest.mark.parametrize("count", [0, 1, 3])
def test_an_error_of_the_program_is_tried_again_as_often_as_its_setting_says(count):
    retry = RetryConfig(crashed=9, failed=count)
    assert num_attempts(retry, Outcome.FAILED) == 1 + count


def test_what_completed_while_others_used_its_gpus_is_tried_once_more():
    ended = ended_so(Outcome.COMPLETED, crashed=False, disturbed=True)
    assert is_tried_again(RetryConfig(), ended, 1)
    assert not is_tried_again(RetryConfig(), ended, 2)
    assert ended_so(Outcome.FAILED, crashed=False, disturbed=True) == "failed"


@pytest.mark.parametrize("setting", ["crashed", "failed"])
@pytest.mark.parametrize("count", [-1, 101])
def test_counts_that_cannot_be_are_refused_by_name(setting, count):
    with pytest.raises(
        SweepRefusedError, match=rf"retry\.{setting}={count}: wanted 0 to 100 further attempts"
    ):
        check_retries(RetryConfig(**{setting: count}))


def test_counts_that_can_be_are_not_refused():
    check_retries(RetryConfig())
    check_retries(RetryConfig(crashed=100, failed=0))
