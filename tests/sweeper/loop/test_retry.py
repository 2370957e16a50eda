"""A repeat is tried again as often as the way it ended allows, and no more."""

from collections import Counter

import pytest

from scalemark.records.measurement import AttemptResult, GpuTelemetry, Outcome
from sweeper.loop.attempt import MOST_LOSSES, tried_again_after

DISTURBED = GpuTelemetry(uuid="GPU-0", num_samples=1, throttle_reasons=(), num_foreign_processes=1)


def num_attempts(
    outcome: Outcome, *telemetry: GpuTelemetry, crashed: bool = False, num_ended=None
) -> int:
    """How many attempts are made when all of them end the same way."""
    counts = Counter() if num_ended is None else num_ended
    result = AttemptResult(outcome=outcome, message="", gpu_telemetry=telemetry)
    number = 1
    while tried_again_after(result, counts, crashed=crashed):
        number += 1
    return number


def test_a_crash_is_tried_once_more_and_an_error_of_the_program_is_not():
    assert num_attempts(Outcome.FAILED, crashed=True) == 2
    assert num_attempts(Outcome.FAILED) == 1


def test_what_a_lost_host_interrupts_is_left_to_the_next_command_after_some_tries():
    assert num_attempts(Outcome.INTERRUPTED) == 1 + MOST_LOSSES


def test_an_interrupt_by_somebody_else_counts_as_a_crash():
    assert num_attempts(Outcome.INTERRUPTED, crashed=True) == 2


@pytest.mark.parametrize("outcome", sorted(set(Outcome) - {Outcome.INTERRUPTED, Outcome.FAILED}))
def test_what_ended_otherwise_is_never_tried_again(outcome):
    assert num_attempts(outcome, crashed=True) == 1


def test_what_completed_while_others_used_its_gpus_is_tried_once_more():
    num_ended = Counter()
    assert num_attempts(Outcome.FAILED, crashed=True, num_ended=num_ended) == 2
    assert num_attempts(Outcome.COMPLETED, DISTURBED, num_ended=num_ended) == 2
    assert num_attempts(Outcome.FAILED, DISTURBED) == 1
