"""Workers in lockstep stop together; what was measured stays though one goes too early."""

import pytest
import tensorflow as tf

from trainer.devices import AHEAD, Lockstep


@pytest.mark.parametrize("fails_at", range(1, AHEAD + 1))
def test_a_worker_that_went_during_the_last_calls_fails_nothing(capsys, fails_at):
    calls = []

    def take_call() -> float:
        calls.append(1.0)
        if len(calls) == fails_at:
            raise tf.errors.UnavailableError(None, None, "connection reset by peer")
        return 1.0

    Lockstep("/CPU:0", 1).end(take_call)
    assert len(calls) == fails_at
    reported = capsys.readouterr().err
    assert "connection reset by peer" in reported
    assert (
        reported.splitlines()[-1]
        == "another worker ended during the last calls, after all was measured"
    )


def test_what_is_no_error_of_tensorflow_is_raised():
    def take_call() -> float:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Lockstep("/CPU:0", 1).end(take_call)
