"""Finds the file that owns a name: the folder is the registry."""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from trainer.errors import UnsupportedTrialError


def load(folder: str, name: str) -> ModuleType:
    """The module `trainer/<folder>/<name>.py`.

    Raises UnsupportedTrialError, listing the choices, when there is no such file.
    """
    choices = names(folder)
    if name not in choices:
        raise UnsupportedTrialError(
            f"{name!r} is not in trainer/{folder}/; choose one of {', '.join(choices)}"
        )
    return import_module(f"trainer.{folder}.{name}")


def names(folder: str) -> list[str]:
    """All names a folder offers, sorted."""
    return sorted(
        module.name for module in iter_modules(import_module(f"trainer.{folder}").__path__)
    )
