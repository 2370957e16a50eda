"""Our plugins of Hydra: the sweeper, models of users, and hardware profiles of users.

No postponed annotations here: Hydra runs this file without registering the module, which
dataclasses then miss.
"""

from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.object_type import ObjectType
from hydra.errors import ConfigCompositionException
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from simulator.costs.box import ProfileError, own_profile_file, read_profile


class ScalemarkSweeper(Sweeper):
    """A Hydra sweeper that composes the grid and leaves running it to `sweeper.sweep`."""

    def __init__(self, **axes: Any) -> None:
        self._axes = axes  # the other fields of ScalemarkSweeperConf

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        self._loader = hydra_context.config_loader
        self._task_function, self._config = task_function, config

    def sweep(self, arguments: list[str]) -> Any:
        """Hand over the grid of the arguments and `hydra.sweeper`; arguments win."""
        # here, because Hydra imports every plugin at every start, `--help` included
        from sweeper.grid.compose import Composer, Grid, expand

        composer = Composer(self._loader, self._config)
        axes: dict[str, Any] = {}
        for setting in ("params", "grids", "variants"):
            axes[setting] = OmegaConf.to_container(self._axes[setting], resolve=True)
        cells = expand(arguments, self._loader, **axes)
        return self._task_function(Grid(cells=cells, composer=composer))


@dataclass
class ScalemarkSweeperConf:
    _target_: str = "hydra_plugins.scalemark.ScalemarkSweeper"
    # axis -> sweep as on the command line, a value, or a list of values
    params: dict[str, Any] = field(default_factory=dict)
    # the sweep is the union of these; axes as in params
    grids: list[dict[str, Any]] = field(default_factory=list)
    # each cell once with each of these, which win over arguments
    variants: list[dict[str, Any]] = field(default_factory=list)


ConfigStore.instance().store(
    group="hydra/sweeper", name="scalemark", node=ScalemarkSweeperConf, provider="scalemark"
)


class _OwnConfigs(ConfigSource):
    """A config for names of a group that are a user's own; files of conf/ come first."""

    def is_group(self, config_path: str) -> bool:
        return False

    def available(self) -> bool:
        return True

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        return []

    def _config(self, values: dict[str, Any]) -> ConfigResult:
        return ConfigResult(
            provider=self.provider,
            path=f"{self.scheme()}://",
            config=OmegaConf.create(values),
            header={"package": None},
        )


_MODEL = "model/"
DEFAULTS = {"batch_size": 32, "cpu_batch_size": 8, "learning_rate": 0.01}
"""The defaults of every model of a user's own: its file is not run before its trials."""


class OwnModels(_OwnConfigs):
    """A config for every name of the group `model` that has a colon in it."""

    @staticmethod
    def scheme() -> str:
        return "own-model"

    def load_config(self, config_path: str) -> ConfigResult:
        sizes = {"num_classes": 0, "image_px": 0, "cpu_image_px": 0}
        return self._config({"name": config_path.removeprefix(_MODEL), **sizes, **DEFAULTS})

    def is_config(self, config_path: str) -> bool:
        return config_path.startswith(_MODEL) and ":" in config_path


_HARDWARE = "hardware/"


class OwnHardware(_OwnConfigs):
    """A config for each file of the user's own that a name of the group `hardware` leads to."""

    @staticmethod
    def scheme() -> str:
        return "own-hardware"

    def load_config(self, config_path: str) -> ConfigResult:
        file = own_profile_file(config_path.removeprefix(_HARDWARE))
        assert file is not None  # by is_config
        try:
            values = read_profile(file)
        except ProfileError as error:
            raise ConfigCompositionException(str(error)) from error
        return self._config({"device_kind": "simulated_gpu", "profile": values})

    def is_group(self, config_path: str) -> bool:
        return config_path == _HARDWARE.rstrip("/")

    def is_config(self, config_path: str) -> bool:
        if not config_path.startswith(_HARDWARE):
            return False
        file = own_profile_file(config_path.removeprefix(_HARDWARE))
        return file is not None and file.is_file()


class OwnConfigs(SearchPathPlugin):
    """Adds both sources behind conf/."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for source in (OwnModels, OwnHardware):
            search_path.append("scalemark", f"{source.scheme()}://")
