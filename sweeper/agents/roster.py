"""Keeps the agents of a shared sweep, as the database tells of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from store.sweeps.shared import AgentStatus, SharedStatus
from sweeper.agents.fleet import Seen
from sweeper.agents.shared_settings import REFUSED


class Roster:
    """Agents that were there since its controller began. `tell` is called when one joins, ends, or
    has something to say.
    """

    def __init__(self, first: SharedStatus, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._old = {agent.orchestrator_id for agent in first.agents if agent.ended_at}
        self._told: dict[int, tuple[bool, str]] = {}  # id -> has ended, and its note
        self._ever_busy: set[int] = set()  # agents that ran something

    def __len__(self) -> int:
        return len(self._told)

    def look(self, status: SharedStatus) -> None:
        for agent in self._ours(status):
            now = agent.ended_at is not None, agent.note
            before = self._told.get(agent.orchestrator_id)
            if now != before:
                self._told[agent.orchestrator_id] = now
                self._tell(_about(agent, is_new=before is None))

    def seen(
        self,
        status: SharedStatus,
        num_open: Mapping[int, tuple[int, int]],
        num_attempts: int,
        busy: Collection[int],
    ) -> Seen:
        """What the fleet goes by. `busy`: agents that ran something."""
        self._ever_busy.update(busy)
        ended = [agent for agent in self._ours(status) if agent.ended_at]
        return Seen(
            num_open=num_open,
            num_attempts=num_attempts,
            num_useful=sum(agent.orchestrator_id in self._ever_busy for agent in ended),
            newest_agent=max((agent.orchestrator_id for agent in status.agents), default=0),
            refusals={
                agent.orchestrator_id: agent.note.removeprefix(REFUSED)
                for agent in ended
                if agent.note.startswith(REFUSED)
            },
        )

    def _ours(self, status: SharedStatus) -> list[AgentStatus]:
        return [
            agent
            for agent in status.agents
            if agent.orchestrator_id not in self._old and not agent.is_controller
        ]


def _about(agent: AgentStatus, *, is_new: bool) -> str:
    who = f"agent on {agent.process.host} (process {agent.process.pid})"
    if agent.ended_at is not None:
        return f"{who} ended{f': {agent.note}' if agent.note else ''}"
    return f"{who} joined" if is_new and not agent.note else f"{who}: {agent.note}"
