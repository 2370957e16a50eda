"""Our plugins of Hydra: the sweeper, and models of users.

No postponed annotations here: Hydra runs this file without registering the module, which
dataclasses then miss.
"""

from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf


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


_MODEL = "model/"
DEFAULTS = {"batch_size": 32, "cpu_batch_size": 8, "learning_rate": 0.01}
"""The defaults of every model of a user's own: its file is not run before its trials."""


class OwnModels(ConfigSource):
    """A config for each name of the group `model` with a colon; files of conf/ come first."""

    @staticmethod
    def scheme() -> str:
        return "own-model"

    def load_config(self, config_path: str) -> ConfigResult:
        sizes = {"num_classes": 0, "image_px": 0, "cpu_image_px": 0}
        values = {"name": config_path.removeprefix(_MODEL), **sizes, **DEFAULTS}
        return ConfigResult(
            provider=self.provider,
            path=f"{self.scheme()}://",
            config=OmegaConf.create(values),
            header={"package": None},
        )

    def is_config(self, config_path: str) -> bool:
        return config_path.startswith(_MODEL) and ":" in config_path

    def is_group(self, config_path: str) -> bool:
        return False

    def available(self) -> bool:
        return True

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        return []


class BesideConf(SearchPathPlugin):
    """Adds them behind conf/."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        search_path.append("scalemark", f"{OwnModels.scheme()}://")
