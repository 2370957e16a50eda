"""A repeat is tried again as often as the way it ended allows, and no more."""

import pytest

from scalemark.records.measurement import AttemptResult, GpuTelemetry, Outcome
from sweeper.loop.attempt import MOST_LOSSES, end_of

DISTURBED = GpuTelemetry(uuid="GPU-0", num_samples=1, throttle_reasons=(), num_foreign_processes=1)


def ended(outcome: Outcome, *telemetry: GpuTelemetry, crashed: bool = False) -> tuple[str, int]:
    """What the end is called, and how many more attempts there are when all end so."""
    result = AttemptResult(outcome=outcome, message="", gpu_telemetry=telemetry)
    return end_of(result, crashed=crashed)


def test_a_crash_is_tried_once_more_and_an_error_of_the_program_is_not():
    assert ended(Outcome.FAILED, crashed=True) == ("crashed", 1)
    assert ended(Outcome.FAILED) == ("failed", 0)


def test_what_a_lost_host_interrupts_is_left_to_the_next_command_after_some_tries():
    assert ended(Outcome.INTERRUPTED) == ("interrupted", MOST_LOSSES)


def test_an_interrupt_by_somebody_else_counts_as_a_crash():
    assert ended(Outcome.INTERRUPTED, crashed=True) == ("crashed", 1)


@pytest.mark.parametrize("outcome", sorted(set(Outcome) - {Outcome.INTERRUPTED, Outcome.FAILED}))
def test_what_ended_otherwise_is_never_tried_again(outcome):
    assert ended(outcome, crashed=True) == (outcome.value, 0)


def test_what_completed_while_others_used_its_gpus_is_tried_once_more():
    assert ended(Outcome.COMPLETED, DISTURBED) == ("disturbed", 1)
    assert ended(Outcome.FAILED, DISTURBED) == ("failed", 0)
