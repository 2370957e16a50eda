"""Keeps what the database shows of a shared sweep while its controller looks after it: counts of
repeats, and agents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping

from scalemark.records.outcomes import IN_FLIGHT, State
from store.sweeps.shared import AgentStatus, SharedStatus
from sweeper.agents.fleet import Seen
from sweeper.agents.shared_settings import REFUSED

_OPEN = (State.PENDING, *IN_FLIGHT)


class Standing:
    """States of repeats: how many were in each first, and are `now`."""

    def __init__(self, first: Mapping[State, int]) -> None:
        self._first, self.now = Counter(first), Counter(first)
        # in the end: what has run, and a stop left to the next command
        self.left_after_an_attempt: Counter[State] = Counter()

    @property
    def settled(self) -> Counter[State]:
        changed = self.now - self._first
        return Counter({state: num for state, num in changed.items() if state not in _OPEN})

    @property
    def num_left(self) -> int:
        return sum(self.now[state] for state in _OPEN)

    @property
    def num_running(self) -> int:
        return self.now[State.RUNNING]

    @property
    def num_in_flight(self) -> int:
        return sum(self.now[state] for state in IN_FLIGHT)

    @property
    def num_not_started(self) -> int:
        return self.num_left - self.num_running - self.left_after_an_attempt.total()


class Roster:
    """Agents that were there since the controller began. `tell` is called when one joins, ends, or
    has something to say.
    """

    def __init__(self, first: SharedStatus, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._old = {agent.orchestrator_id for agent in first.agents if agent.ended_at}
        self._reported: dict[int, str] = {}  # id -> what was said of it last
        self._ever_busy: set[int] = set()  # agents that ran something

    def __len__(self) -> int:
        return len(self._reported)

    def look(self, status: SharedStatus) -> None:
        for agent in self._ours(status):
            about = "ended" if agent.ended_at is not None else "joined"
            if agent.note:
                about += f": {agent.note}"
            if self._reported.get(agent.orchestrator_id) != about:
                self._reported[agent.orchestrator_id] = about
                self._tell(f"agent on {agent.process.host} (process {agent.process.pid}) {about}")

    def seen(
        self,
        status: SharedStatus,
        num_open: Mapping[int, tuple[int, int]],
        num_attempts: int,
        busy: Collection[int],
    ) -> Seen:
        """Return what the fleet goes by. `busy` are agents that ran something."""
        self._ever_busy.update(busy)
        refusals, num_useful = {}, 0
        for agent in self._ours(status):
            if agent.ended_at is None:
                continue
            num_useful += agent.orchestrator_id in self._ever_busy
            if agent.note.startswith(REFUSED):
                refusals[agent.orchestrator_id] = agent.note.removeprefix(REFUSED)
        return Seen(
            num_open=num_open,
            num_attempts=num_attempts,
            num_useful=num_useful,
            newest_agent=max((agent.orchestrator_id for agent in status.agents), default=0),
            refusals=refusals,
        )

    def _ours(self, status: SharedStatus) -> list[AgentStatus]:
        return [
            agent
            for agent in status.agents
            if agent.orchestrator_id not in self._old and not agent.is_controller
        ]
