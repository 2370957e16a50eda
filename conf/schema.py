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

from scalemark.abilities import LAUNCHERS, choices_of, setting
from scalemark.records.axes import Axis, Engine, env_axes
from scalemark.records.measurement import INJECTED
from scalemark.records.trial import AXES, PROGRAM_AXES
from simulator.costs.box import Hardware

# Enums, because OmegaConf takes no Literal; only their names matter.
Start = Enum("Start", ["fork", "spawn"])
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
    dir: str | None = setting(
        "folder of the shards; null = a cache folder, where the product makes them", default=None
    )


if TYPE_CHECKING:

    class _OfPrograms:
        """The axes of programs alone, which `scalemark.records.trial_axes` defines."""

        def __getattr__(self, name: str) -> Any: ...

else:
    _OfPrograms = make_dataclass(
        "_OfPrograms",
        [
            (
                axis.set_by.removeprefix("command."),
                axis.type,
                setting(axis.help, default=axis.default),
            )
            for axis in (AXES[name] for name in PROGRAM_AXES)
        ],
    )


@dataclass
class CommandConfig(_OfPrograms):
    """A file in conf/command/: a program of the user's own, with engine=command."""

    name: str = setting("its name in tables and charts; empty = its script's", default="")


@dataclass
class LauncherConfig:
    """A file in conf/launcher/."""

    name: str = MISSING
    start: Start = setting(
        "fork attempts from a server that has TensorFlow loaded, or spawn a Python each",
        default=Start.fork,
    )
    share_host: bool = setting(
        "run trials side by side on free devices; their results are suspect", default=False
    )
    timeout_s: float = setting("seconds that an attempt may take", default=3600.0)
    start_timeout_s: float = setting(
        "seconds to the first step, after which an attempt counts as hung", default=1800.0
    )
    step_timeout_s: float = setting(
        "seconds between steps, after which an attempt counts as hung", default=600.0
    )
    grace_s: float = setting("seconds from SIGINT to SIGTERM, and to SIGKILL", default=5.0)
    host_memory_gib: float | None = setting(
        "memory limit of an attempt on a host, shared by its processes; null = none", default=None
    )
    hosts: list[str] = setting("hosts of launcher=ssh and prefix, as [a,b]", default=[])
    num_hosts: int = setting(
        "hosts of a Slurm or Ray cluster to use at once; inside a job all of its nodes", default=1
    )
    options: list[str] = setting(
        'more options of srun and salloc, or of ssh, as ["-p2222"]', default=[]
    )
    python: str | None = setting("Python on other hosts; null = at this one's path", default=None)
    orphan_timeout_s: float = setting(
        "seconds without this process after which an attempt on another host ends", default=60.0
    )
    rank_timeout_s: float = setting(
        "heartbeat timeout of each process of a distributed trial, in seconds", default=30.0
    )

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The settings of one launcher alone, which its own file declares."""


if not TYPE_CHECKING:
    _OWN = [
        (name, launcher.settings, field(default_factory=launcher.settings))
        for name, launcher in LAUNCHERS.items()
        if launcher.settings
    ]
    LauncherConfig = make_dataclass("LauncherConfig", _OWN, bases=(LauncherConfig,))


def _profile_config() -> type:
    """Copy the fields of Hardware into a dataclass that OmegaConf can fill, with dicts."""
    made: list[tuple[str, Any, Any]] = []
    hints = get_type_hints(Hardware)
    for own in fields(Hardware):
        kind, default = hints[own.name], own.default
        if get_origin(kind) is Mapping:
            kind = GenericAlias(dict, get_args(kind))
            made.append((own.name, kind, field(default_factory=dict)))
        else:
            made.append((own.name, kind, MISSING if default is REQUIRED else default))
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
    num_cpu_devices: int = setting("logical CPU devices", default=16)
    # of simulated hardware: the fields of simulator.costs.box.Hardware
    profile: ProfileConfig | None = None


@dataclass
class SweepConfig:
    """The grid as a whole."""

    name: str | None = setting("name of the sweep; null = the time it started", default=None)
    exclude: list[str] = setting(
        'trials to leave out, as "model=vgg16,alexnet num_gpus>=4"', default=[]
    )
    repeats: int = setting("fresh processes per trial, in random order", default=1)
    budget: str = setting(
        "2h, 90m or 8gpu_h to find the fastest trials within; inf: races; empty: run all in full",
        default="",
    )
    margin: float = setting(
        "share by which batch_size=max stays below the largest batch that runs", default=0.0
    )
    rerun: bool = setting("run finished trials again", default=False)
    dry_run: bool = setting("print the plan and stop", default=False)
    plan_format: PlanFormat = setting("format of a dry run's plan", default=PlanFormat.table)


@dataclass
class StoreConfig:
    """The places of results."""

    url: str = setting(
        "results database, also SCALEMARK_DB: a path, sqlite:/// or postgresql:// URL",
        default="${oc.env:SCALEMARK_DB,results.db}",
    )
    runs_dir: str = setting("folder of run folders", default="runs")


@dataclass
class SweepSettings:
    """The settings around the axes of a trial, and the groups that set several axes."""

    model: ModelConfig = MISSING
    data: DataConfig = MISSING
    launcher: LauncherConfig = MISSING
    hardware: HardwareConfig = MISSING
    sweep: SweepConfig = field(default_factory=SweepConfig)
    command: CommandConfig = field(default_factory=CommandConfig)
    store: StoreConfig = field(default_factory=StoreConfig)

    engine: Engine = setting(
        "simulated plays trials by the cost model; command runs your own program",
        default=Engine.tensorflow,
    )
    # free axes of your own, as +axes.zero=0,1,2
    axes: dict[str, int | float | bool | str] = field(default_factory=dict)
    # environment variables, as +env.NCCL_ALGO=Ring,Tree; null = as inherited
    env: dict[str, int | float | bool | str | None] = field(default_factory=dict)
    # slowed or broken on purpose; null = nothing
    injected: InjectedConfig = field(default_factory=InjectedConfig)


def free_values(config: SweepSettings) -> dict[str, object]:
    """Return the free axes of a config by their names."""
    return config.axes | env_axes(config.env)


def _field_of(axis: Axis) -> tuple[str, Any, Any]:
    """Return name, type and default of an axis, as `make_dataclass` takes them."""
    choices = choices_of(axis)
    if choices:
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

    class Config(SweepSettings):
        """All axes of a trial, and the settings of the sweep around them."""

        def __getattr__(self, name: str) -> Any: ...

else:
    Config = make_dataclass("Config", map(_field_of, AXES_SET_BY_NAME), bases=(SweepSettings,))


def register() -> None:
    """Make the schema known to Hydra, for the defaults of `conf/config.yaml`."""
    ConfigStore.instance().store(name="schema", node=OmegaConf.structured(Config))


def typed(composed: DictConfig) -> Config:
    """Return a `Config`, interpolations resolved. Raises omegaconf errors for missing values."""
    config = OmegaConf.to_object(composed)
    assert isinstance(config, Config)
    return config
