"""Lets Hydra take `model=my_model.py:build` like a file of conf/model/, with defaults of its own.

Nothing is listed here, so that help and `glob(*)` show the files of conf/model/ alone; whether the
reference leads to a model is checked when the trial is resolved.
"""

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

_GROUP = "model/"
_SCHEME = "own-model"
DEFAULTS = {"batch_size": 32, "cpu_batch_size": 8, "learning_rate": 0.01}
"""The defaults of every model of a user's own: its file is not run before its trials."""


class OwnModels(ConfigSource):
    """A config for every name of the group `model` that has a colon in it."""

    @staticmethod
    def scheme() -> str:
        return _SCHEME

    def load_config(self, config_path: str) -> ConfigResult:
        values = {
            "name": config_path.removeprefix(_GROUP),
            "num_classes": 0,
            "image_px": 0,
            "cpu_image_px": 0,
            **DEFAULTS,
        }
        return ConfigResult(
            provider=self.provider,
            path=f"{_SCHEME}://",
            config=OmegaConf.create(values),
            header={"package": None},
        )

    def is_group(self, config_path: str) -> bool:
        return False

    def is_config(self, config_path: str) -> bool:
        return config_path.startswith(_GROUP) and ":" in config_path

    def available(self) -> bool:
        return True

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        return []


class OwnModelsSearchPath(SearchPathPlugin):
    """Adds the source behind conf/, whose files come first."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        search_path.append("scalemark", f"{_SCHEME}://")
