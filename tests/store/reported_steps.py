"""Steps of a process that is to be killed after so many: it tells each, and goes on only a few ahead of who counts them."""

from contextlib import suppress
from multiprocessing.connection import Connection

MOST_AHEAD = 2  # so that it is killed after any statement of the steps that follow, and never has done all its work before


class ReportedSteps:
    """In that process: called at each step."""

    def __init__(self, counts: Connection) -> None:
        self._counts, self._num_ahead = counts, 0

    def __call__(self) -> None:
        self._counts.send_bytes(b".")
        self._num_ahead += 1
        while self._num_ahead > MOST_AHEAD:
            self._counts.recv_bytes()
            self._num_ahead -= 1


def is_known(steps: Connection) -> bool:
    """Waits for a step; False when the process has ended."""
    try:
        steps.recv_bytes()
    except (
        EOFError,
        ConnectionResetError,
    ):  # the latter where it had not heard yet that it may go on
        return False
    return True


def go_on(steps: Connection) -> None:
    """One step more."""
    with suppress(ConnectionError):  # it has ended meanwhile
        steps.send_bytes(b".")
