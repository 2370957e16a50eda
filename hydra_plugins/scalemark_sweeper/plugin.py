"""Registers our sweeper with Hydra, and hands the grid over.

No postponed annotations here: Hydra runs this file without registering the module, which
dataclasses then miss.
"""

from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
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
        from sweeper.grid.compose import Composer, Grid
        from sweeper.grid.expand import Request, expand

        composer = Composer(self._loader, self._config)
        names = {"params": "params", "grids": "grids", "zip": "zipped", "variants": "variants"}
        axes: dict[str, Any] = {}
        for setting, name in names.items():
            axes[name] = OmegaConf.to_container(self._axes[setting], resolve=True)
        request = Request(arguments=arguments, **axes)
        cells = expand(request, composer.base.sweep.max_trials, self._loader)
        return self._task_function(Grid(cells=cells, composer=composer))


@dataclass
class ScalemarkSweeperConf:
    _target_: str = "hydra_plugins.scalemark_sweeper.plugin.ScalemarkSweeper"
    # axis -> sweep as on the command line, a value, or a list of values
    params: dict[str, Any] = field(default_factory=dict)
    # the sweep is the union of these; axes as in params
    grids: list[dict[str, Any]] = field(default_factory=list)
    zip: list[list[str]] = field(default_factory=list)  # groups of axes that advance together
    # each cell once with each of these, which win over arguments
    variants: list[dict[str, Any]] = field(default_factory=list)


ConfigStore.instance().store(
    group="hydra/sweeper", name="scalemark", node=ScalemarkSweeperConf, provider="scalemark"
)
