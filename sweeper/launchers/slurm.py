"""`launcher=slurm`: attempts are jobs of a Slurm cluster, or steps of the job that this runs in.

```
  outside   srun --partition ... ──►  a job per attempt    hosts=2: salloc, then srun for ranks
  inside    srun --nodelist n3   ──►  a step of our job    hosts=2: srun for ranks
```
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace

from scalemark.abilities import LauncherAbilities
from scalemark.records.sweep import setting


@dataclass
class Settings:
    """`launcher.slurm.*`"""

    num_hosts: int = setting("hosts to use at once; inside a job all of its nodes", default=1)
    partition: str | None = setting("partition; null = the cluster's default", default=None)
    account: str | None = setting("account to charge; null = the user's default", default=None)
    constraint: str | None = setting("features that nodes must have; null = any", default=None)
    time_min: int | None = setting(
        "minutes that an attempt's job may take; null = the partition's", default=None
    )
    options: list[str] = setting('more options of srun and salloc, as "--qos=long"', default=[])


ABILITIES = LauncherAbilities(settings=Settings)

from conf.schema import Config
from scalemark.records.attempt import Placement
from scalemark.records.machine import DeviceKind
from scalemark.records.outcomes import Outcome
from scalemark.records.trial import TrialSpec
from sweeper.errors import SweepRefusedError
from sweeper.launchers import Elsewheres, HostSlots, Remote
from sweeper.near import Elsewhere

PROGRAMS = ("srun", "salloc", "scontrol")
ANSWER_WITHIN_S = 60.0
_LOST = Outcome.INTERRUPTED.value
ENDS = (
    (
        r"DUE TO TIME LIMIT",
        Outcome.TIMED_OUT.value,
        "the time limit of its Slurm job came; raise launcher.slurm.time_min",
    ),
    (r"DUE TO PREEMPTION", _LOST, "preempted by another Slurm job"),
    (r"(?i)node failure|NODE_FAIL|launch (for \S+ )?failed", _LOST, "its node failed"),
    (
        r"CANCELLED AT|Force Terminated|has been revoked",
        _LOST,
        "its Slurm job was canceled or preempted",
    ),
)
# words of a state as IDLE+DRAIN or DOWN*+CLOUD
_NOT_UP = {
    *("DOWN", "DRAIN", "DRAINED", "DRAINING", "ERROR"),
    *("FAIL", "FAILING", "FUTURE", "INVALID_REG"),
}
_FIELD = re.compile(r"(?:^|\s)([A-Za-z]+)=(\S*)")
_TIME = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")


class Launcher(Elsewheres):
    """Slurm chooses the nodes, and sees to it that nobody else has them."""

    def __init__(self, config: Config, name: str) -> None:
        super().__init__(config)
        self._settings, self._name = config.launcher.slurm, name
        self._nodes = _own_nodes()
        num_gpus = self._most_gpus()
        num_hosts = len(self._nodes) or self._settings.num_hosts
        if num_hosts < 1:
            raise SweepRefusedError(f"launcher.slurm.num_hosts={num_hosts}: wanted 1 or more")
        where = "a node of its job" if self._nodes else "a node of the cluster"
        print(f"sweep: asking {where} what it has", file=sys.stderr, flush=True)
        host = self._nodes[0] if self._nodes else ""
        common = self.compare({where: self.look(self._srun(host, num_gpus), where, None)})
        more = "raise launcher.slurm.num_hosts"
        per_host = num_gpus if common.kind is DeviceKind.GPU else None
        self.inventory = self.inventory_of(common, per_host, num_hosts, more)

    def slots(self) -> HostSlots:
        return self.slots_on(self._nodes or ("",) * self._settings.num_hosts, "srun")

    def start(self) -> Remote:
        return Remote(self._where)

    @property
    def _on_gpus(self) -> bool:
        return self.inventory.kind is DeviceKind.GPU

    def _where(self, spec: TrialSpec, placement: Placement) -> Elsewhere:
        num_gpus = spec.gpus_per_host if self._on_gpus else 0
        if spec.hosts == 1:
            host = placement.hosts[0] if placement.hosts else ""
            return self.elsewhere(
                self._srun(host, num_gpus), host=host, host_kind=self.host_kind, ends=ENDS
            )
        if self._nodes:
            return self.here(ends=ENDS)
        salloc = ("salloc", "--quiet", *self._job(spec.hosts, num_gpus))
        return replace(self.here(ends=ENDS), prefix=salloc)

    def _srun(self, host: str, num_gpus: int) -> tuple[str, ...]:
        task = ("--ntasks=1", "--cpu-bind=none", "--unbuffered", "--mem=0")
        if not host:
            return ("srun", *task, *self._job(1, num_gpus))
        alone = "--exact" if self.config.launcher.share_host else "--overlap"
        gres = (f"--gres=gpu:{num_gpus}",) if num_gpus else ()
        return ("srun", *task, alone, f"--nodelist={host}", *gres, *self._settings.options)

    def _job(self, num_hosts: int, num_gpus: int) -> tuple[str, ...]:
        asked = {
            "nodes": num_hosts,
            "job-name": f"scalemark-{self._name}",
            "gres": f"gpu:{num_gpus}" if num_gpus else None,
            "partition": self._settings.partition,
            "account": self._settings.account,
            "constraint": self._settings.constraint,
            "time": self._settings.time_min,
        }
        options = [f"--{name}={value}" for name, value in asked.items() if value is not None]
        if not self.config.launcher.share_host:
            options.append("--exclusive")
        return (*options, *self._settings.options)

    def _most_gpus(self) -> int:
        """Return the GPUs that enough nodes have; 0 on CPU devices. Raises SweepRefusedError."""
        for program in PROGRAMS:
            if not shutil.which(program):
                raise SweepRefusedError(
                    f"launcher=slurm: no {program} on the path; start this on a host that Slurm "
                    "jobs are submitted from (it may want `module load slurm`)"
                )
        partitions = self._partitions()
        gpus = []
        for node in _records(_ask("scontrol", "-a", "-o", "show", "node"), "NodeName"):
            is_up = _NOT_UP.isdisjoint(re.findall("[A-Z_]+", node.get("State", "")))
            is_ours = node["NodeName"] in self._nodes
            if not self._nodes:
                is_ours = not partitions.isdisjoint(node.get("Partitions", "").split(","))
            if is_up and is_ours:
                gpus.append(_num_gpus(node.get("Gres", "")))
        num_hosts = len(self._nodes) or self._settings.num_hosts
        if len(gpus) < max(1, num_hosts):
            raise SweepRefusedError(
                f"launcher.slurm.num_hosts={num_hosts}: {len(gpus)} nodes of the partition "
                f"{','.join(sorted(partitions))} are up; ask for fewer"
            )
        wanted = self.config.hardware.device_kind
        most = sorted(gpus, reverse=True)[num_hosts - 1]
        if wanted == DeviceKind.GPU and not most:
            raise SweepRefusedError(
                f"hardware=gpu: {num_hosts} nodes with GPUs were asked for, the partition "
                f"{','.join(sorted(partitions))} has {sum(map(bool, gpus))}; choose hardware=cpu, "
                "or another launcher.slurm.partition"
            )
        return 0 if wanted == DeviceKind.CPU_DEVICE else most

    def _partitions(self) -> set[str]:
        """Return the names of the chosen ones. Raises SweepRefusedError where there is none."""
        found = {}
        for fields in _records(_ask("scontrol", "-a", "-o", "show", "partition"), "PartitionName"):
            found[fields["PartitionName"]] = fields
        asked = self._settings.partition
        names = set(asked.split(",")) if asked else set()
        if not asked:
            names = {name for name, fields in found.items() if fields.get("Default") == "YES"}
        if not names or not names <= found.keys():
            raise SweepRefusedError(
                f"launcher.slurm.partition={asked or 'null'}: no such partition; there are "
                f"{', '.join(found)}"
            )
        if not any(found[name].get("State", "UP") == "UP" for name in names):
            raise SweepRefusedError(f"launcher=slurm: the partition {asked} is not up")
        limit_min = max(_minutes(found[name].get("MaxTime", "UNLIMITED")) for name in names)
        time_min = self._settings.time_min
        if time_min is not None and not 1 <= time_min <= limit_min:
            raise SweepRefusedError(
                f"launcher.slurm.time_min={time_min}: wanted 1 to {limit_min:g} minutes, which the "
                "partition allows"
            )
        return names


def _own_nodes() -> tuple[str, ...]:
    """Return the nodes of the job that this process runs in; none outside of one."""
    nodes = os.environ.get("SLURM_JOB_NODELIST")
    return tuple(_ask("scontrol", "show", "hostnames", nodes).split()) if nodes else ()


def _ask(*command: str) -> str:
    """Raises SweepRefusedError."""
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=ANSWER_WITHIN_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SweepRefusedError(f"launcher=slurm: {command[0]}: {error}") from error
    if ended.returncode:
        said = " ".join(ended.stderr.split()) or f"exit code {ended.returncode}"
        raise SweepRefusedError(
            f"launcher=slurm: no cluster answers ({said}); see `scontrol ping`, and whether "
            "SLURM_CONF names this cluster's configuration"
        )
    return ended.stdout


def _records(text: str, first: str) -> list[dict[str, str]]:
    """Read lines of `scontrol -o`; the first of a name counts, for free text comes last."""
    lines = [dict(reversed(_FIELD.findall(line))) for line in text.splitlines()]
    return [fields for fields in lines if first in fields]


def _num_gpus(gres: str) -> int:
    """Count GPUs in Slurm's words: 8 of `gpu:a100:8(S:0-1),nvme:1`."""
    num = 0
    for resource in re.sub(r"\([^)]*\)", "", gres).split(","):
        kind, *rest = resource.strip().split(":")
        if kind == "gpu":
            num += int(rest[-1]) if rest and rest[-1].isdigit() else 1
    return num


def _minutes(text: str) -> float:
    """Read `DAYS-HOURS:MINUTES:SECONDS`; infinite for UNLIMITED."""
    match = _TIME.fullmatch(text)
    if not match:
        return math.inf
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return days * 1440 + hours * 60 + minutes + seconds / 60
