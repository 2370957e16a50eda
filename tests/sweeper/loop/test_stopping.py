"""A sweep that is asked to stop says how to stop it at once."""

import signal

import pytest

from sweeper.loop.supervision import Stop


def stop_by(number: int | None) -> Stop:
    stop = Stop()
    stop.last_signal = number
    return stop


@pytest.mark.parametrize(
    ("number", "hint"),
    [(signal.SIGINT, "; Ctrl-C once more kills"), (signal.SIGTERM, ""), (None, "")],
)
def test_ctrl_c_is_spoken_of_to_who_pressed_it(number, hint):
    assert stop_by(number).hint == hint
