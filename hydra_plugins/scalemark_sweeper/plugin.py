"""Hydra's door to our sweeper: hands over the overrides, and the report of the sweep to the task function.

No postponed annotations here: Hydra runs this file without registering the module, which dataclasses then miss.
"""

from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class ScalemarkSweeper(Sweeper):
    """A Hydra sweeper that composes the grid and leaves running it to `sweeper.sweep`."""

    def __init__(self, params: dict[str, str]) -> None:
        self._params = params

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self._hydra_context, self._task_function, self._config = hydra_context, task_function, config

    def sweep(self, arguments: list[str]) -> Any:
        """Run the grid that the arguments and `hydra.sweeper.params` span; arguments win."""
        from sweeper import sweep  # here, because Hydra imports every plugin at every start, `--help` included
        from sweeper.expand import Composer, expand

        composer = Composer(self._hydra_context.config_loader, self._config)
        cells = expand(arguments, self._params, composer.base.sweep.max_trials)
        return self._task_function(sweep.run(cells, composer))


@dataclass
class ScalemarkSweeperConf:
    _target_: str = "hydra_plugins.scalemark_sweeper.plugin.ScalemarkSweeper"
    params: dict[str, str] = field(default_factory=dict)  # axis -> sweep, as on the command line


ConfigStore.instance().store(group="hydra/sweeper", name="scalemark", node=ScalemarkSweeperConf, provider="scalemark")
