"""`launcher=prefix`: a command that runs its arguments somewhere starts each attempt.

`launcher.prefix.command="kubectl exec -i {host} --"`: {host} is one of launcher.hosts, {num_gpus}
the GPUs of the trial on it; {command} is what it shall run, quoted for a shell, and stands at the
end where it is not named.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from scalemark.abilities import LauncherAbilities
from scalemark.records.sweep import setting


@dataclass
class Settings:
    """`launcher.prefix.*`"""

    command: str = setting("what starts each attempt, as 'kubectl exec -i {host} --'", default="")


ABILITIES = LauncherAbilities(settings=Settings)

from conf.schema import Config
from scalemark.records.attempt import Placement
from scalemark.records.trial import TrialSpec
from sweeper.errors import SweepRefusedError
from sweeper.launchers import LOCKS, Elsewheres, HostSlots, Remote
from sweeper.near import Elsewhere


class Launcher(Elsewheres):
    """Knows its hosts by launcher.hosts; without any it is one, without a name."""

    def __init__(self, config: Config, name: str) -> None:
        super().__init__(config)
        self._hosts, per_host = hosts_of(config)
        seen = {}
        for host in self._hosts or ("its host",):
            prefix = self.prefix(host if self._hosts else "", config.hardware.num_cpu_devices)
            seen[host] = self.look(prefix, host)
        common = self.compare(seen)
        more = "name more hosts in launcher.hosts"
        self.inventory = self.inventory_of(common, per_host, len(seen), more)

    def prefix(self, host: str, num_gpus: int) -> tuple[str, ...]:
        """Return the words of the command for one host. Raises SweepRefusedError."""
        text = self.config.launcher.prefix.command
        if not text.strip():
            raise SweepRefusedError(
                "launcher=prefix: launcher.prefix.command is empty; give what runs its arguments "
                "on a host, as 'ssh {host} {command}'"
            )
        try:
            return tuple(
                word.format(host=host, num_gpus=num_gpus, command="{command}")
                for word in shlex.split(text)
            )
        except (ValueError, KeyError, IndexError) as error:
            raise SweepRefusedError(
                f"launcher.prefix.command={text}: {error}; wanted words with {{host}}, "
                "{num_gpus} and {command}"
            ) from error

    def address(self, host: str) -> str:
        """Return where the ranks of a host can be reached; a user's name may precede it."""
        return host.rpartition("@")[2]

    def slots(self) -> HostSlots:
        return self.slots_on(self._hosts or ("",), "prefix")

    def start(self) -> Remote:
        return Remote(self._where, self._ranks)

    def _where(self, spec: TrialSpec, placement: Placement) -> Elsewhere:
        if spec.hosts > 1:
            return self.here()
        return self._on(placement.hosts[0] if placement.hosts else "", spec, placement)

    def _ranks(self, spec: TrialSpec, placement: Placement) -> Sequence[Elsewhere]:
        if spec.hosts == 1:
            return ()
        return [self._on(host, spec, placement) for host in placement.hosts]

    def _on(self, host: str, spec: TrialSpec, placement: Placement) -> Elsewhere:
        visible = placement.visible_devices
        return self.elsewhere(
            self.prefix(host, spec.gpus_per_host),
            host=host,
            address=self.address(host),
            host_kind=self.host_kind,
            gpus=tuple(map(int, visible.split(","))) if visible else (),
            lock=LOCKS,
        )


def hosts_of(config: Config) -> tuple[tuple[str, ...], int | None]:
    """Read launcher.hosts: names, and how many GPUs of each are used. Raises SweepRefusedError."""
    names, counts = [], set()
    for text in config.launcher.hosts:
        name, colon, count = text.rpartition(":")
        if not colon:
            name, count = text, ""
        if not name or (colon and not count.isdigit()) or name in names:
            raise SweepRefusedError(
                f"launcher.hosts={','.join(config.launcher.hosts)}: {text}; wanted names of hosts, "
                "each once, with their GPUs, as [a:4,b:4]"
            )
        names.append(name)
        counts.add(int(count) if count else None)
    if len(counts) > 1:
        raise SweepRefusedError(
            f"launcher.hosts={','.join(config.launcher.hosts)}: wanted as many GPUs of each host; "
            "run a sweep for those with more"
        )
    return tuple(names), counts.pop() if counts else None
