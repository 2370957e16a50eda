"""As many agents are asked for as there is work for; and no more, once it is clear that they are of no use."""

from pathlib import Path

import pytest

from scalemark.host.own_code import ROOT
from sweeper.agents.fleet import MOST_IN_VAIN_BESIDE_OTHERS, START_AGAIN_EVERY_S, Fleet, Seen
from sweeper.errors import SweepRefusedError
from sweeper.launchers import AgentJob, JobState, agent_command


class Engine:
    """A launcher whose agents are lines on paper."""

    def __init__(self) -> None:
        self.jobs: list[AgentJob] = []

    def check(self):
        raise NotImplementedError

    def start(self, num, command):
        for _ in range(num):
            self.jobs.append(
                AgentJob(job_id=str(len(self.jobs)), hosts=command.hosts, state=JobState.RUNNING)
            )

    def look(self, sweep):
        return self.jobs

    def stop(self, sweep, *, at_once):
        self.jobs.clear()

    def take_back(self, sweep):
        raise NotImplementedError

    def end(self, why: str = "", first: int = 0) -> None:
        """All, from the `first` on."""
        self.jobs[first:] = [
            AgentJob(
                job_id=job.job_id,
                hosts=job.hosts,
                state=JobState.ENDED,
                why=why,
                log=Path("agent.log"),
            )
            for job in self.jobs[first:]
        ]


class World:
    def __init__(self, num_hosts: int) -> None:
        self.engine, self.notes, self.now_s = Engine(), [], 0.0

        def command(hosts):
            return agent_command("s", "postgresql://u:secret@h/d", hosts=hosts, logs=Path())

        self.fleet = Fleet(
            self.engine, "s", num_hosts, command, self.notes.append, lambda: self.now_s
        )

    def tend(
        self,
        num_open,
        num_attempts=0,
        refusals=None,
        *,
        num_useful=0,
        newest_agent=0,
        after_s=START_AGAIN_EVERY_S,
    ):
        self.now_s += after_s
        reported = {
            "num_attempts": num_attempts,
            "num_useful": num_useful,
            "newest_agent": newest_agent,
        }
        self.fleet.tend(Seen(num_open=num_open, refusals=refusals or {}, **reported))
        return [job.hosts for job in self.engine.jobs if job.state is not JobState.ENDED]


def test_one_agent_per_host_and_no_more_than_there_are_repeats():
    assert World(4).tend({1: (100, 0)}) == [1, 1, 1, 1]
    assert World(4).tend({1: (2, 0)}) == [1, 1]


def test_who_waits_for_hosts_is_counted_until_the_sweep_is_ended():
    world = World(2)
    one, two = (
        AgentJob(job_id=name, hosts=1, state=JobState.QUEUED, why="Resources") for name in "12"
    )
    world.engine.jobs = [one]
    world.tend({1: (2, 0)})
    assert world.fleet.waits_for == "1 agent waits for hosts: Resources"
    world.engine.jobs = [one, two]
    world.tend({1: (2, 0)})
    assert world.fleet.waits_for == "2 agents wait for hosts: Resources"
    world.fleet.stop(at_once=False)
    assert world.fleet.waits_for == ""


def test_trials_over_two_hosts_have_agents_over_two_hosts():
    assert World(4).tend({2: (9, 0)}) == [2, 2]


def test_agents_over_one_host_and_over_several_share_hosts():
    assert World(4).tend({1: (3, 0), 2: (9, 0)}) == [1, 1, 2]
    assert World(4).tend({1: (9, 0), 2: (1, 0)}) == [1, 1, 2]
    world = World(4)
    assert world.tend({1: (9, 0), 2: (9, 0), 4: (1, 0)}) == [4]
    world.engine.end()
    assert world.tend({1: (9, 0), 2: (9, 0)}, num_useful=1) == [1, 1, 2]
    assert world.tend({1: (9, 1), 2: (9, 0)}) == [1, 1, 2]


def test_agents_that_ended_are_replaced_while_something_waits():
    world = World(2)
    assert world.tend({1: (9, 0)}) == world.tend({1: (7, 2)}, 2) == [1, 1]
    world.engine.end("preempted")
    assert world.tend({1: (3, 0)}, 5, num_useful=2) == [1, 1]
    assert world.notes == [
        "agents asked for: 0, 1",
        "agent 0 ended: preempted; its log is agent.log",
        "agent 1 ended: preempted; its log is agent.log",
    ]
    world.engine.end()
    assert world.tend({1: (0, 1)}, 6) == []


def test_the_reason_of_an_end_is_printed_once_however_late():
    world = World(1)
    world.tend({1: (9, 0)})
    for why in ("", "canceled", "canceled"):
        world.engine.end(why)
        world.tend({1: (0, 9)})
    assert world.notes == ["agent 0 ended: canceled; its log is agent.log"]


def test_agents_that_end_without_a_trial_end_the_sweep():
    world = World(1)

    def in_vain() -> None:
        world.tend({1: (9, 0)}, after_s=1000.0)
        world.engine.end("exit code 7")

    for _ in range(3):
        in_vain()
    with pytest.raises(
        SweepRefusedError,
        match=r"agents were started 3 times and ended without a trial: exit code 7; its log is ",
    ):
        in_vain()
    assert len(world.engine.jobs) == 3


def test_beside_one_good_agent_bad_ones_are_not_asked_for_forever():
    world = World(2)
    world.tend({1: (9, 0)})
    for num_attempts in range(1000):
        world.engine.end("no space left on device", first=1)
        assert world.tend({1: (9, 1)}, num_attempts, after_s=1000.0)[0] == 1
    assert len(world.engine.jobs) == 1 + MOST_IN_VAIN_BESIDE_OTHERS
    assert world.notes[-1] == (
        f"agents were started {MOST_IN_VAIN_BESIDE_OTHERS} times and ended without a trial: no space left on device; its log is "
        "agent.log; the sweep goes on with those that are there"
    )
    world.engine.end("preempted")
    assert world.tend({1: (9, 0)}, 1001, num_useful=1) == [1, 1]


def test_agents_of_no_use_are_replaced_later_and_later():
    world = World(2)
    started_s = []
    for _ in range(80):
        num_before = len(world.engine.jobs)
        world.tend({1: (9, 1)}, after_s=1.0)
        if len(world.engine.jobs) > num_before:
            started_s.append(world.now_s)
        world.engine.end("", first=1)
    assert started_s == [1.0, 6.0, 16.0, 36.0, 76.0]


def test_agents_that_refuse_are_not_asked_for_again():
    world = World(1)
    world.tend({1: (9, 0)})
    world.engine.end()
    with pytest.raises(
        SweepRefusedError, match=r"the agents run nothing: another version; its log is agent\.log"
    ):
        world.tend({1: (9, 0)}, refusals={1: "another version"})


def test_an_old_refusal_does_not_end_a_sweep_that_goes_well():
    world = World(2)
    world.tend({1: (9, 0)})
    refused = {1: "another version"}
    world.engine.end("preempted")
    assert world.tend({1: (9, 0)}, 3, refused, num_useful=1, newest_agent=2) == [1, 1]
    world.engine.end("preempted")
    assert world.tend({1: (9, 0)}, 3, refused, num_useful=1, newest_agent=2, after_s=20.0) == [1, 1]


def test_nobody_is_asked_for_again_where_people_start_agents():
    world = World(1)
    world.tend({1: (9, 0)})
    world.engine.jobs.clear()
    assert world.tend({1: (9, 0)}) == []


def test_the_command_of_an_agent_holds_no_password():
    command = agent_command("s", "postgresql://u:secret@h/d", hosts=2, logs=Path())
    assert command.argv[1:] == ("-P", "-m", "sweeper", "agent", "--sweep", "s", "--hosts", "2")
    assert command.environment["SCALEMARK_DB"] == "postgresql://u:secret@h/d"


def test_the_path_of_python_is_kept_behind_this_project(
    monkeypatch,
):
    def path():
        command = agent_command("s", "postgresql://u@h/d", hosts=1, logs=Path())
        return command.environment["PYTHONPATH"]

    monkeypatch.setenv("PYTHONPATH", "/site/a:/site/b")
    assert path() == f"{ROOT}:/site/a:/site/b"
    monkeypatch.delenv("PYTHONPATH")
    assert path() == str(ROOT)
