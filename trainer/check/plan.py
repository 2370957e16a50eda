"""What the self-check asks the process of a mode to check, and the trials that it trains.

TensorFlow reads some variables once, at its import. Trials of other precisions need others, so that
the checks of a mode are made in as many processes as there are different ones: on GPUs one with
half precision and one without.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from scalemark.abilities import PRECISIONS, VARIABLE_UPDATES
from scalemark.records import switches
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec, strategy_name
from scalemark.records.validation import JsonRecord

NUM_CPU_DEVICES = 2
MOST_GPUS = 8
PIECES_OF_ONE_GPU = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """A way of sharing variables and reducing gradients."""

    variable_update: str
    local_parameter_device: str
    all_reduce: str
    is_distributed: bool = False  # checked over several hosts

    @property
    def name(self) -> str:
        return strategy_name(self.variable_update, self.local_parameter_device, self.all_reduce)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing looked at in one mode. `problem` is empty when it is as it must be."""

    mode: str
    options: str  # what differs from the plain mode, as overrides; "-" for nothing
    outcome: str  # passed, failed, or unsupported: it cannot run here
    problem: str = ""  # what is wrong, or why it cannot run
    difference: float | None = None  # largest absolute difference of any weight from the reference
    loss_difference: float | None = None  # of the last step's loss from the reference's
    bound: float | None = None  # that both must be under


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The devices the checks run on."""

    kind: str  # cpu_device, logical_gpu, gpu
    num_replicas: int  # of all hosts
    num_hosts: int = 1  # more are processes of this machine

    @property
    def device_kind(self) -> str:
        """The kind that its trials name."""
        return str(DeviceKind.GPU) if self.kind == "logical_gpu" else self.kind

    @property
    def described(self) -> str:
        per_host = self.num_replicas // self.num_hosts
        if self.kind == "logical_gpu":
            devices = f"{per_host} logical GPU{'s' if per_host > 1 else ''} cut from one GPU"
        else:
            devices = DeviceKind(self.kind).counted(per_host)
        if self.num_hosts == 1:
            return devices
        return f"{self.num_hosts} hosts with {devices} each (processes of this machine)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(JsonRecord):
    """The checks of one mode that a process makes, because they need the same environment."""

    mode: Mode
    bench: Bench
    precisions: tuple[str, ...]  # with fp32 come the checks that vary something else


BASE = TrialSpec(
    model="resnet18_cifar",
    num_gpus=1,
    device_kind=DeviceKind.CPU_DEVICE,
    variable_update="replicated",
    local_parameter_device="gpu",
    all_reduce="none",
    precision="fp32",
    optimizer="momentum",
    learning_rate=0.1,
    momentum=0.9,
    weight_decay=4e-5,
    data="synthetic",
    distortions=False,
    image_px=32,
    num_classes=10,
    batch_size=16,
    min_warm_up_steps=2,
    num_steps=10,
    seed=1,
)


def of_one_device(bench: Bench) -> TrialSpec:
    """Return the trial that others are compared with."""
    return replace(BASE, device_kind=bench.device_kind)


def of_mode(mode: Mode, bench: Bench) -> TrialSpec:
    """Return the plain trial of a mode on all devices of the bench."""
    return replace(
        of_one_device(bench),
        num_gpus=bench.num_replicas,
        hosts=bench.num_hosts,
        variable_update=mode.variable_update,
        local_parameter_device=mode.local_parameter_device,
        all_reduce=mode.all_reduce,
        batch_size=16 if bench.kind == "cpu_device" else 128,
    )


def parts(
    mode: Mode, bench: Bench, inherited: Mapping[str, str]
) -> Iterator[tuple[Part, dict[str, str]]]:
    """Yield the parts of a mode's checks, the plain ones first, and the variables of each."""
    of_variables: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for precision in _precisions(mode):
        spec = replace(of_mode(mode, bench), precision=precision)
        variables = tuple(sorted(switches.variables(spec, inherited).items()))
        of_variables.setdefault(variables, []).append(precision)
    for variables, precisions in of_variables.items():
        yield Part(mode=mode, bench=bench, precisions=tuple(precisions)), dict(variables)


def _precisions(mode: Mode) -> list[str]:
    if VARIABLE_UPDATES[mode.variable_update].is_of_one_host:
        return [BASE.precision]  # those checks do not vary it
    return [BASE.precision, *(name for name in PRECISIONS if name != BASE.precision)]


def all_modes() -> Iterator[Mode]:
    """Yield every combination that the files of `trainer/variable_updates/` offer.

    Those in which every host trains by itself are left out: no single process can check them.
    """
    for update, abilities in VARIABLE_UPDATES.items():
        if abilities.every_worker_trains and not abilities.is_of_one_host:
            continue
        for where, all_reduce in product(abilities.local_parameter_devices, abilities.all_reduces):
            yield Mode(
                variable_update=update,
                local_parameter_device=where,
                all_reduce=all_reduce,
                is_distributed=abilities.goes_over_hosts,
            )


def choose_bench(asked: str, num_replicas: int | None, num_gpus: int, num_hosts: int = 1) -> Bench:
    """Choose GPUs where there are several, pieces of one where there is one, else CPU devices."""
    kind = asked
    if asked == "auto" and num_gpus:
        kind = "gpu" if num_gpus > 1 else "logical_gpu"
    elif asked == "auto":
        kind = "cpu_device"
    if num_replicas is None:
        own_gpus = min(num_gpus, MOST_GPUS) // num_hosts
        sensible = {"cpu_device": NUM_CPU_DEVICES, "logical_gpu": PIECES_OF_ONE_GPU}
        num_replicas = sensible.get(kind, max(1, own_gpus))
    return Bench(kind=kind, num_replicas=num_hosts * num_replicas, num_hosts=num_hosts)
