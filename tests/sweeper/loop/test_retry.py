"""A repeat is tried again as often as the way it ended allows, and no more."""

import pytest

from scalemark.records.measurement import Outcome
from sweeper.loop.attempt import MOST_LOSSES, ended_so, is_tried_again


def num_attempts(outcome: Outcome, *, crashed: bool = False, disturbed: bool = False) -> int:
    """How many attempts are made when all of them end the same way."""
    ended = ended_so(outcome, crashed=crashed, disturbed=disturbed)
    number = 1
    while is_tried_again(ended, number):
        number += 1
    return number


def test_a_crash_is_tried_once_more_and_an_error_of_the_program_is_not():
    assert num_attempts(Outcome.FAILED, crashed=True) == 2
    assert num_attempts(Outcome.FAILED) == 1


@pytest.mark.parametrize("outcome", [Outcome.TIMED_OUT, Outcome.HUNG, Outcome.OUT_OF_MEMORY])
def test_what_was_ended_for_a_known_reason_has_no_result_but_did_not_crash(outcome):
    assert ended_so(outcome, crashed=True) == outcome


def test_what_a_lost_host_interrupts_is_left_to_the_next_command_after_some_tries():
    assert num_attempts(Outcome.INTERRUPTED) == 1 + MOST_LOSSES


def test_an_interrupt_by_somebody_else_counts_as_a_crash():
    assert num_attempts(Outcome.INTERRUPTED, crashed=True) == 2


@pytest.mark.parametrize("outcome", sorted(set(Outcome) - {Outcome.INTERRUPTED, Outcome.FAILED}))
def test_what_ended_otherwise_is_never_tried_again(outcome):
    assert num_attempts(outcome, crashed=True) == 1


def test_what_completed_while_others_used_its_gpus_is_tried_once_more():
    assert num_attempts(Outcome.COMPLETED, disturbed=True) == 2
    assert num_attempts(Outcome.FAILED, disturbed=True) == 1
