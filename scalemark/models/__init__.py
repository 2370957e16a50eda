"""The models, a file for each family: its `MODELS` are `name -> definition`.

A definition takes the model's sizes, whose defaults are the published ones, and returns logits in
the language of `scalemark.layers`; what follows the `*` in its parameters tells members of the
family apart. `conf/model/NAME.yaml` holds the defaults for training it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from pkgutil import iter_modules
from typing import TypeAlias

from scalemark.layers import Tensor, TooSmallError

Definition: TypeAlias = Callable[..., Tensor]

DEFAULTS = Path(__file__).resolve().parents[2] / "conf" / "model"


class ModelError(ValueError):
    """There is no such model, or none of these sizes. The text says what there is."""


@cache
def definitions() -> Mapping[str, Definition]:
    """Return all definitions by name, sorted."""
    found: dict[str, Definition] = {}
    for family in iter_modules(__path__):
        for name, definition in import_module(f"{__name__}.{family.name}").MODELS.items():
            if name in found:
                raise ModelError(f"{name}: defined twice, again in {family.name}.py")
            found[name] = definition
    return dict(sorted(found.items()))


@cache
def trainable() -> frozenset[str]:
    """Return the names of the models that have defaults for training."""
    return frozenset(path.stem for path in DEFAULTS.glob("*.yaml"))


@cache
def published_sizes(name: str) -> Mapping[str, int]:
    """Return the sizes a model takes, as `image_px` and `num_classes`, with their usual values."""
    parameters = signature(_definition(name)).parameters.values()
    return {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.kind is Parameter.POSITIONAL_OR_KEYWORD
    }


def define(name: str, **sizes: int) -> Tensor:
    """Return the logits of a model; a size that is left out is the published one.

    Raises ModelError when there is no such model, or the image is too small for it.
    """
    definition = _definition(name)
    try:
        return definition(**sizes)
    except TooSmallError:
        raise ModelError(
            f"image_px={sizes['image_px']}: {name} needs at least {_least_px(definition)}"
        ) from None


def _definition(name: str) -> Definition:
    if name not in definitions():
        raise ModelError(
            f"model={name}: no file in scalemark/models/ defines it; defined are "
            f"{', '.join(definitions())}"
        )
    return definitions()[name]


def _least_px(definition: Definition) -> int:
    image_px = 1
    while True:
        try:
            definition(image_px=image_px)
            return image_px
        except TooSmallError:
            image_px += 1
