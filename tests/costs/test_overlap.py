"""What stays visible of communication behind the passes, by hand."""

import numpy as np
import pytest

from costs.overlap import exposed_after, exposed_before

HALF = np.array([0.5, 1.0])


def test_the_last_message_is_sent_when_the_backward_pass_is_over() -> None:
    assert exposed_after(
        np.array([0.9, 0.1]), HALF, transfer_s=2.0, latency_s=0.0, pass_s=10.0
    ) == pytest.approx(0.2)


def test_a_link_that_is_too_slow_goes_on_for_as_long_as_it_has_to() -> None:
    assert exposed_after(
        np.array([0.9, 0.1]), HALF, transfer_s=20.0, latency_s=0.0, pass_s=10.0
    ) == pytest.approx(0.5 * 10 + 20 - 10)


def test_each_message_has_its_share_of_the_latencies() -> None:
    assert exposed_after(
        np.array([0.5, 0.5]), HALF, transfer_s=0.0, latency_s=2.0, pass_s=10.0
    ) == pytest.approx(1.0)


def test_the_forward_pass_waits_for_its_first_layers() -> None:
    wanted = np.array([0.0, 0.5])
    assert exposed_before(wanted, transfer_s=3.0, latency_s=0.0, pass_s=10.0) == pytest.approx(1.5)
    assert exposed_before(wanted, transfer_s=30.0, latency_s=0.0, pass_s=10.0) == pytest.approx(
        15.0
    )


def test_nothing_sent_is_nothing_waited_for() -> None:
    assert exposed_after(HALF, HALF, 0.0, 0.0, 10.0) == exposed_before(HALF, 0.0, 0.0, 10.0) == 0
