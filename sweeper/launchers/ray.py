"""`launcher=ray`: agents run in a Ray cluster, each in a placement group that is a whole host, or
several for trials over several.

```
  controller ── placement group, task ──►  Ray's worker on a host ──►  agent: claims trials
     │  a host that dies: another group        │ canceled, or dies: SIGTERM ──►┘     │
     └─ dies, however: Ray ends its tasks ─────┤ ◄── trials over several hosts ──────┘
                                               └──► a Ray task for each rank, on its host
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scalemark.abilities import LauncherAbilities
from scalemark.records.sweep import setting


@dataclass
class Settings:
    """`launcher.ray.*`"""

    address: str | None = setting(
        "of the cluster; null = RAY_ADDRESS, a cluster of this host, or a new one here",
        default=None,
    )


ABILITIES = LauncherAbilities(starts_agents=True, settings=Settings)

from conf.schema import Config
from sweeper import ray as of_ray
from sweeper.devices.agent_hosts import devices_of_hosts
from sweeper.devices.machine import Inventory
from sweeper.errors import SweepRefusedError
from sweeper.launchers import AgentCommand, AgentJob, JobState
from sweeper.ray import agent_task, cluster, feasible, tied
from sweeper.ray.program import placed
from sweeper.ray.rank_service import LOST

WAITS = {
    "NO_RESOURCES": "hosts are busy",
    "INFEASIBLE": "no host that lives has so many CPUs and GPUs",
}
"""Ray's word for why a placement group is pending -> ours."""


@dataclass(slots=True, kw_only=True)
class _Agent:
    """A placement group, and the task in it."""

    job: AgentJob
    group: Any = field(repr=False)
    task: Any = field(repr=False)
    has_lost_host: bool = False


class Launcher:
    """Speaks with Ray as a driver: what it started ends with this process, which the same command
    begins again.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._bundle: Mapping[str, float] = {}
        self._agents: list[_Agent] = []

    def check(self) -> Inventory:
        nodes = cluster.join(self._config.launcher.ray.address)
        inventory = devices_of_hosts(self._config, feasible.gpus_per_host(self._config, nodes))
        self._bundle = feasible.whole_host(self._config, inventory, nodes)
        return inventory

    def check_width(self, hosts: int) -> None:
        """Check nothing: `check` saw as many hosts as the widest trial may have."""

    def start(self, num: int, command: AgentCommand) -> None:
        ray = cluster.load()
        try:
            for _ in range(num):
                self._agents.append(self._started(command))
        except ray.exceptions.RaySystemError as error:
            raise _silent(error) from error

    def look(self, sweep: str) -> Sequence[AgentJob]:
        for agent in self._agents:
            if agent.job.state is not JobState.ENDED:
                agent.job = _seen(agent)
        return [agent.job for agent in self._agents]

    def take_back(self, sweep: str) -> None:
        self._cancel(JobState.QUEUED, at_once=False)

    def stop(self, sweep: str, *, at_once: bool) -> None:
        """Canceled tasks send SIGTERM to their agents; with `at_once` Ray kills the tasks, and
        Linux sends it.
        """
        self._cancel(JobState.QUEUED, JobState.RUNNING, at_once=at_once)

    def _cancel(self, *states: JobState, at_once: bool) -> None:
        ray = cluster.load()
        for agent in self._agents:
            if agent.job.state in states:
                ray.cancel(agent.task, force=at_once)

    def _started(self, command: AgentCommand) -> _Agent:
        ray = cluster.load()
        from ray.util import placement_group

        # its hosts need not have this project on their path
        ray.cloudpickle.register_pickle_by_value(of_ray)
        bundles = [dict(self._bundle)] * command.hosts
        group = placement_group(bundles, strategy="STRICT_SPREAD")
        job_id = group.id.hex()[:12]
        log = command.logs / f"ray-{job_id}.txt"
        run_agent = placed(
            ray.remote(agent_task.run_agent),
            group,
            0,
            self._bundle,
            name=f"scalemark-{command.sweep}",
        )
        task = run_agent.remote(tied.__file__, command.argv, command.environment, str(log), bundles)
        job = AgentJob(job_id=job_id, hosts=command.hosts, state=JobState.QUEUED, log=log)
        return _Agent(job=job, group=group, task=task)


def _seen(agent: _Agent) -> AgentJob:
    """Ask Ray how the agent is; the host of one that has ended is given back. Raises
    SweepRefusedError.
    """
    ray = cluster.load()
    from ray.util import placement_group_table, remove_placement_group

    try:
        if ray.wait([agent.task], timeout=0)[0]:
            why = LOST if agent.has_lost_host else _why_ended(ray, agent.task)
            remove_placement_group(agent.group)
            return replace(agent.job, state=JobState.ENDED, why=why)
        table = placement_group_table(agent.group)
    except ray.exceptions.RaySystemError as error:
        raise _silent(error) from error
    if agent.job.state is JobState.RUNNING:
        if table["state"] != "CREATED" and agent.job.hosts > 1 and not agent.has_lost_host:
            # Ray looks for another, where nobody would look for the agent's ranks
            agent.has_lost_host = True
            ray.cancel(agent.task)
        return agent.job
    if table["state"] == "CREATED":
        return replace(agent.job, state=JobState.RUNNING, why="")
    waits = table["stats"]["scheduling_state"]
    return replace(agent.job, state=JobState.QUEUED, why=WAITS.get(waits, "Ray is placing it"))


def _why_ended(ray: Any, task: Any) -> str:
    try:
        return str(ray.get(task))
    except ray.exceptions.TaskCancelledError:
        return "canceled"
    except ray.exceptions.NodeDiedError:
        return "its host died"
    except ray.exceptions.WorkerCrashedError:
        return "its Ray worker died"
    except ray.exceptions.RayError as error:
        return " ".join(str(error).split())


def _silent(error: Exception) -> SweepRefusedError:
    return SweepRefusedError(
        f"launcher=ray: the Ray cluster does not do what it is asked for ({error}); see `ray "
        "status`"
    )
