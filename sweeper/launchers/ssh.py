"""`launcher=ssh`: attempts run on hosts that ssh reaches without a password."""

from scalemark.abilities import LauncherAbilities

ABILITIES = LauncherAbilities(settings=None, heeds=("hosts", "options", "python"))

from collections.abc import Sequence

from sweeper import SweepRefusedError
from sweeper.launchers import prefix

# ssh keeps the first value that it is given, so a user's own come before these;
# a link that is silent for 15 s is lost; nothing asks at a terminal that is not there
OPTIONS = (
    *("-T", "-oBatchMode=yes", "-oConnectTimeout=10", "-oServerAliveInterval=5"),
    *("-oServerAliveCountMax=3", "-oControlPath=none", "-oLogLevel=ERROR"),
)


class Launcher(prefix.Launcher):
    """A prefix for each of launcher.hosts."""

    def find_hosts(self) -> tuple[Sequence[str], int | None]:
        if not self.config.launcher.hosts:
            raise SweepRefusedError(
                "launcher=ssh: launcher.hosts is empty; name hosts, as launcher.hosts=[a,b]"
            )
        return super().find_hosts()

    def prefix(self, host: str, num_gpus: int) -> tuple[str, ...]:
        return ("ssh", *self.config.launcher.options, *OPTIONS, host, "{command}")

    def address(self, host: str) -> str:
        """Return the host name that ssh's configuration has for this host."""
        command = ("ssh", "-G", *self.config.launcher.options, host)
        for line in prefix.ask(command, "launcher=ssh").stdout.splitlines():
            if line.startswith("hostname "):
                return line.split()[1]
        return super().address(host)
