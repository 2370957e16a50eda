"""Lets Hydra take `hardware=NAME` of the user's settings folder, and `hardware=my_box.yaml`, like a
file of conf/hardware/.
"""

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.errors import ConfigCompositionException
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from simulator.costs.box import BrokenProfileError, own_profile_file, own_profiles, read_profile

_GROUP = "hardware"
_SCHEME = "own-hardware"


class OwnHardware(ConfigSource):
    """A config for each file of the user's own that a name of the group `hardware` leads to."""

    @staticmethod
    def scheme() -> str:
        return _SCHEME

    def load_config(self, config_path: str) -> ConfigResult:
        file = own_profile_file(_name(config_path))
        assert file is not None  # by is_config
        try:
            values = read_profile(file)
        except BrokenProfileError as error:
            raise ConfigCompositionException(str(error)) from error
        return ConfigResult(
            provider=self.provider,
            path=f"{_SCHEME}://",
            config=OmegaConf.create({"device_kind": "simulated_gpu", "profile": values}),
            header={"package": None},
        )

    def is_group(self, config_path: str) -> bool:
        return config_path == _GROUP

    def is_config(self, config_path: str) -> bool:
        if not config_path.startswith(f"{_GROUP}/"):
            return False
        file = own_profile_file(_name(config_path))
        return file is not None and file.is_file()

    def available(self) -> bool:
        return True

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        wants_files = config_path == _GROUP and results_filter in (None, ObjectType.CONFIG)
        return list(own_profiles()) if wants_files else []


def _name(config_path: str) -> str:
    return config_path.removeprefix(f"{_GROUP}/")


class OwnHardwareSearchPath(SearchPathPlugin):
    """Adds the source behind conf/, whose files come first."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        search_path.append("scalemark", f"{_SCHEME}://")
