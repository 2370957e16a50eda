"""`launcher=ray`: attempts are tasks of a Ray cluster; over several hosts, of a placement group.

Start the sweep on a host of the cluster. Ray chooses hosts and GPUs; `sweeper.ray_task` is the
command that runs its arguments there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scalemark.abilities import LauncherAbilities
from scalemark.records.sweep import setting


@dataclass
class Settings:
    """`launcher.ray.*`"""

    num_hosts: int = setting("hosts to use at once", default=1)
    address: str = setting(
        "of the cluster, HOST:PORT; auto = RAY_ADDRESS, or the cluster of this host", default="auto"
    )


ABILITIES = LauncherAbilities(settings=Settings)

from conf.schema import Config
from scalemark.host.own_code import command_that_adds, module_command, python_path
from scalemark.records.attempt import Placement
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec
from sweeper.errors import SweepRefusedError
from sweeper.launchers import Elsewheres, HostSlots, Remote
from sweeper.near import Elsewhere

ANSWER_WITHIN_S = 60.0


class Launcher(Elsewheres):
    """Asks for whole hosts, unless trials share them: Ray counts the CPUs, too."""

    def __init__(self, config: Config, name: str) -> None:
        super().__init__(config)
        self._settings = config.launcher.ray
        on_gpus = config.hardware.device_kind != DeviceKind.CPU_DEVICE
        self._cpus, gpus = self._most(on_gpus)
        print("sweep: asking a host of the Ray cluster what it has", file=sys.stderr, flush=True)
        where = "a host of the Ray cluster"
        common = self.compare({where: self.look(self._task("run", gpus), where, None)})
        self._on_gpus = common.kind is DeviceKind.GPU
        self._per_host = gpus if self._on_gpus else common.num_devices
        self.inventory = self.inventory_of(
            common, self._per_host, self._settings.num_hosts, "raise launcher.ray.num_hosts"
        )

    def slots(self) -> HostSlots:
        return self.slots_on(("",) * self._settings.num_hosts, "prefix")

    def start(self) -> Remote:
        return Remote(self._where, self._ranks)

    def _where(self, spec: TrialSpec, placement: Placement) -> Elsewhere:
        if spec.hosts == 1:
            return self.elsewhere(self._task("run", self._gpus(spec)), host_kind=self.host_kind)
        group = self._task("reserve", self._gpus(spec), "--hosts", str(spec.hosts))
        return replace(self.here(), prefix=group)

    def _ranks(self, spec: TrialSpec, placement: Placement) -> Sequence[Elsewhere]:
        if spec.hosts == 1:
            return ()
        return [
            self.elsewhere(
                self._task("run", self._gpus(spec), "--host", str(number)),
                host_kind=self.host_kind,
            )
            for number in range(spec.hosts)
        ]

    def _gpus(self, spec: TrialSpec) -> int:
        return spec.gpus_per_host if self._on_gpus else 0

    def _task(self, action: str, num_gpus: int, *more: str) -> tuple[str, ...]:
        num_cpus = self._cpus
        if self.config.launcher.share_host and num_gpus:
            num_cpus = self._cpus * num_gpus // self._per_host
        asked = ("--gpus", str(num_gpus), "--cpus", str(num_cpus), *more, "--")
        return (*module_command("sweeper.ray_task", self._settings.address, action), *asked)

    def _most(self, on_gpus: bool) -> tuple[int, int]:
        """Return the CPUs and GPUs that each of enough hosts has. Raises SweepRefusedError."""
        num_hosts = self._settings.num_hosts
        nodes = self._nodes()
        num_gpus = 0
        if num_hosts < 1 or len(nodes) < num_hosts:
            raise SweepRefusedError(
                f"launcher.ray.num_hosts={num_hosts}: wanted 1 to {len(nodes)}, the hosts of the "
                "Ray cluster that live"
            )
        if on_gpus:
            num_gpus = sorted((node["gpus"] for node in nodes), reverse=True)[num_hosts - 1]
        if self.config.hardware.device_kind == DeviceKind.GPU and not num_gpus:
            have = sum(node["gpus"] > 0 for node in nodes)
            raise SweepRefusedError(
                f"hardware=gpu: {num_hosts} hosts with GPUs were asked for, the Ray cluster has "
                f"{have}; choose hardware=cpu, or start nodes with `ray start --num-gpus`"
            )
        fitting = [node["cpus"] for node in nodes if node["gpus"] >= num_gpus]
        num_cpus = sorted(fitting, reverse=True)[num_hosts - 1]
        if not num_cpus:
            raise SweepRefusedError(
                "launcher=ray: too few hosts of the Ray cluster have CPUs for tasks; start nodes "
                "with `ray start --num-cpus`"
            )
        return num_cpus, num_gpus

    def _nodes(self) -> list[dict[str, int]]:
        """Raises SweepRefusedError."""
        address = self._settings.address
        command = module_command("sweeper.ray_task", address, "nodes")
        variables = {**os.environ, "PYTHONPATH": python_path(os.environ)}
        try:
            ended = subprocess.run(
                command,
                env=variables,
                capture_output=True,
                text=True,
                timeout=ANSWER_WITHIN_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise SweepRefusedError(
                f"launcher.ray.address={address}: no Ray cluster answers within "
                f"{ANSWER_WITHIN_S:g} s; see `ray status`"
            ) from error
        if ended.returncode:
            said = (ended.stderr.strip().splitlines() or ["no answer"])[-1]
            if "No module named 'ray'" in said:
                said = f"Ray is not installed; {command_that_adds('ray')} adds it"
            raise SweepRefusedError(
                f"launcher.ray.address={address}: {said}; start the sweep on a host of the "
                "cluster, with its Ray and RAY_AUTH_MODE (`ray start --head` starts one)"
            )
        nodes: list[dict[str, int]] = json.loads(ended.stdout.splitlines()[-1])
        return nodes
