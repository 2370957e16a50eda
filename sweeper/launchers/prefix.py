"""`launcher=prefix`: a command that runs its arguments somewhere starts each attempt.

`launcher.prefix.command="kubectl exec -i {host} --"`: {host} is one of launcher.hosts, {num_gpus}
the GPUs of the trial on it; {command} is what it shall run, quoted for a shell, and stands at the
end where it is not named. Other launchers are this one with a command of their own.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from scalemark.abilities import LauncherAbilities, setting


@dataclass
class PrefixSettings:
    """`launcher.prefix.*`"""

    command: str = setting("what starts each attempt, as 'kubectl exec -i {host} --'", default="")


ABILITIES = LauncherAbilities(settings=PrefixSettings, heeds=("hosts", "python"))

from conf.schema import Config, HardwareConfig
from scalemark.host import own_code, processes, program_software, software
from scalemark.records.attempt import RANKS_VARIABLE, Placement
from scalemark.records.axes import Engine
from scalemark.records.machine import DeviceKind, Machine
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder
from sweeper import SweepRefusedError, elsewhere
from sweeper.devices.host_lock import HostLock, Lock
from sweeper.devices.machine import Inventory, describe_machine, take_inventory
from sweeper.devices.slots import HostSlots
from sweeper.grid.plan import check_folder
from sweeper.launchers import Programs, describe_programs
from sweeper.starts import MODULES, Process, Spawn, environment

ANSWER_WITHIN_S = 60.0
MOST_DIFFERENCES = 5  # of hosts that are named


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """Where and how one attempt, or one rank of it, is run."""

    # what runs its arguments there; in a word, {command} is replaced by them, quoted for a shell
    prefix: tuple[str, ...]
    python: str  # there
    module: str  # the engine
    host: str = ""  # for people
    address: str = ""  # of the host, where its ranks can be reached; empty = its engine knows
    gpus: tuple[int, ...] | None = None  # to be visible, in PCI order; None = as the engine sets
    host_kind: str = ""  # as sweeper.elsewhere.host_kind has it; empty = not compared
    locks: bool = False  # it takes the lock of its host; else an engine's queue hands out hosts
    shares_host: bool = False
    orphan_timeout_s: float = 60.0
    # what the command says when the engine ends the attempt: pattern, outcome, message
    ends: tuple[tuple[str, str, str], ...] = ()
    log: str = "log.txt"
    rank: str = ""  # of a distributed trial; empty = the whole attempt
    flags: tuple[str, ...] = ()  # of a rank
    folder: str = ""  # to work in; empty = a private one, whose files are sent back


class Remote(Spawn):
    """Starts `sweeper.elsewhere`; `find` says where an attempt runs, then where its ranks do."""

    def __init__(self, find: Callable[[TrialSpec, Placement], Sequence[Elsewhere]]) -> None:
        self._find = find

    def start(self, folder: RunFolder, environment: Mapping[str, str]) -> Process:
        placement = folder.read_placement()
        assert placement is not None
        where, *ranks = self._find(folder.read_trial(), placement)
        if ranks:  # their supervisor runs on this host
            where = replace(where, folder=str(folder.path))
        folder.token.touch()
        near = own_code.module_command("sweeper.elsewhere", json.dumps(asdict(where)))
        of_ranks = json.dumps(list(map(asdict, ranks)))
        return Spawn(near).start(folder, {**environment, RANKS_VARIABLE: of_ranks})


class Launcher:
    """Knows its hosts by launcher.hosts; without any it has one, without a name."""

    engine_chooses = False  # hosts and GPUs: nobody else has them, and attempts wait in its queue
    ends: tuple[tuple[str, str, str], ...] = ()
    more_hosts = "name more hosts in launcher.hosts"
    host_kind = ""  # not compared until it is known

    def __init__(self, config: Config, name: str) -> None:
        if config.engine is Engine.simulated:
            raise SweepRefusedError(
                f"engine=simulated: launcher={config.launcher.name} has hosts run trials, and "
                "simulated ones need none; choose launcher=local"
            )
        self.config, self.name = config, name
        self.hosts, self._per_host = self.find_hosts()
        answer = self._ask_all()
        self.machine = Machine.from_json(answer["machine"])
        self.software: Mapping[str, Any] = answer["software"]
        self.host_kind = answer["facts"]["kind of host"]
        kind, has = DeviceKind(answer["devices"]), answer["num_devices"]
        num = self._per_host or has
        if num > has:
            raise SweepRefusedError(
                f"launcher={config.launcher.name}: {num} {kind.plural} on each host were asked "
                f"for, {self.machine.host} has {has}"
            )
        gpus = [gpu for gpu in self.machine.gpus if not gpu.mig_mode]
        self.inventory = Inventory(
            kind=kind,
            gpus=tuple(gpus[:num]) if kind is DeviceKind.GPU else (),
            num_devices=num,
            num_hosts=len(self.hosts),
            more_hosts=self.more_hosts,
        )

    def software_of(self, programs: Programs) -> tuple[Mapping[str, Any], Sequence[str]]:
        answer = self._ask_all(programs)
        return answer["software"], answer["doubts"]

    def find_hosts(self) -> tuple[Sequence[str], int | None]:
        """Return names of hosts, empty where an engine chooses, and how many GPUs of each are used;
        None = all. Raises SweepRefusedError.
        """
        hosts = self.config.launcher.hosts
        if any(host[:1] in ("", "-") for host in hosts) or len(set(hosts)) < len(hosts):
            raise SweepRefusedError(
                f"launcher.hosts={','.join(hosts)}: wanted names of hosts, each once"
            )
        return hosts or [""], None

    def prefix(self, host: str, num_gpus: int) -> tuple[str, ...]:
        """Return the words of the command for one host. Raises SweepRefusedError."""
        text = self.config.launcher.prefix.command
        if not text.strip():
            raise SweepRefusedError(
                "launcher=prefix: launcher.prefix.command is empty; give what runs its arguments "
                "on a host, as 'ssh {host} {command}'"
            )
        if len(self.config.launcher.hosts) > 1 and "{host}" not in text:
            raise SweepRefusedError(
                f"launcher.prefix.command={text}: the same for each of launcher.hosts; write "
                "{host} where it names one"
            )
        values = {"host": host, "num_gpus": num_gpus, "command": "{command}"}
        try:
            program, *words = [word.format(**values) for word in shlex.split(text)]
            if "/" in program:  # attempts run in other folders
                program = str(Path(program).absolute())
            return (program, *words)
        except (ValueError, KeyError, IndexError, AttributeError, TypeError) as error:
            raise SweepRefusedError(
                f"launcher.prefix.command={text}: {error}; wanted words with {{host}}, "
                "{num_gpus} and {command}"
            ) from error

    def reservation(self, spec: TrialSpec) -> tuple[str, ...]:
        """Return what runs the supervisor of a trial over several hosts, on this one."""
        return ("env",)

    def rank_host(self, placement: Placement, number: int) -> str:
        """Return the host of a trial's ranks, as `prefix` takes it."""
        if placement.hosts:
            return placement.hosts[number]
        return "{host}"  # see trainer/supervision.py

    def address(self, host: str) -> str:
        """Return where the ranks of a host can be reached; a user's name may precede it."""
        return host.rpartition("@")[2]

    def slots(self) -> HostSlots:
        return HostSlots(
            self.hosts,
            per_host=self.inventory.num_devices,
            on_gpus=self.inventory.kind is DeviceKind.GPU,
            shares=self.config.launcher.share_host,
        )

    def host_lock(self) -> Lock:
        return Lock()

    def start(self) -> Remote:
        return Remote(self.places)

    def places(self, spec: TrialSpec, placement: Placement) -> Sequence[Elsewhere]:
        """Return where an attempt runs, then where its ranks do."""
        hosts = placement.hosts or ("",)
        if spec.hosts > 1:
            hosts = tuple(self.rank_host(placement, number) for number in range(spec.hosts))
        num_gpus = self.num_gpus(spec)
        there = [self._elsewhere(host, num_gpus, placement.visible_devices) for host in hosts]
        if spec.hosts == 1:
            return there
        if not self.engine_chooses:
            there = [replace(rank, address=self.address(rank.host)) for rank in there]
        here = replace(
            there[0], prefix=self.reservation(spec), python=sys.executable, gpus=None, locks=False
        )
        return [replace(here, host="", host_kind=""), *there]

    def num_gpus(self, spec: TrialSpec) -> int:
        """Return how many GPUs of each of its hosts a trial uses."""
        if self.inventory.kind is DeviceKind.GPU:
            return spec.gpus_per_host
        return 0

    def _elsewhere(self, host: str, num_gpus: int, visible: str) -> Elsewhere:
        launcher = self.config.launcher
        gpus = tuple(map(int, visible.split(","))) if visible else ()
        return Elsewhere(
            prefix=self.prefix(host, num_gpus),
            python=launcher.python or sys.executable,
            module=MODULES[self.config.engine],
            host=host,
            gpus=None if self.engine_chooses else gpus,
            host_kind=self.host_kind,
            locks=not self.engine_chooses,
            shares_host=launcher.share_host,
            orphan_timeout_s=launcher.orphan_timeout_s,
            ends=self.ends,
        )

    def _ask_all(self, programs: Programs = ()) -> dict[str, Any]:
        """Return what each host says of itself. Raises SweepRefusedError where they differ."""
        if self.engine_chooses:
            print("sweep: asking a host what it has", file=sys.stderr, flush=True)
        names = list(dict.fromkeys(self.hosts))
        with ThreadPoolExecutor() as threads:
            answers = list(threads.map(partial(self._ask, programs=programs), names))
        first = answers[0]
        here = {**first, "facts": {**first["facts"], **_own_code()}}
        name = names[0] or "its host"
        _check_alike("this host", here, name, first)
        named: dict[str, str] = {}
        for other, answer in zip(names, answers, strict=True):
            _check_alike(name, first, other, answer)
            same = named.setdefault(answer["locks"], other)
            if same != other and not self.engine_chooses:
                raise SweepRefusedError(
                    f"launcher.hosts: {same} and {other} are the same host; name it once"
                )
        return first

    def _ask(self, host: str, programs: Programs) -> dict[str, Any]:
        """Ask a host what it has. Raises SweepRefusedError."""
        config, name = self.config, f"launcher={self.config.launcher.name}: {host or 'its host'}"
        where, mark = self._elsewhere(host, self._per_host or 0, ""), elsewhere.MARK.decode()
        asked = {
            "kind": "describe",
            "device_kind": config.hardware.device_kind,
            "num_cpu_devices": config.hardware.num_cpu_devices,
            "pool": config.launcher.name,
            "locks": where.locks,
            "environment": elsewhere.sent_variables(environment(os.environ, "")),
            "programs": programs,
            "mends": not config.sweep.dry_run,
        }
        command = elsewhere.command(asdict(where), own_code.python_path(os.environ))
        ended = ask(
            command,
            name,
            within_s=None if self.engine_chooses else ANSWER_WITHIN_S,
            said=f"{mark}{json.dumps(asked)}\n",
        )
        _, _, text = ended.stdout.partition(mark)
        if not text:
            lines = ended.stderr.strip().splitlines() or [
                f"{command[0]} ended with exit code {ended.returncode} and ran nothing"
            ]
            raise SweepRefusedError(
                f"{name} did not start this project with {where.python}: {' '.join(lines[-2:])}; "
                "mend the command, the host or its environment, or set launcher.python"
            )
        answer: dict[str, Any] = json.loads(text.partition("\n")[0])
        if problem := answer.get("problem"):
            raise SweepRefusedError(f"{name}: {problem}")
        return answer

    def gpus_of_each(self, counts: Sequence[int], num_hosts: int, where: str) -> int | None:
        """Return how many GPUs each of so many hosts has, of those that are up with these counts;
        None = CPU devices are used. Raises SweepRefusedError.
        """
        wanted = self.config.hardware.device_kind
        if not 1 <= num_hosts <= len(counts):
            raise SweepRefusedError(
                f"launcher.num_hosts={num_hosts}: {len(counts)} hosts of {where} are "
                "up; ask for 1 or more, up to that"
            )
        most = sorted(counts, reverse=True)[num_hosts - 1]
        if wanted == DeviceKind.GPU and not most:
            raise SweepRefusedError(
                f"hardware=gpu: {num_hosts} hosts with GPUs were asked for, {where} has "
                f"{sum(map(bool, counts))}; choose hardware=cpu, or fewer hosts"
            )
        if wanted == DeviceKind.CPU_DEVICE or not most:
            return None
        return most


def ask(
    command: Sequence[str], who: str, within_s: float | None = ANSWER_WITHIN_S, said: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. Raises SweepRefusedError where it does not start or end."""
    try:
        return subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": own_code.python_path(os.environ)},
            input=said,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=within_s,
            check=False,
            # or it would wait in an engine's queue for nobody, where the sweep is killed
            preexec_fn=partial(processes.signal_at_end_of_parent, signal.SIGTERM),
        )
    except subprocess.TimeoutExpired as error:
        raise SweepRefusedError(f"{who} does not answer within {within_s:g} s") from error
    except OSError as error:
        raise SweepRefusedError(f"{who}: {command[0]}: {error.strerror}") from error


def describe(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Answer `Launcher._ask`, on the host that it asks."""
    hardware = HardwareConfig(
        device_kind=asked["device_kind"], num_cpu_devices=asked["num_cpu_devices"]
    )
    os.environ.update(asked["environment"])
    described, doubts, locks = software.describe(), list[str](), ""
    try:
        check_folder("attempts work in ", Path(tempfile.gettempdir()))
        if asked["locks"]:
            folder = HostLock().folder.stat()  # two names of one host have the same
            locks = f"{processes.this_process().boot_id} {folder.st_dev} {folder.st_ino}"
        machine = replace(describe_machine(hardware), pool=asked["pool"])
        inventory = take_inventory(machine, hardware, {})
        if asked["programs"]:
            described, doubts = describe_programs(
                asked["programs"], os.environ, mends=asked["mends"]
            )
    except SweepRefusedError as error:
        return {"problem": str(error)}
    facts = {
        **_own_code(),
        "kind of host": elsewhere.host_kind(),
        "machine": machine.key,
    }
    return {
        "machine": machine.to_json(),
        "devices": inventory.kind.value,
        "num_devices": inventory.num_devices,
        "software": described,
        "doubts": doubts,
        "locks": locks,
        "facts": facts,
    }


def _own_code() -> dict[str, str]:
    own = software.own_checkout()
    return {
        "commit": own["commit"] or "unknown",
        "changes since the commit": own["diff"] or "none",
    }


def _check_alike(
    first: str, its: Mapping[str, Any], other: str, of_other: Mapping[str, Any]
) -> None:
    """Raise SweepRefusedError where two hosts answer differently."""
    differences = []
    for name, fact in its["facts"].items():
        other_fact = of_other["facts"].get(name, "unknown")  # to another version of this project
        if fact != other_fact:
            differences.append(f"{name} {fact} -> {other_fact}")
    differences += software.differences(_known(its["software"]), _known(of_other["software"]))
    if differences:
        raise SweepRefusedError(
            f"{first} and {other} differ: {', '.join(differences[:MOST_DIFFERENCES])}; results of "
            "both would not mix: install the same on both, or run a sweep for each kind of host"
        )


def _known(described: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leave out code that is unknown: no attempt's is equal to it, on whatever host."""
    if program_software.is_unknown(described.get("program", {}).get("code", "")):
        return {**described, "program": {}}
    return described
