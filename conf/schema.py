"""Defines the typed config that Hydra checks: every axis, by its definition, and all settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING as REQUIRED
from dataclasses import dataclass, field, fields, make_dataclass
from enum import Enum
from types import GenericAlias
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf

from costs.hardware import Hardware
from scalemark.abilities import LAUNCHERS, names
from scalemark.records.axes import AUTO, Axis, Engine
from scalemark.records.injected import INJECTED
from scalemark.records.trial import AXES

# Enums, because OmegaConf takes no Literal; only their names matter.
Invalid = Enum("Invalid", ["skip", "error"])
Start = Enum("Start", ["fork", "spawn"])
OnFailure = Enum("OnFailure", ["continue", "stop"])
OnInterrupt = Enum("OnInterrupt", ["stop", "finish"])
PlanFormat = Enum("PlanFormat", ["table", "json"])


@dataclass
class ModelConfig:
    """A file in conf/model/: what `auto` means for this model."""

    name: str = MISSING  # a definition in scalemark/models/
    num_classes: int | None = None  # null = as published
    image_px: int | None = None  # on GPUs; null = as published
    seq_len: int | None = None  # on GPUs; null = as published
    batch_size: int = MISSING  # per GPU
    cpu_image_px: int | None = None  # on CPU devices; null = as published
    cpu_seq_len: int | None = None  # on CPU devices; null = as published
    cpu_batch_size: int = MISSING  # per CPU device
    learning_rate: float = MISSING  # of sgd and momentum
    # of optimizers that have a rate of their own, as adam; null = theirs
    adaptive_learning_rate: float | None = None


@dataclass
class DataConfig:
    """A file in conf/data/."""

    name: str = MISSING  # a file in trainer/data/
    gives: str | None = "images"  # images or tokens; null = what the model takes
    has_pipeline: bool = True  # batches are made on the host during training
    reads_folder: bool = MISSING  # reads shards from a folder
    makes_folder: bool = False  # makes the set itself where the folder is empty
    distorts: bool = False  # its images can be distorted
    # labels are less than this; null = known only once the set is read
    num_labels: int | None = None
    cache: bool = True  # small enough to be kept in memory
    # folder of the shards; null = a cache of our own where the set makes itself
    dir: str | None = None


@dataclass
class CommandConfig:
    """A file in conf/command/: a program of the user's own, with engine=command."""

    run: str = ""  # its command line, with {axis} where the value of an axis goes
    name: str = ""  # in tables and charts; empty = that of its script
    read: str = ""  # how its output is read: KIND or KIND:ARGUMENT, see docs/your_program.md
    item: str = ""  # what is counted per second, as images, tokens, samples
    items_per_step: str = ""  # of all replicas, as batch_size*num_gpus
    per_gpu: bool = False  # its numbers are of one GPU
    compare: str = ""  # the axis that plays the part of the strategy; empty = all free axes
    shell: bool = False  # let /bin/sh read the command line
    uses: list[str] = field(default_factory=list)  # axes that it reads from its environment


@dataclass
class AgentsConfig:
    """Hosts that share a sweep through PostgreSQL, with launcher=agents, slurm and ray."""

    # hosts that agents are started on, all together; launcher=agents starts none itself
    num_hosts: int = 1
    # null = as Slurm or Ray reports; the number of CPU devices is hardware.num_cpu_devices
    gpus_per_host: int | None = None
    # seconds without a heartbeat, by the database's clock, until others run an agent's trials
    lease_s: float = 60.0
    # equal hosts count as one machine of this name; null = each host stands for itself
    pool: str | None = None


@dataclass
class LauncherConfig:
    """A file in conf/launcher/."""

    name: str = MISSING
    # fork a server that has TensorFlow loaded, or spawn a new Python for every attempt
    start: Start = Start.fork
    # run trials side by side on the devices that are free; results are marked
    share_host: bool = False
    # trials side by side, with share_host; null = one per GPU, on CPU devices one per core
    max_parallel: int | None = None
    # a GPU of which other programs hold as much memory is in use, and not given to trials
    in_use_from_mib: float = 64.0
    # seconds without a trial that can start, because others use GPUs, until a sweep ends; null =
    # wait for ever
    wait_for_gpus_s: float | None = None
    timeout_s: float = 3600.0  # an attempt that takes longer is ended
    # an attempt that has not done its first step by then has hung, and is ended
    start_timeout_s: float = 1800.0
    # an attempt whose steps stop coming for longer has hung, and is ended
    step_timeout_s: float = 600.0
    # between SIGINT and SIGTERM, and between SIGTERM and SIGKILL, when an attempt is ended
    grace_s: float = 5.0
    # more data an attempt may not have on a host, all its processes alike; null = none
    host_memory_gib: float | None = None
    # a rank of a distributed trial that cannot be reached by then has hung: all are ended
    rank_start_timeout_s: float = 300.0
    rank_timeout_s: float = 30.0  # a rank that gives no sign for longer has hung: all are ended
    agents: AgentsConfig = field(default_factory=AgentsConfig)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The settings of one launcher alone, as slurm, which its own file declares."""


if not TYPE_CHECKING:
    _OWN = [
        (name, one.settings, field(default_factory=one.settings))
        for name, one in LAUNCHERS.items()
        if one.settings
    ]
    LauncherConfig = make_dataclass("LauncherConfig", _OWN, bases=(LauncherConfig,))


@dataclass
class RetryConfig:
    """Numbers of retries, by the end of an attempt; after an interrupt there is always one."""

    # the process ended without a result, by a signal or lost, or somebody else interrupted it
    crashed: int = 1
    failed: int = 0  # the trainer itself said what went wrong: it would again
    out_of_memory: int = 0
    timed_out: int = 0
    hung: int = 0
    invalid: int = 0
    disturbed: int = 1  # it completed, and other programs computed on its GPUs meanwhile


def _profile_config() -> type:
    """Copy the fields of Hardware into a dataclass that OmegaConf can fill, with dicts."""
    made: list[tuple[str, Any, Any]] = []
    hints = get_type_hints(Hardware)
    for one in fields(Hardware):
        kind, default = hints[one.name], one.default
        if get_origin(kind) is Mapping:
            kind = GenericAlias(dict, get_args(kind))
            made.append((one.name, kind, field(default_factory=dict)))
        else:
            made.append((one.name, kind, MISSING if default is REQUIRED else default))
    return make_dataclass("ProfileConfig", made)


if TYPE_CHECKING:
    ProfileConfig = Hardware
    InjectedConfig = Any
else:
    ProfileConfig = _profile_config()
    InjectedConfig = make_dataclass(
        "InjectedConfig", [(name, float | None, None) for name in INJECTED]
    )


@dataclass
class HardwareConfig:
    """A file in conf/hardware/: what replicas run on."""

    device_kind: str = MISSING  # auto, gpu, cpu_device, or simulated_gpu with a profile
    num_cpu_devices: int = 16  # the number of CPU devices
    # of simulated hardware: the fields of costs.hardware.Hardware
    profile: ProfileConfig | None = None


@dataclass
class SweepConfig:
    """The grid as a whole."""

    name: str | None = None  # null = the time it started
    reason: str = ""  # why it was run, for the record
    # meaningless cells of a grid: leave out and list, or refuse the sweep
    invalid: Invalid = Invalid.skip
    # trials to leave out, as "model=vgg16,alexnet num_gpus>=4"
    exclude: list[str] = field(default_factory=list)
    max_trials: int = 10000  # a larger grid is refused: it was probably a slip
    # fresh processes per trial; each round of repeats runs all trials in a random order of its own
    repeats: int = 1
    seed: int = 1  # of that order
    # repeats is the most: none that could hardly change which contender of a race leads is run
    race: bool = False
    # trials that differ in these axes alone are one race
    race_over: list[str] = field(default_factory=lambda: ["strategy"])
    # stop: start nothing more after an attempt that is not tried again
    on_failure: OnFailure = OnFailure["continue"]
    # of the first Ctrl-C, SIGTERM, SIGHUP: end what is running, or let it finish
    on_interrupt: OnInterrupt = OnInterrupt.stop
    # after out_of_memory skip trials that are equal but for a larger batch or image
    skip_larger_after_oom: bool = False
    # a shell command to run at the end; it finds SCALEMARK_SWEEP_* in its environment; never stored
    notify: str | None = None
    rerun: bool = False  # run finished trials again
    dry_run: bool = False  # print the plan and stop
    plan_format: PlanFormat = PlanFormat.table  # of a dry run: for people, or for scripts


@dataclass
class StoreConfig:
    """The places of results."""

    url: str = "${oc.env:SCALEMARK_DB,results.db}"  # path, sqlite:/// or postgresql:// URL
    runs_dir: str = "runs"  # run folders
    figures_dir: str = "figures"  # pictures


@dataclass
class Settings:
    """The settings around the axes of a trial, and the groups that set several axes."""

    model: ModelConfig = MISSING
    data: DataConfig = MISSING
    launcher: LauncherConfig = MISSING
    hardware: HardwareConfig = MISSING
    sweep: SweepConfig = field(default_factory=SweepConfig)
    retry: RetryConfig = field(default_factory=RetryConfig)
    command: CommandConfig = field(default_factory=CommandConfig)
    store: StoreConfig = field(default_factory=StoreConfig)

    # simulated: play trials by the cost model, on a profile of conf/hardware/
    # command: run a program of your own, which command= gives
    engine: Engine = Engine.tensorflow
    # free axes of your own, as +axes.zero=0,1,2
    axes: dict[str, int | float | bool | str] = field(default_factory=dict)
    # slowed or broken on purpose; null = nothing
    injected: InjectedConfig = field(default_factory=InjectedConfig)


def choices_of(axis: Axis) -> list[str]:
    """Return all values that the command line takes, `auto` included; empty where it does not list
    them.
    """
    folder = axis.folder
    choices = names(f"trainer/{folder}") if folder else axis.choices
    may_be_auto = choices and axis.auto
    return [AUTO, *choices] if may_be_auto else list(choices)


def _field_of(axis: Axis) -> tuple[str, Any, Any]:
    """Return name, type and default of an axis, as `make_dataclass` takes them."""
    if choices := choices_of(axis):
        make_enum: Any = Enum  # OmegaConf takes no Literal
        choice = make_enum(axis.name, choices)
        return axis.name, choice, choice[str(axis.given)]
    kind: Any = axis.type
    if axis.auto:  # the one string allowed is "auto"
        kind = {int: int | str, bool: bool | str}.get(kind, int | float | str)
    return axis.name, kind, axis.given


AXES_SET_BY_NAME = tuple(axis for axis in AXES.values() if not axis.set_by)
"""Axes that the command line sets one by one."""

if TYPE_CHECKING:

    class Config(Settings):
        """All axes of a trial, and the settings of the sweep around them."""

        def __getattr__(self, name: str) -> Any: ...

else:
    Config = make_dataclass("Config", map(_field_of, AXES_SET_BY_NAME), bases=(Settings,))


def register() -> None:
    """Make the schema known to Hydra, for the defaults of `conf/config.yaml`."""
    ConfigStore.instance().store(name="schema", node=Config)


def typed(composed: DictConfig) -> Config:
    """Return a `Config`, interpolations resolved. Raises omegaconf errors for missing values."""
    config = OmegaConf.to_object(composed)
    assert isinstance(config, Config)
    return config
