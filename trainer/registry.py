"""Finds the file that owns a name: the folder is the registry."""

from importlib import import_module
from types import ModuleType

from scalemark.abilities import names
from trainer.errors import UnsupportedTrialError


def load(folder: str, name: str) -> ModuleType:
    """Import `trainer/<folder>/<name>.py`.

    Raises UnsupportedTrialError, listing the choices, when there is no such file.
    """
    choices = names(f"trainer/{folder}")
    if name not in choices:
        raise UnsupportedTrialError(
            f"{name!r} is not in trainer/{folder}/; choose one of {', '.join(choices)}"
        )
    return import_module(f"trainer.{folder}.{name}")
