"""`launcher=ssh`: attempts run on hosts that ssh reaches without a password."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from scalemark.abilities import LauncherAbilities
from scalemark.records.sweep import setting


@dataclass
class Settings:
    """`launcher.ssh.*`"""

    options: list[str] = setting('options of ssh, as ["-p2222"]', default=[])


ABILITIES = LauncherAbilities(settings=Settings)

from conf.schema import Config
from sweeper.errors import SweepRefusedError
from sweeper.launchers import prefix

# a link that is silent for 15 s is lost; nothing asks at a terminal that is not there
OPTIONS = (
    *("-T", "-oBatchMode=yes", "-oConnectTimeout=10", "-oServerAliveInterval=5"),
    *("-oServerAliveCountMax=3", "-oControlPath=none", "-oLogLevel=ERROR"),
)


class Launcher(prefix.Launcher):
    """A prefix for each of launcher.hosts."""

    def __init__(self, config: Config, name: str) -> None:
        if not config.launcher.hosts:
            raise SweepRefusedError(
                "launcher=ssh: launcher.hosts is empty; name hosts with their GPUs, as "
                "launcher.hosts=[a:4,b:4]"
            )
        super().__init__(config, name)

    def prefix(self, host: str, num_gpus: int) -> tuple[str, ...]:
        return ("ssh", *OPTIONS, *self.config.launcher.ssh.options, host, "{command}")

    def address(self, host: str) -> str:
        """Return the host name that ssh's configuration has for this host."""
        shown = subprocess.run(
            ["ssh", "-G", *self.config.launcher.ssh.options, host],
            capture_output=True,
            text=True,
            check=False,
        )
        names = [
            line.split()[1] for line in shown.stdout.splitlines() if line.startswith("hostname ")
        ]
        return names[0] if names else super().address(host)
