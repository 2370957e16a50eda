"""Keeps as many agents at work as there is work for: has them started, and replaced when they end
before it does.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sweeper.errors import SweepRefusedError
from sweeper.launchers import AgentCommand, AgentJob, HostLauncher, JobState

START_AGAIN_EVERY_S = 5.0  # twice as long after each round in vain
MOST_IN_VAIN = 3  # rounds in a row after which agents ended without a trial, when none is left
MOST_IN_VAIN_BESIDE_OTHERS = 8  # 21 minutes; while others are at work no more are asked for then


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The work and the agents, as the database shows them."""

    # hosts -> repeats that nobody has, and that an agent has
    num_open: Mapping[int, tuple[int, int]]
    num_attempts: int  # that have ended
    num_useful: int  # agents that have ended, and had run something
    newest_agent: int  # the highest id
    refusals: Mapping[int, str]  # agent -> why it runs nothing, and will not


class Fleet:
    """The agents of one sweep. `command` returns what an agent over so many hosts is; `note` prints
    what people should know.
    """

    def __init__(
        self,
        launcher: HostLauncher,
        sweep: str,
        num_hosts: int,
        command: Callable[[int], AgentCommand],
        note: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._launcher, self._sweep, self._num_hosts = launcher, sweep, num_hosts
        self._command, self._note, self._clock = command, note, clock
        self._reported_new: set[str] = set()  # jobs
        self._reported: set[str] = set()  # jobs whose end was printed
        self._next_start_s = clock()
        self._rounds = Rounds(note)
        self.waits_for = ""  # why agents that were asked for do not run yet, for people

    def tend(self, seen: Seen) -> None:
        """Ask for the agents that are missing. Raises SweepRefusedError when there is no use in
        asking for more.
        """
        jobs = self._launcher.look(self._sweep)
        alive = [job for job in jobs if job.state is not JobState.ENDED]
        queued = [job for job in alive if job.state is JobState.QUEUED]
        self.waits_for = _waits_for(queued)
        self._tell_new(alive)
        self._tell_ends(jobs)
        # people that start agents by hand know best when
        is_by_hand = not jobs and self._rounds.have_begun
        if is_by_hand or self._clock() < self._next_start_s:
            return
        missing = self._missing(seen.num_open, alive)
        if not missing or not self._rounds.is_of_use(jobs, len(alive), seen):
            return
        self._rounds.begin(seen, len(jobs) - len(alive))
        for hosts, num in sorted(missing.items()):
            self._launcher.start(num, self._command(hosts))
        self._next_start_s = self._clock() + START_AGAIN_EVERY_S * 2**self._rounds.num_in_vain

    def take_back(self) -> None:
        """Cancel those that have not begun."""
        self.waits_for = ""
        self._launcher.take_back(self._sweep)

    def stop(self, *, at_once: bool) -> None:
        self.waits_for = ""
        self._launcher.stop(self._sweep, at_once=at_once)

    def num_alive(self) -> int:
        """Count agents that run, as far as the engine knows: those that wait would find nothing."""
        return sum(job.state is JobState.RUNNING for job in self._launcher.look(self._sweep))

    def _missing(
        self, num_open: Mapping[int, tuple[int, int]], alive: Sequence[AgentJob]
    ) -> Counter[int]:
        """Return hosts of an agent -> how many more of such: one in turn of each kind, the widest
        first, as long as hosts are left.
        """
        # a trial that is wider than what was asked for was planned: it gets its hosts
        free = max(self._num_hosts, *num_open, 0) - sum(job.hosts for job in alive)
        wanted: dict[int, int] = {}
        for hosts, (num_waiting, num_taken) in sorted(num_open.items(), reverse=True):
            if num_waiting:
                num_there = sum(job.hosts == hosts for job in alive)
                wanted[hosts] = num_waiting + num_taken - num_there
        missing: Counter[int] = Counter()
        goes_on = True
        while goes_on:
            goes_on = False
            for hosts, num in wanted.items():
                if missing[hosts] < num and hosts <= free:
                    missing[hosts] += 1
                    free -= hosts
                    goes_on = True
        return +missing

    def _tell_new(self, alive: Sequence[AgentJob]) -> None:
        """Name them as the engine does: people may want to look after them there."""
        new = [job.job_id for job in alive if job.job_id and job.job_id not in self._reported_new]
        if new:
            self._reported_new.update(new)
            self._note(f"agents asked for: {', '.join(new)}")

    def _tell_ends(self, jobs: Sequence[AgentJob]) -> None:
        for job in jobs:
            # some say why later
            if job.state is JobState.ENDED and job.why and job.job_id not in self._reported:
                self._reported.add(job.job_id)
                self._note(f"agent {job.job_id} ended: {job.why}{_log_of(job)}")


class Rounds:
    """Judges whether asking for agents is of use, by what became of those asked for before."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.num_in_vain = 0  # in a row
        self._note = note
        self._then: Seen | None = None  # as it was when agents were asked for last
        self._num_ended_then = 0  # jobs

    @property
    def have_begun(self) -> bool:
        return self._then is not None

    def begin(self, seen: Seen, num_ended: int) -> None:
        self._then, self._num_ended_then = seen, num_ended

    def is_of_use(self, jobs: Sequence[AgentJob], num_alive: int, seen: Seen) -> bool:
        """Raises SweepRefusedError when asking again is of no use, and no agent is left."""
        then = self._then
        if then is None:
            return True
        num_ended = len(jobs) - num_alive
        refusals = [why for agent, why in seen.refusals.items() if agent > then.newest_agent]
        has_run_more = seen.num_attempts > then.num_attempts
        if seen.num_useful > then.num_useful or (not num_alive and has_run_more):
            self.num_in_vain = 0
        elif refusals and not num_alive:
            raise SweepRefusedError(f"the agents run nothing: {refusals[-1]}{_log_of(jobs[-1])}")
        elif num_ended > self._num_ended_then and self.num_in_vain < MOST_IN_VAIN_BESIDE_OTHERS:
            self.num_in_vain += 1
            if self.num_in_vain == MOST_IN_VAIN_BESIDE_OTHERS:
                self._note(f"{self._found(jobs)}; the sweep goes on with those that are there")
        if self.num_in_vain >= MOST_IN_VAIN and not num_alive:
            raise SweepRefusedError(self._found(jobs))
        return self.num_in_vain < MOST_IN_VAIN_BESIDE_OTHERS

    def _found(self, jobs: Sequence[AgentJob]) -> str:
        last = [job for job in jobs if job.state is JobState.ENDED][-1]
        return (
            f"agents were started {self.num_in_vain} times and ended without a trial: "
            f"{last.why or 'why is not known'}{_log_of(last)}"
        )


def _waits_for(queued: Sequence[AgentJob]) -> str:
    if not queued:
        return ""
    waiting = "1 agent waits" if len(queued) == 1 else f"{len(queued)} agents wait"
    return f"{waiting} for hosts: {queued[0].why or 'queued'}"


def _log_of(job: AgentJob) -> str:
    return f"; its log is {job.log}" if job.log else ""
