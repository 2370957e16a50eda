"""`launcher=slurm`: agents run in jobs of a Slurm cluster, each job a whole host, or the hosts of
trials over several.

```
  controller ── sbatch --array=1-4 ──►  job 12_1: agent on a host of its own    each claims trials from the database
     ├── squeue: what became of them    job 12_2: agent ...
     └── scancel                        job 13_1: agent over 2 hosts, which starts ranks by srun
```

Jobs bear the sweep's name, and as a comment the folder of its runs and a token of their submission:
who controls the sweep next finds them by these, and so does who does not know whether what it sent
arrived.
"""

from __future__ import annotations

import shlex
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from scalemark.abilities.launcher import LauncherAbilities


@dataclass
class Settings:
    """`launcher.slurm.*`"""

    partition: str | None = None  # null = the cluster's default
    account: str | None = None
    time_min: int | None = None  # minutes that a job may take; null = the partition's
    # what each host is asked for, as gpu:8; null = its GPUs, when trials run on GPUs
    gres: str | None = None
    # lines of shell before an agent starts, as "module load cuda"
    setup: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)  # more of sbatch's options, as "--qos=long"


ABILITIES = LauncherAbilities(starts_agents=True, settings=Settings)

from conf.schema import Config
from scalemark.records.devices import DeviceKind
from scalemark.text.untrusted import quoted
from sweeper.devices.agent_hosts import devices_of_hosts
from sweeper.devices.machine import Inventory
from sweeper.errors import SweepRefusedError
from sweeper.launchers import HOSTS_VARIABLE, RANK_START_VARIABLE, AgentCommand, AgentJob, JobState
from sweeper.slurm import feasible, jobs
from sweeper.slurm.commands import SlurmEndedError, SlurmError, SlurmSilentError, ask
from sweeper.slurm.jobs import SlurmJob

# a controller that is restarted, or is in trouble, comes back within that
SILENT_AT_MOST_S = 1800.0
NOT_SENT = "Slurm's controller does not answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unsent:
    num: int
    command: AgentCommand
    token: str  # of this submission alone
    may_have_arrived: bool = False  # its answer was not heard


class Launcher:
    """Asks by sbatch, squeue and scancel, and by sacct where there are accounts."""

    def __init__(self, config: Config, clock: Callable[[], float] = time.monotonic) -> None:
        self._config, self._clock = config, clock
        self._runs = Path(config.store.runs_dir).expanduser().resolve()
        self._gpus = 0
        self._jobs: dict[str, AgentJob] = {}  # in the order they were asked for, or found
        self._unsent: list[_Unsent] = []
        self._silent_since_s: float | None = None

    def check(self) -> Inventory:
        told = feasible.hosts(self._config)
        inventory = devices_of_hosts(self._config, told.gpus_per_host)
        self._gpus = inventory.num_devices if inventory.kind is DeviceKind.GPU else 0
        self.check_width(1)
        if told.most_of_a_job >= self._config.launcher.agents.num_hosts:
            return inventory
        limit = (
            f"jobs of the partition {told.partition} have no more nodes; another is chosen by "
            "launcher.slurm.partition"
        )
        return replace(inventory, num_hosts=int(told.most_of_a_job), more_hosts=limit)

    def check_width(self, hosts: int) -> None:
        try:
            ask("sbatch", "--test-only", *self._asked_of_slurm(hosts), script="#!/bin/sh\n")
        except SlurmError as error:
            raise refusal(error, self._config, hosts) from error

    def start(self, num: int, command: AgentCommand) -> None:
        """One array of jobs. Where the controller does not answer, it is sent later, when somebody
        looks.
        """
        self._unsent.append(_Unsent(num=num, command=command, token=uuid.uuid4().hex))
        try:
            self._send()
        except SlurmSilentError as error:
            self._bear(error)

    def look(self, sweep: str) -> Sequence[AgentJob]:
        try:
            self._send()
            self._note(self._found(sweep))
            self._silent_since_s = None
        except SlurmSilentError as error:
            self._bear(error)
        except SlurmError as error:
            raise feasible.refusal(error) from error
        return [
            *self._jobs.values(),
            *(job for unsent in self._unsent for job in _not_sent(unsent)),
        ]

    def take_back(self, sweep: str) -> None:
        self._unsent.clear()
        try:
            if queued := [job.job_id for job in self._found(sweep) if job.state is JobState.QUEUED]:
                ask("scancel", "--quiet", "--state=PENDING", *queued)
        except SlurmSilentError as error:
            self._bear(error)
        except SlurmError as error:
            raise feasible.refusal(error) from error

    def stop(self, sweep: str, *, at_once: bool) -> None:
        """Agents get SIGTERM, and give back what they hold; with `at_once` all of a job gets it,
        and soon SIGKILL.
        """
        self._unsent.clear()
        try:
            living = [job for job in self._found(sweep) if job.state is not JobState.ENDED]
            queued = [job.job_id for job in living if job.state is JobState.QUEUED]
            running = [job.job_id for job in living if job.state is JobState.RUNNING]
            _cancel(queued)
            _cancel(running, *(() if at_once else ("--batch", "--signal=TERM")))
        except SlurmSilentError as error:
            self._bear(error)
        except SlurmError as error:
            raise feasible.refusal(error) from error

    def _found(self, sweep: str) -> list[SlurmJob]:
        """Only of this sweep: other sweeps of its name are kept elsewhere, and a new cluster counts
        from 1 again.

        What we submitted ourselves is known by its number: some clusters write comments of their
        own.
        """
        runs = self._runs_of(sweep)
        arrays = {_array(job_id) for job_id in self._jobs}
        named = jobs.jobs_named(_job_name(sweep))
        return [
            job
            for job in named
            if _array(job.job_id) in arrays or job.comment.rpartition(" ")[0] == runs
        ]

    def _note(self, found: Sequence[SlurmJob]) -> None:
        """Of jobs that an earlier controller asked for, those count that live."""
        seen = {job.job_id: job for job in found}
        for job in found:
            if job.job_id in self._jobs or job.state is not JobState.ENDED:
                self._jobs[job.job_id] = self._agent(job)
        for job_id in [
            job.job_id
            for job in self._jobs.values()
            if job.state is not JobState.ENDED and job.job_id not in seen
        ]:
            # one that was canceled before it began is counted with its array
            array = seen.get(_array(job_id))
            why = array.why if array else jobs.why_gone(job_id)
            self._jobs[job_id] = replace(self._jobs[job_id], state=JobState.ENDED, why=why)

    def _agent(self, job: SlurmJob) -> AgentJob:
        known = self._jobs.get(job.job_id)
        return AgentJob(
            job_id=job.job_id,
            hosts=known.hosts if known else job.hosts,
            state=job.state,
            why=job.why,
            log=known.log if known else None,
        )

    def _send(self) -> None:
        """Raises SlurmSilentError, and SweepRefusedError for what is refused."""
        while self._unsent:
            try:
                self._submit(self._unsent[0])
            except SlurmSilentError:
                self._unsent[0] = replace(self._unsent[0], may_have_arrived=True)
                raise
            except SlurmError as error:
                raise refusal(error, self._config, self._unsent[0].command.hosts) from error
            del self._unsent[0]

    def _submit(self, unsent: _Unsent) -> None:
        command = unsent.command
        array = (self._arrived(unsent) if unsent.may_have_arrived else None) or self._submitted(
            unsent
        )
        for number in range(1, unsent.num + 1):
            job_id = f"{array}_{number}"
            log = command.logs / f"slurm-{job_id}.txt"
            self._jobs[job_id] = AgentJob(
                job_id=job_id, hosts=command.hosts, state=JobState.QUEUED, log=log
            )

    def _submitted(self, unsent: _Unsent) -> str:
        """Number of the array."""
        command = unsent.command
        told = ask(
            *(
                "sbatch",
                "--parsable",
                f"--array=1-{unsent.num}",
                f"--job-name={_job_name(command.sweep)}",
            ),
            *(
                f"--comment={self._comment(unsent)}",
                f"--output={_pattern(command.logs)}/slurm-%A_%a.txt",
            ),
            *self._asked_of_slurm(command.hosts),
            script=_script(self._config.launcher.slurm.setup, command),
            variables=command.environment,
        )
        array = told.strip().split(";")[0]
        if not array.isdigit():
            raise SlurmError(f"sbatch tells no number of a job, but {quoted(told.strip(), 200)!r}")
        return array

    def _arrived(self, unsent: _Unsent) -> str | None:
        """Number of the array, where Slurm took what it did not answer to."""
        named = jobs.jobs_named(_job_name(unsent.command.sweep))
        return next(
            (_array(job.job_id) for job in named if job.comment == self._comment(unsent)), None
        )

    def _asked_of_slurm(self, hosts: int) -> list[str]:
        """Options of a job over so many whole hosts; of what is left to the user, what is said last
        counts.
        """
        slurm = self._config.launcher.slurm
        gres = slurm.gres if slurm.gres is not None else f"gpu:{self._gpus}" if self._gpus else None
        asked = {
            "partition": slurm.partition,
            "account": slurm.account,
            "time": None if slurm.time_min is None else str(slurm.time_min),
            "gres": gres,
        }
        return [
            *(
                f"--nodes={hosts}",
                "--exclusive",
                "--mem=0",
                "--no-requeue",
                "--export=ALL",
                f"--signal=B:TERM@{feasible.WARNING_S}",
            ),
            *(f"--{name}={value}" for name, value in asked.items() if value is not None),
            *slurm.options,
        ]

    def _comment(self, unsent: _Unsent) -> str:
        return f"{self._runs_of(unsent.command.sweep)} {unsent.token}"

    def _runs_of(self, sweep: str) -> str:
        return str(self._runs / sweep)

    def _bear(self, error: SlurmSilentError) -> None:
        """Silence, for a while. Raises SweepRefusedError when it lasts."""
        now_s = self._clock()
        if self._silent_since_s is None:
            self._silent_since_s = now_s
        if now_s - self._silent_since_s >= SILENT_AT_MOST_S:
            raise feasible.refusal(error) from error


def _script(setup: Sequence[str], command: AgentCommand) -> str:
    """The agent takes the shell's place, so that signals to the job's script reach it."""
    lines = ["#!/bin/bash", *setup]
    if command.hosts > 1:
        lines += [
            f'{HOSTS_VARIABLE}=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | paste -s -d , -)',
            f"export {HOSTS_VARIABLE} {RANK_START_VARIABLE}=srun",
        ]
    return "\n".join([*lines, f"exec {shlex.join(command.argv)}", ""])


def _cancel(job_ids: Sequence[str], *options: str) -> None:
    """Jobs may have ended since they were seen: nobody then has anything to object. Raises
    SlurmError.
    """
    if job_ids:
        with suppress(SlurmEndedError):
            ask("scancel", *options, *job_ids)


def _array(job_id: str) -> str:
    """12 of 12_3."""
    return job_id.partition("_")[0]


def _job_name(sweep: str) -> str:
    return f"scalemark-{sweep}"


def _pattern(folder: Path) -> str:
    """As sbatch reads names of files."""
    return str(folder).replace("%", "%%")


def _not_sent(unsent: _Unsent) -> list[AgentJob]:
    return [
        AgentJob(job_id="", hosts=unsent.command.hosts, state=JobState.QUEUED, why=NOT_SENT)
    ] * unsent.num


def refusal(error: SlurmError, config: Config, hosts: int = 1) -> SweepRefusedError:
    """In words of the setting that sbatch complains of, where it is known."""
    told, slurm = str(error), config.launcher.slurm
    if "account" in told.lower():
        return SweepRefusedError(
            f"launcher.slurm.account={slurm.account or 'null'}: Slurm refuses it ({told}); name one of yours, which "
            "`sacctmgr show associations user=$USER` lists"
        )
    if isinstance(error, SlurmSilentError):
        return feasible.refusal(error)
    return SweepRefusedError(
        f"launcher=slurm: sbatch refuses a job of {hosts} {'hosts' if hosts > 1 else 'host'}: {told}; see launcher.slurm.options="
        f"[{','.join(slurm.options)}] and the other settings of launcher.slurm"
    )
