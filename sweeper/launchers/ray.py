"""`launcher=ray`: attempts are tasks of a Ray cluster; over several hosts, of a placement group.

Start the sweep on a host of the cluster, or with RAY_ADDRESS=HOST:PORT. Ray chooses hosts and GPUs;
`sweeper.ray_task` is the command that runs its arguments there.
"""

import json
from collections.abc import Sequence

from scalemark.abilities import LauncherAbilities

ABILITIES = LauncherAbilities(settings=None, heeds=("num_hosts", "python"))

from importlib.util import find_spec

from scalemark.host.own_code import installing, module_command
from scalemark.records.attempt import Placement
from scalemark.records.trial import TrialSpec
from sweeper import SweepRefusedError
from sweeper.launchers import prefix


class Launcher(prefix.Launcher):
    """Asks for whole hosts, unless trials share them: Ray counts the CPUs, too."""

    engine_chooses = True
    more_hosts = "raise launcher.num_hosts"

    def find_hosts(self) -> tuple[Sequence[str], int | None]:
        if find_spec("ray") is None:
            raise SweepRefusedError(
                f"launcher=ray: Ray is not installed here; {installing('ray')} adds it; take "
                "the version that the cluster runs"
            )
        nodes, num_hosts = self._nodes(), self.config.launcher.num_hosts
        gpus = self.gpus_of_each([node["gpus"] for node in nodes], num_hosts, "the Ray cluster")
        self._gpus = gpus or 0
        cpus = [node["cpus"] for node in nodes if node["gpus"] >= self._gpus]
        self._cpus = sorted(cpus, reverse=True)[num_hosts - 1]
        if not self._cpus:
            raise SweepRefusedError(
                "launcher=ray: too few hosts of the Ray cluster have CPUs for tasks; start nodes "
                "with `ray start --num-cpus`"
            )
        if max(cpus) >= 2 * self._cpus and num_hosts > 1 and not self.config.launcher.share_host:
            raise SweepRefusedError(
                f"launcher=ray: {num_hosts} hosts of the Ray cluster have from {self._cpus} to "
                f"{max(cpus)} CPUs, so that two trials could run on one; lower launcher.num_hosts, "
                "or start nodes with an equal `ray start --num-cpus`"
            )
        return [""] * num_hosts, gpus

    def prefix(self, host: str, num_gpus: int) -> tuple[str, ...]:
        return self._task("run", num_gpus, bundle=int(host) if host else None)

    def reservation(self, spec: TrialSpec) -> tuple[str, ...]:
        return self._task("reserve", self.num_gpus(spec), hosts=spec.hosts)

    def rank_host(self, placement: Placement, number: int) -> str:
        return str(number)

    def _task(self, action: str, num_gpus: int, **more: int | None) -> tuple[str, ...]:
        num_cpus = self._cpus
        if self.config.launcher.share_host and num_gpus:
            num_cpus = self._cpus * num_gpus // self._gpus
        asked = {"action": action, "gpus": num_gpus, "cpus": num_cpus, **more}
        return module_command("sweeper.ray_task", json.dumps(asked))

    def _nodes(self) -> list[dict[str, int]]:
        """Return the CPUs and GPUs of each node. Raises SweepRefusedError."""
        ended = prefix.ask(module_command("sweeper.ray_task", "{}"), "launcher=ray: the cluster")
        if ended.returncode:
            said = (ended.stderr.strip().splitlines() or ["no answer"])[-1]
            raise SweepRefusedError(
                f"launcher=ray: {said}; start the sweep on a host of the cluster, with its Ray and "
                "RAY_AUTH_MODE (`ray start --head` starts one)"
            )
        nodes: list[dict[str, int]] = json.loads(ended.stdout.splitlines()[-1])
        return nodes
