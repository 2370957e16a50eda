"""An attempt that was interrupted says by whom: who ended the sweep, or who ended its agent."""

import signal

import pytest

from store.errors import StoreError
from sweeper.loop.source import OwnSource, Wish
from sweeper.loop.stopping import OF_SWEEP, why_interrupted
from sweeper.stop import Stop


class Leased:
    """The source of an agent. `wish` is what the planner wants; None: the database is away."""

    is_leased = True

    def __init__(self, wish: Wish | None) -> None:
        self._wish = wish

    def wish(self) -> Wish:
        if self._wish is None:
            raise StoreError("the server cannot be reached")
        return self._wish


def stop_by(number: int | None) -> Stop:
    stop = Stop()
    stop.last_signal = number
    return stop


@pytest.mark.parametrize("wish", [Wish.GO_ON, Wish.FINISH, None])
def test_a_signal_to_an_agent_alone_leaves_its_trials_to_others(wish):
    assert (
        why_interrupted(stop_by(signal.SIGTERM), Leased(wish))
        == "its agent was ended by SIGTERM; others run it"
    )


@pytest.mark.parametrize(
    ("stopped_by", "source"),
    [
        (signal.SIGINT, OwnSource(None)),
        (None, Leased(Wish.STOP)),
        (signal.SIGTERM, Leased(Wish.STOP)),
        (signal.SIGTERM, Leased(Wish.KILL)),
    ],
)
def test_who_ends_the_sweep_ends_its_agents_too(stopped_by, source):
    assert why_interrupted(stop_by(stopped_by), source) == OF_SWEEP


@pytest.mark.parametrize(
    ("number", "hint"),
    [(signal.SIGINT, "; Ctrl-C once more kills"), (signal.SIGTERM, ""), (None, "")],
)
def test_ctrl_c_is_spoken_of_to_who_pressed_it(number, hint):
    assert stop_by(number).hint == hint
