"""`launcher=slurm`: agents run in jobs of a Slurm cluster, each job a whole host, or the hosts of
trials over several.

```
  controller ── sbatch --array=1-4 ──►  job 12_1: agent on a host of its own
     ├── squeue: what became of them    job 12_2: agent ... each claims trials from the database
     └── scancel                        job 13_1: agent over 2 hosts, which starts ranks by srun
```

Jobs bear the sweep's name, and as a comment the folder of its runs and a token of their submission.
By these the next controller of the sweep finds them, and so does one that does not know whether
what it submitted arrived.
"""

from __future__ import annotations

import shlex
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from scalemark.abilities import LauncherAbilities
from scalemark.records.sweep import setting


@dataclass
class Settings:
    """`launcher.slurm.*`"""

    partition: str | None = setting("partition; null = the cluster's default", default=None)
    account: str | None = setting("account to charge; null = the user's default", default=None)
    time_min: int | None = setting(
        "minutes that a job may take; null = the partition's", default=None
    )
    gres: str | None = setting(
        "what each host is asked for, as gpu:8; null = its GPUs, when trials run on GPUs",
        default=None,
    )
    setup: list[str] = setting(
        'lines of shell before an agent starts, as "module load cuda"', default=[]
    )
    options: list[str] = setting('more options of sbatch, as "--qos=long"', default=[])


ABILITIES = LauncherAbilities(starts_agents=True, settings=Settings)

from conf.schema import Config
from scalemark.records.machine import DeviceKind
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
GENTLY = ("--batch", "--signal=TERM")


@dataclass(slots=True, kw_only=True)
class _Unsent:
    """Agents that are asked for, and of which Slurm has not confirmed that it heard."""

    num: int
    command: AgentCommand
    comment: str  # of this submission alone
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
        found = feasible.hosts(self._config)
        inventory = devices_of_hosts(self._config, found.gpus_per_host)
        self._gpus = inventory.num_devices if inventory.kind is DeviceKind.GPU else 0
        self.check_width(1)
        if found.most_of_a_job >= self._config.launcher.agents.num_hosts:
            return inventory
        limit = (
            f"jobs of the partition {found.partition} have no more nodes; another is chosen by "
            "launcher.slurm.partition"
        )
        return replace(inventory, num_hosts=int(found.most_of_a_job), more_hosts=limit)

    def check_width(self, hosts: int) -> None:
        try:
            ask("sbatch", "--test-only", *self._options(hosts), script="#!/bin/sh\n")
        except SlurmError as error:
            raise refusal(error, self._config, hosts) from error

    def start(self, num: int, command: AgentCommand) -> None:
        """Submit one array of jobs. Where the controller does not answer, it is sent later, when
        somebody looks.
        """
        comment = f"{self._runs / command.sweep} {uuid.uuid4().hex}"
        self._unsent.append(_Unsent(num=num, command=command, comment=comment))
        with self._bearing_silence():
            self._send()

    def look(self, sweep: str) -> Sequence[AgentJob]:
        with self._bearing_silence():
            self._send()
            self._note(self._found(sweep))
            self._silent_since_s = None
        jobs = list(self._jobs.values())
        for unsent in self._unsent:
            hosts = unsent.command.hosts
            job = AgentJob(job_id="", hosts=hosts, state=JobState.QUEUED, why=NOT_SENT)
            jobs += [job] * unsent.num
        return jobs

    def take_back(self, sweep: str) -> None:
        self._unsent.clear()
        with self._bearing_silence():
            # by its state: a job may have begun since it was seen
            self._cancel(sweep, JobState.QUEUED, "--quiet", "--state=PENDING")

    def stop(self, sweep: str, *, at_once: bool) -> None:
        """Agents get SIGTERM, and give back what they hold; with `at_once` all of a job gets it,
        and soon SIGKILL.
        """
        self._unsent.clear()
        with self._bearing_silence():
            self._cancel(sweep, JobState.QUEUED)
            self._cancel(sweep, JobState.RUNNING, *(() if at_once else GENTLY))

    def _cancel(self, sweep: str, state: JobState, *options: str) -> None:
        """Cancel the jobs that are in this state. Raises SlurmError."""
        job_ids = [job.job_id for job in self._found(sweep) if job.state is state]
        if job_ids:
            # those that have ended since they were seen need no cancellation
            with suppress(SlurmEndedError):
                ask("scancel", *options, *job_ids)

    def _found(self, sweep: str) -> list[SlurmJob]:
        """Return jobs of this sweep alone: other sweeps of its name are kept elsewhere, and a new
        cluster counts from 1 again.

        What we submitted ourselves is known by its number: some clusters write comments of their
        own.
        """
        runs = str(self._runs / sweep)
        arrays = {_array(job_id) for job_id in self._jobs}
        return [
            job
            for job in jobs.jobs_named(_job_name(sweep))
            if _array(job.job_id) in arrays or job.comment.rpartition(" ")[0] == runs
        ]

    def _note(self, found: Sequence[SlurmJob]) -> None:
        """Keep what is known of jobs; of those that an earlier controller asked for, the living."""
        seen = {job.job_id: job for job in found}
        for job in found:
            known = self._jobs.get(job.job_id)
            if known:
                self._jobs[job.job_id] = replace(known, state=job.state, why=job.why)
            elif job.state is not JobState.ENDED:
                self._jobs[job.job_id] = AgentJob(
                    job_id=job.job_id, hosts=job.hosts, state=job.state, why=job.why
                )
        for job_id, known in list(self._jobs.items()):
            if known.state is JobState.ENDED or job_id in seen:
                continue
            # one that was canceled before it began is counted with its array
            array = seen.get(_array(job_id))
            why = array.why if array else jobs.why_gone(job_id)
            self._jobs[job_id] = replace(known, state=JobState.ENDED, why=why)

    def _send(self) -> None:
        """Raises SlurmSilentError, and SweepRefusedError for what is refused."""
        while self._unsent:
            unsent = self._unsent[0]
            try:
                self._submit(unsent)
            except SlurmSilentError:
                unsent.may_have_arrived = True
                raise
            except SlurmError as error:
                raise refusal(error, self._config, unsent.command.hosts) from error
            del self._unsent[0]

    def _submit(self, unsent: _Unsent) -> None:
        """Submit an array of jobs, unless Slurm took it before without an answer."""
        command, array = unsent.command, ""
        if unsent.may_have_arrived:
            for job in jobs.jobs_named(_job_name(command.sweep)):
                if job.comment == unsent.comment:
                    array = _array(job.job_id)
        array = array or self._submitted(unsent)
        for number in range(1, unsent.num + 1):
            job_id = f"{array}_{number}"
            self._jobs[job_id] = AgentJob(
                job_id=job_id,
                hosts=command.hosts,
                state=JobState.QUEUED,
                log=command.logs / f"slurm-{job_id}.txt",
            )

    def _submitted(self, unsent: _Unsent) -> str:
        """Return the number of the array."""
        command = unsent.command
        logs = str(command.logs).replace("%", "%%")  # sbatch replaces patterns in names of files
        answer = ask(
            "sbatch",
            "--parsable",
            f"--array=1-{unsent.num}",
            f"--job-name={_job_name(command.sweep)}",
            f"--comment={unsent.comment}",
            f"--output={logs}/slurm-%A_%a.txt",
            *self._options(command.hosts),
            script=_script(self._config.launcher.slurm.setup, command),
            variables=command.environment,
        )
        array = answer.strip().split(";")[0]
        if not array.isdigit():
            raise SlurmError(
                f"sbatch gives no number of a job, but {quoted(answer.strip(), 200)!r}"
            )
        return array

    def _options(self, hosts: int) -> list[str]:
        """Return options of a job over so many whole hosts; of what is left to the user, what is
        said last counts.
        """
        slurm = self._config.launcher.slurm
        gres = slurm.gres
        if gres is None and self._gpus:
            gres = f"gpu:{self._gpus}"
        options = [
            f"--nodes={hosts}",
            "--exclusive",
            "--mem=0",
            "--no-requeue",
            "--export=ALL",
            f"--signal=B:TERM@{feasible.WARNING_S}",
        ]
        asked = {
            "partition": slurm.partition,
            "account": slurm.account,
            "time": slurm.time_min,
            "gres": gres,
        }
        options += [f"--{name}={value}" for name, value in asked.items() if value is not None]
        return [*options, *slurm.options]

    @contextmanager
    def _bearing_silence(self) -> Iterator[None]:
        """Bear a controller that is silent for a while. Raises SweepRefusedError when it lasts, and
        for what Slurm refuses.
        """
        try:
            yield
        except SlurmSilentError as error:
            now_s = self._clock()
            if self._silent_since_s is None:
                self._silent_since_s = now_s
            if now_s - self._silent_since_s >= SILENT_AT_MOST_S:
                raise feasible.refusal(error) from error
        except SlurmError as error:
            raise feasible.refusal(error) from error


def _script(setup: Sequence[str], command: AgentCommand) -> str:
    """Return a script in which the agent takes the shell's place, so that signals to it reach the
    agent.
    """
    lines = ["#!/bin/bash", *setup]
    if command.hosts > 1:
        lines += [
            f'{HOSTS_VARIABLE}=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | paste -s -d , -)',
            f"export {HOSTS_VARIABLE} {RANK_START_VARIABLE}=srun",
        ]
    return "\n".join([*lines, f"exec {shlex.join(command.argv)}", ""])


def _array(job_id: str) -> str:
    """Return 12 of 12_3."""
    return job_id.partition("_")[0]


def _job_name(sweep: str) -> str:
    return f"scalemark-{sweep}"


def refusal(error: SlurmError, config: Config, hosts: int = 1) -> SweepRefusedError:
    """Refuse in words of the setting that sbatch complains of, where it is known."""
    slurm = config.launcher.slurm
    if "account" in str(error).lower():
        return SweepRefusedError(
            f"launcher.slurm.account={slurm.account or 'null'}: Slurm refuses it ({error}); name "
            "one of yours, which `sacctmgr show associations user=$USER` lists"
        )
    if isinstance(error, SlurmSilentError):
        return feasible.refusal(error)
    return SweepRefusedError(
        f"launcher=slurm: sbatch refuses a job of {hosts} {'hosts' if hosts > 1 else 'host'}: "
        f"{error}; see launcher.slurm.options=[{','.join(slurm.options)}] and the other settings "
        "of launcher.slurm"
    )
