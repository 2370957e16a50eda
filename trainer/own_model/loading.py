"""Loads a model of the user's own, `my_model.py:build`, and refuses what cannot be trained here.

```
  find and compare the file ─► import it ─► call the function ─► read what it returns ─► template
```
"""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
import tensorflow as tf

from scalemark import own_model
from scalemark.models import ModelError
from scalemark.own_model import OwnModel
from scalemark.records.trial import TrialSpec
from scalemark.text.untrusted import telling_line
from trainer.errors import UnsupportedTrialError
from trainer.own_model.returned import described, template_of
from trainer.template import Template


def load(spec: TrialSpec) -> Template:
    """Return the model that the trial names, built under the seed and precision that are set.

    Raises UnsupportedTrialError, saying what was found and what was wanted.
    """
    own = _planned(spec)
    policy = keras.mixed_precision.dtype_policy().name
    with _importing_from(own.import_folder):
        function = _function(own)
        returned = _attempt(own, f"{own.function}()", function)
        template = _attempt(
            own, "reading its model", lambda: template_of(own, returned, spec.batch_size)
        )
    if keras.mixed_precision.dtype_policy().name != policy:
        raise UnsupportedTrialError(
            f"model={own.reference}: {own.path.name} changes Keras' global dtype policy; leave "
            f"that out, precision={spec.precision} sets it"
        )
    return template


def _planned(spec: TrialSpec) -> OwnModel:
    """Return what the reference names, as long as it is what was planned."""
    folder = own_model.folder_of(os.environ)
    try:
        own = own_model.find(spec.model, folder)
    except ModelError as error:
        raise UnsupportedTrialError(f"{error} (looked for it from {folder})") from None
    if own.digest != spec.model_digest:
        raise UnsupportedTrialError(
            f"model={spec.model}: {own.path.name} is not the file that was planned: its digest is "
            f"{own.digest}, the trial says {spec.model_digest or 'none'}; run the sweep again for "
            "the file as it is now"
        )
    return own


def _function(own: OwnModel) -> Callable[[], Any]:
    module = _attempt(own, f"importing {own.path.name}", lambda: _import(own))
    if not hasattr(module, own.function):
        raise UnsupportedTrialError(
            f"model={own.reference}: {own.path.name} does not define {own.function} when it is run"
        )
    function = getattr(module, own.function)
    if isinstance(function, keras.Model) or not callable(function):
        raise UnsupportedTrialError(
            f"model={own.reference}: {own.function} is {described(function)}; wanted a function "
            "that returns a Keras model"
        )
    return function


def _import(own: OwnModel) -> ModuleType:
    """Run the file. A file named by its path gets a name that is nobody else's."""
    if not own.reference.rpartition(":")[0].endswith(".py"):
        module = import_module(own.module)
        if Path(str(module.__file__)).resolve() != own.path.resolve():
            raise ImportError(f"{own.module} is {module.__file__} here, wanted {own.path}")
        return module
    name = f"own_model_{own.module}"
    found = importlib.util.spec_from_file_location(name, own.path)
    assert found is not None  # its name ends with .py
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # where dataclasses look for the types of their fields
    found.loader.exec_module(module)
    return module


def _attempt(own: OwnModel, what: str, work: Callable[[], Any]) -> Any:
    """Do what runs the user's code; say in one sentence what it raised, and in the log all."""
    try:
        return work()
    except (UnsupportedTrialError, MemoryError, tf.errors.ResourceExhaustedError):
        raise
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        line = telling_line(str(error))
        said = f"{type(error).__name__}: {line}" if line else type(error).__name__
        raise UnsupportedTrialError(
            f"model={own.reference}: {what} raised {said}{_where(own, error)}"
        ) from error


def _where(own: OwnModel, error: BaseException) -> str:
    """Return the last line of the file that the error passed, if any."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(own.path)]
    if isinstance(error, SyntaxError) or not lines:
        return ""
    return f" ({own.path.name}, line {lines[-1]})"


@contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Let the file import what lies beside it, as when Python runs it."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
