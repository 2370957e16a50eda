"""`launcher=slurm`: attempts are jobs of a Slurm cluster, or steps of the job that this runs in.

```
  outside   srun --partition ... ──►  a job per attempt    hosts=2: salloc, then srun for each rank
  inside    srun --nodelist n3   ──►  a step of our job    hosts=2: srun for each rank
```
"""

import math
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from scalemark.abilities import LauncherAbilities, setting


@dataclass
class SlurmSettings:
    """`launcher.slurm.*`"""

    partition: str | None = setting("partition; null = the cluster's default", default=None)
    account: str | None = setting("account to charge; null = the user's default", default=None)
    constraint: str | None = setting("features that nodes must have; null = any", default=None)
    time_min: int | None = setting(
        "minutes that an attempt's job may take; null = the partition's", default=None
    )


ABILITIES = LauncherAbilities(settings=SlurmSettings, heeds=("num_hosts", "options", "python"))

from scalemark.records.measurement import Outcome
from scalemark.records.trial import TrialSpec
from sweeper import SweepRefusedError
from sweeper.launchers import prefix

PROGRAMS = ("srun", "salloc", "sinfo")
_LOST = Outcome.INTERRUPTED.value
ENDS = (
    (
        r"DUE TO TIME LIMIT",
        Outcome.TIMED_OUT.value,
        "its Slurm job reached its time limit; raise launcher.slurm.time_min",
    ),
    (r"(?i)node failure|NODE_FAIL|launch (for \S+ )?failed", _LOST, "its node failed"),
    (
        r"DUE TO PREEMPTION|CANCELLED AT|Force Terminated|has been revoked",
        _LOST,
        "its Slurm job was canceled or preempted",
    ),
)
_NOT_UP = re.compile(r"down|drain|fail|error|future|inval|unknown")
_TIME = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")


class Launcher(prefix.Launcher):
    """Slurm chooses the nodes, and sees to it that nobody else has them."""

    engine_chooses = True
    ends = ENDS
    more_hosts = "raise launcher.num_hosts"

    def find_hosts(self) -> tuple[Sequence[str], int | None]:
        for program in PROGRAMS:
            if not shutil.which(program):
                raise SweepRefusedError(
                    f"launcher=slurm: no {program} on the path; start this on a host that Slurm "
                    "jobs are submitted from (it may want `module load slurm`)"
                )
        gpus: dict[str, int] = {}
        settings = self.config.launcher.slurm
        if own := os.environ.get("SLURM_JOB_NODELIST"):
            for name, _, _, _, gres in _nodes(f"--nodes={own}"):
                gpus[name] = num_gpus(gres)
                if (of_job := os.environ.get("SLURM_GPUS_ON_NODE", "")).isdigit():
                    gpus[name] = min(int(of_job), gpus[name])
            return list(gpus), self.gpus_of_each(list(gpus.values()), len(gpus), "this Slurm job")
        asked = set(settings.partition.split(",")) if settings.partition else set()
        names, limit_min = set(), 0.0
        for name, partition, state, limit, gres in _nodes("--all"):
            names.add(partition.removesuffix("*"))
            is_default = partition.endswith("*") and not asked
            if is_default or partition.removesuffix("*") in asked:
                limit_min = max(limit_min, minutes(limit))
                if not _NOT_UP.search(state):
                    gpus[name] = num_gpus(gres)
        where = f"the partition {settings.partition}" if asked else "the default partition"
        if not limit_min or not asked <= names:
            problem = "no such partition" if asked else "the cluster has no default partition"
            raise SweepRefusedError(
                f"launcher.slurm.partition={settings.partition or 'null'}: {problem}; "
                f"there are {', '.join(sorted(names))}"
            )
        if settings.time_min is not None and not 1 <= settings.time_min <= limit_min:
            raise SweepRefusedError(
                f"launcher.slurm.time_min={settings.time_min}: wanted 1 to {limit_min:g} minutes, "
                f"which {where} allows"
            )
        num_hosts = self.config.launcher.num_hosts
        return [""] * num_hosts, self.gpus_of_each(list(gpus.values()), num_hosts, where)

    def prefix(self, host: str, num_gpus: int) -> tuple[str, ...]:
        task = ("srun", "--ntasks=1", "--cpu-bind=none", "--unbuffered", "--mem=0")
        if not host:
            return (*task, *self._job(1, num_gpus))
        step = ["--nodes=1", f"--nodelist={host}"]
        step.append("--exact" if self.config.launcher.share_host else "--overlap")
        if num_gpus:
            step.append(f"--gres=gpu:{num_gpus}")
        return (*task, *step, *self.config.launcher.options)

    def reservation(self, spec: TrialSpec) -> tuple[str, ...]:
        if self.hosts[0]:
            return super().reservation(spec)
        return ("salloc", "--quiet", *self._job(spec.hosts, self.num_gpus(spec)))

    def _job(self, num_hosts: int, num_gpus: int) -> tuple[str, ...]:
        settings = self.config.launcher.slurm
        asked = {
            "nodes": num_hosts,
            "job-name": f"scalemark-{self.name}",
            "gres": f"gpu:{num_gpus}" if num_gpus else None,
            "partition": settings.partition,
            "account": settings.account,
            "constraint": settings.constraint,
            "time": settings.time_min,
        }
        options = [f"--{name}={value}" for name, value in asked.items() if value is not None]
        if not self.config.launcher.share_host:
            options.append("--exclusive")
        return (*options, *self.config.launcher.options)


def _nodes(of: str) -> list[list[str]]:
    """Return rows of name, partition, state, time limit and GPUs: one for each partition that a
    node is of, the default one with a star. Raises SweepRefusedError.
    """
    command = ("sinfo", "--noheader", "--Node", of, "--format=%N|%P|%a,%T|%l|%G")
    ended = prefix.ask(command, "launcher=slurm: the cluster")
    if ended.returncode:
        said = " ".join(ended.stderr.split()) or f"exit code {ended.returncode}"
        raise SweepRefusedError(
            f"launcher=slurm: no cluster answers ({said}); see `scontrol ping`, and whether "
            "SLURM_CONF names this cluster's configuration"
        )
    return [line.strip().split("|") for line in ended.stdout.splitlines()]


def num_gpus(gres: str) -> int:
    """Count GPUs in Slurm's words: 8 of `gpu:a100:8(S:0-1),nvme:1`."""
    num = 0
    for resource in re.sub(r"\([^)]*\)", "", gres).split(","):
        kind, *rest = resource.strip().split(":")
        if kind == "gpu":
            num += int(rest[-1]) if rest and rest[-1].isdigit() else 1
    return num


def minutes(limit: str) -> float:
    """Read `DAYS-HOURS:MINUTES:SECONDS`; infinite for `infinite`."""
    match = _TIME.fullmatch(limit)
    if not match:
        return math.inf
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return days * 1440 + hours * 60 + minutes + seconds / 60
