"""Our composition of trials from overrides, as a sweep has it, without a command."""

from collections.abc import Iterator
from contextlib import contextmanager

from hydra import initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode

from conf.schema import register
from sweeper.grid.compose import Composer
from tests.conf.test_resolve import FOLDER


@contextmanager
def composing(*overrides: str) -> Iterator[tuple[Composer, ConfigLoader]]:
    """A composer of a sweep with these overrides, and the loader that expands its grids."""
    register()
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        hydra = GlobalHydra.instance().hydra
        base = hydra.compose_config("config", list(overrides), run_mode=RunMode.MULTIRUN)
        HydraConfig.instance().set_config(base)
        yield Composer(hydra.config_loader, base), hydra.config_loader
