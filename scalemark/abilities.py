"""Abilities that variable updates, all-reduces, precisions, optimizers and launchers declare in
their own files, for all who must know them and may not import TensorFlow.

A name that a user may choose is one file in one folder, and the folder is the registry. Each file
has two parts:

```
  trainer/all_reduces/ring.py    ABILITIES = AllReduceAbilities(...)    read by everybody: rules,
                                 and the functions that it names        cost model, explanations
                                 ─────────────────────────────────
                                 import tensorflow as tf                read by the trainer alone
                                 class Ring: ...
```

`ALL_REDUCES["ring"]` executes the first part only: the text above the first line that imports
tensorflow, keras, numpy, trainer, conf or sweeper. That part therefore imports nothing but the
standard library and `scalemark`. Who runs the name imports the whole file, as any module.

A file without ABILITIES, or whose ABILITIES lack a field, raises AbilitiesError, which names both.
Every command checks all files before it begins.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import Field, dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, Protocol, TypeVar

from scalemark.records.axes import AUTO, Axis, AxisValue, Engine
from scalemark.records.trial import TrialSpec

HOST = -1
"""The host's memory, where copies begin or end; other ends are GPUs, counted from 0."""


class Traffic(Protocol):
    """Counts what is sent during one step; as `LinkTraffic` of the simulator does."""

    def copy(self, source: int, target: int, num_bytes: float, num_copies: float = 1.0) -> None:
        """Add copies from one GPU to another, or from or to HOST; `num_bytes` is of all of them."""

    def host_sums(self, num_bytes: float, memory_bytes: float) -> None:
        """Add what the CPUs sum, and what moves through the host's memory for it."""

    def collective(self, sizes: Sequence[float], num_gpus: int, launchers: int) -> None:
        """Add one NCCL kernel per message; each of `launchers` GPUs waits for its turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllReduceAbilities:
    """ABILITIES of a file in `trainer/all_reduces/`."""

    # sends(traffic, sizes, num_gpus) tells the cost model what one step sends: `sizes` are the
    # bytes of each message of one GPU, in the order of the layers
    sends: Callable[[Traffic, Sequence[float], int], None]
    uses_nccl: bool = False  # on GPUs, whose memory it needs beside TensorFlow's
    gpu_only: str = ""  # why CPU devices cannot run it; empty where they can
    within_hosts: bool = True  # sums on one host of several that one client drives


PROJECT = Path(__file__).resolve().parents[1]
_BELOW = re.compile(
    r"^(?:import|from) (?:tensorflow|keras|numpy|trainer|conf|sweeper)\b", re.MULTILINE
)

A = TypeVar("A")


class AbilitiesError(Exception):
    """A file does not declare what others must know about its name. The text names both."""


@cache
def names(folder: str) -> tuple[str, ...]:
    """Return the names that a folder as `trainer/precisions` offers, sorted."""
    files = [file for file in (PROJECT / folder).iterdir() if file.suffix == ".py"]
    return tuple(sorted(file.stem for file in files if file.stem != "__init__"))


def preferring(first: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    """Return each name once, `first` ahead: the first that can run is what `auto` means."""
    return tuple(dict.fromkeys((*first, *others)))


class Folder(Mapping[str, A], Generic[A]):
    """Maps the names of a folder to the abilities that their files declare, and reads each once."""

    def __init__(self, folder: str, kind: type[A]) -> None:
        self._folder, self._kind = folder, kind
        self._read: dict[str, A] = {}

    def __getitem__(self, name: str) -> A:
        """Raises KeyError where there is no file, AbilitiesError where it declares too little."""
        if name not in self._read:
            if name not in names(self._folder):
                raise KeyError(name)
            self._read[name] = _declared(f"{self._folder}/{name}.py", self._kind)
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(names(self._folder))

    def __len__(self) -> int:
        return len(names(self._folder))

    def check(self) -> None:
        """Read every file. Raises AbilitiesError for the first that declares too little."""
        for name in self:
            self[name]


def _declared(file: str, kind: type[A]) -> A:
    text = (PROJECT / file).read_text(encoding="utf-8")
    below = _BELOW.search(text)
    head = text[: below.start()] if below else text
    module = ModuleType(f"{__name__}:{file}")
    sys.modules[module.__name__] = module  # where dataclasses look for the types of their fields
    try:
        exec(compile(head, file, "exec", dont_inherit=True), module.__dict__)  # our own file
    except (ImportError, NameError, SyntaxError, TypeError, ValueError) as error:
        raise AbilitiesError(
            f"{file}: its ABILITIES cannot be read, {error}; {_wanted(kind)}"
        ) from error
    abilities = getattr(module, "ABILITIES", None)
    if not isinstance(abilities, kind):
        raise AbilitiesError(f"{file}: declares no ABILITIES; {_wanted(kind)}")
    return abilities


def _wanted(kind: type) -> str:
    where = kind.__module__.replace(".", "/")
    return (
        f"wanted ABILITIES = {kind.__name__}(...) above its first import of tensorflow, "
        f"trainer, conf or sweeper, "
        f"with what {where}.py asks for"
    )


def choices_of(axis: Axis) -> list[str]:
    """Return all values that the command line takes, with `auto`; empty where it lists none."""
    folder = axis.folder
    choices = names(f"trainer/{folder}") if folder else axis.choices
    may_be_auto = choices and axis.auto
    if may_be_auto:
        return [AUTO, *choices]
    return list(choices)


_HELP = "help"


def setting(help: str, *, default: Any) -> Any:  # noqa: A002
    """Return the field of a setting. Lists are copied for each instance."""
    metadata = {_HELP: help}
    if isinstance(default, list):
        return field(default_factory=lambda: deepcopy(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def help_of(setting: Field[Any]) -> str:
    """Return the line of help; empty where the field is no setting."""
    return str(setting.metadata.get(_HELP, ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherAbilities:
    """ABILITIES of a file in `sweeper/launchers/`, which has one of its name in
    `conf/launcher/`."""

    # dataclass of the settings `launcher.<name>.*` that it alone heeds, all with defaults; its
    # types are built-in ones. None = it has none
    settings: type | None
    heeds: tuple[str, ...] = ()  # settings `launcher.*` that it reads, and not every launcher does


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerAbilities:
    """ABILITIES of a file in `trainer/optimizers/`."""

    has_momentum: bool  # heeds the axis `momentum`
    num_slots: int  # values that it keeps for each value of a variable
    learning_rate: float | None  # that `auto` means; None = the model's own, made for momentum
    weight_decay: float = 4e-5  # that `auto` means; tf_cnn_benchmarks' default
    # it decays weights itself; else gradients have that of an L2 loss
    decouples_decay: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionAbilities:
    """ABILITIES of a file in `trainer/precisions/`."""

    policy: str  # Keras' dtype policy
    compute_type: str  # of convolutions and matrix products, as TensorFlow's graphs name it
    activation_bytes: int  # of one value
    tolerance: float  # of weights after 3 steps, against those of fp32; 0 = it is the measure
    tensor_float_32: bool = False  # GPUs may round the inputs of float32 products to 10 bits
    is_loss_scaled: bool = False  # small gradients vanish without a loss scale
    gpu_data_format: str = "NHWC"  # that cuDNN's kernels are made for; tensor cores want NHWC
    gpu_data_format_without_xla: str = ""  # where it is another; empty = the same
    gpu_only: str = ""  # why CPU devices cannot run it; empty where they can
    no_nchw_on_cpu: str = ""  # why CPU devices cannot run it with NCHW
    # the least compute capability of a GPU that has it in hardware; None = every GPU
    compute_capability: tuple[int, int] | None = None
    # the least one whose tensor cores compute in it, and as fast as in anything; None = none
    fastest_from: tuple[int, int] | None = None

    def data_format(self, *, xla: bool) -> str:
        """Return the order of dimensions that GPUs are taken to be faster in."""
        return (not xla and self.gpu_data_format_without_xla) or self.gpu_data_format

    def lack_of(self, compute_capability: tuple[int, int] | None) -> str:
        """Return why a GPU of this compute capability has no such precision; empty where it has
        it, and for None, which is unknown.
        """
        least = self.compute_capability
        if not (compute_capability and least and compute_capability < least):
            return ""
        own, needed = (".".join(map(str, version)) for version in (compute_capability, least))
        return f"needs compute capability {needed}, found {own}"


class Sends(StrEnum):
    """The messages of one step on one host; `simulator/costs/exchange.py` counts their bytes."""

    NOTHING = "nothing"  # replicas train apart
    TO_OWNERS = "to owners"  # weights from the owner of a variable, gradients to it
    ALL_REDUCE = "all-reduce"  # gradients, as the all-reduce declares
    REDUCE_SCATTER = "reduce-scatter"  # weights from equal shards to all, gradients back to them
    UNKNOWN = "unknown"  # the cost model cannot tell, and simulated trials are refused


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableUpdateAbilities:
    """ABILITIES of a file in `trainer/variable_updates/`."""

    local_parameter_devices: tuple[str, ...]  # cpu, gpu; the first is what `auto` means
    all_reduces: tuple[str, ...]  # the first that the devices can run is what `auto` means
    why: str  # no other all-reduce or device will do; completes "because ..."
    sends: Sends
    # what comes nearest in a Keras or PyTorch program, by all-reduce or local parameter device;
    # "" is any other
    in_your_code: Mapping[str, str] = field(
        default_factory=lambda: {"": "nothing in tf.distribute or PyTorch"}
    )
    repacks_with: tuple[str, ...] = ()  # all-reduces whose messages can be packed
    # all-reduces that are right for even numbers of replicas only, and why
    even_only: Mapping[str, str] = field(default_factory=dict)
    compacts: bool = False  # gradients can travel in half precision
    stages: bool = False  # replicas can compute on the weights of the step before
    least_replicas: int = 1  # fewer have nothing to share
    # trains as one device with the whole batch does: replicas agree, as on skipping a step
    is_synchronous: bool = True
    # the jobs of each host's ranks; empty = the trial is one process
    rank_jobs: tuple[str, ...] = ()
    every_worker_trains: bool = False  # each worker its own loop; else worker 0 is the one client
    one_cpu_device_per_host: bool = False  # on CPUs it uses one device of each process
    is_of_one_host: bool = False  # its ranks are processes of one host, a replica each
    has_own_loop: bool = False  # a loop of others takes the steps, and is timed from outside
    # axis -> the one value with which it trains, where others have a choice
    only: Mapping[str, AxisValue] = field(default_factory=dict)

    def refusals(self, spec: TrialSpec) -> Iterator[str]:
        """Yield a sentence for each axis whose value is another than its only one."""
        for axis, value in self.only.items():
            asked = getattr(spec, axis)
            if asked != value:
                trains = f"variable_update={spec.variable_update} trains with {axis}={value} alone"
                change = "leave it out, or choose"
                if axis == "loss_scale" and PRECISIONS[spec.precision].is_loss_scaled:
                    axis = f"precision={spec.precision} {axis}"
                    change = "choose another precision or"
                yield f"{axis}={asked}: {trains}; {change} another strategy".lower()

    @property
    def is_distributed(self) -> bool:
        """It runs as several processes, on one host or more."""
        return bool(self.rank_jobs)

    @property
    def goes_over_hosts(self) -> bool:
        """It can run over several hosts."""
        return self.is_distributed and not self.is_of_one_host

    @property
    def exchanges(self) -> bool:
        """Replicas share what they learn."""
        return self.sends is not Sends.NOTHING


DEFAULT_UPDATE = "replicated"
"""What variable_update=auto means: every replica has its copies, and gradients are all-reduced."""

LOCAL = "local"
"""The one launcher that runs attempts on this machine."""

VARIABLE_UPDATES = Folder("trainer/variable_updates", VariableUpdateAbilities)
ALL_REDUCES = Folder("trainer/all_reduces", AllReduceAbilities)
PRECISIONS = Folder("trainer/precisions", PrecisionAbilities)
OPTIMIZERS = Folder("trainer/optimizers", OptimizerAbilities)
LAUNCHERS = Folder("sweeper/launchers", LauncherAbilities)


def trains_apart(variable_update: str) -> bool:
    """Return whether replicas exchange nothing; False for a name of others, as horovod."""
    abilities = VARIABLE_UPDATES.get(variable_update)
    return abilities is not None and not abilities.exchanges


_MIRRORED_BY = "tf.distribute.MirroredStrategy(cross_device_ops=tf.distribute"
MIRRORED = {
    "nccl": f"{_MIRRORED_BY}.NcclAllReduce())",
    "hierarchical_copy": f"{_MIRRORED_BY}.HierarchicalCopyAllReduce())",
    "pscpu": f'{_MIRRORED_BY}.ReductionToOneDevice("/cpu:0"))',
    "none": f"{_MIRRORED_BY}.ReductionToOneDevice())",
}
"""By all-reduce, the tf.distribute.MirroredStrategy that reduces so."""

MULTI_WORKER = "tf.distribute.MultiWorkerMirroredStrategy with CommunicationImplementation"


def in_your_code(variable_update: str, local_parameter_device: str, all_reduce: str) -> str:
    """Return how a Keras or PyTorch program trains that way, or that neither can."""
    forms = VARIABLE_UPDATES[variable_update].in_your_code
    return forms.get(all_reduce) or forms.get(local_parameter_device) or forms[""]


def least_replicas(variable_update: str) -> int:
    """Return the fewest replicas that it shares variables among; 1 for a name of others."""
    abilities = VARIABLE_UPDATES.get(variable_update)
    if abilities is None:
        return 1
    return abilities.least_replicas


def fastest_precision(compute_capability: tuple[int, int] | None) -> str:
    """Return the precision in which GPUs with this or a later compute capability are fastest."""
    for name in ("bf16", "fp16"):  # the first needs no loss scale
        least = PRECISIONS[name].fastest_from
        if compute_capability and least and compute_capability >= least:
            return name
    return "fp32"


def half_precision(compute_capability: tuple[int, int] | None) -> str:
    """Return the fastest precision of 16 bits, on GPUs that nothing is known of fp16."""
    fastest = fastest_precision(compute_capability)
    return "fp16" if fastest == "fp32" else fastest


def rank_jobs(variable_update: str) -> tuple[str, ...]:
    """Return the jobs of each host's ranks; empty where a trial is one process."""
    abilities = VARIABLE_UPDATES.get(variable_update)
    return abilities.rank_jobs if abilities else ()


def jobs_of(spec: TrialSpec) -> tuple[str, ...]:
    """Return the jobs of each host's ranks, as `rank_jobs`; a user's program has one per host."""
    if spec.engine == Engine.command.value:
        return ("worker",) if spec.hosts > 1 else ()
    return rank_jobs(spec.variable_update)


def distributed() -> tuple[str, ...]:
    """Return the variable updates that can go over several hosts."""
    return tuple(name for name, abilities in VARIABLE_UPDATES.items() if abilities.goes_over_hosts)


def check() -> None:
    """Read all declarations. Raises AbilitiesError for the first that is not complete."""
    for folder in (VARIABLE_UPDATES, ALL_REDUCES, PRECISIONS, OPTIMIZERS, LAUNCHERS):
        folder.check()
    chosen = {file.stem for file in (PROJECT / "conf" / "launcher").glob("*.yaml")}
    for name in sorted(chosen ^ {*LAUNCHERS}):
        raise AbilitiesError(
            f"launcher={name}: wanted both sweeper/launchers/{name}.py and "
            f"conf/launcher/{name}.yaml, found one of them"
        )
