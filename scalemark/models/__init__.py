"""The models, a file for each family: its `MODELS` are `name -> definition`.

A definition takes the model's sizes, whose defaults are the published ones, and returns logits in
the language of `scalemark.layers`; its other parameters tell members of the family apart.
`conf/model/NAME.yaml` holds the defaults for training it.
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from inspect import signature
from pathlib import Path
from pkgutil import iter_modules
from typing import TypeAlias

from scalemark.layers import Masked, Plain, SizeError, Tensor, TooSmallError, network_of

Definition: TypeAlias = Callable[..., Tensor]

SIZES = {"image_px": "images", "seq_len": "tokens", "num_classes": "classes"}
"""The sizes of models, which are axes, and what a model takes that has the size."""

DEFAULTS = Path(__file__).resolve().parents[2] / "conf" / "model"


class ModelError(ValueError):
    """There is no such model, or none of these sizes. The text says what there is."""


@cache
def definitions() -> Mapping[str, Definition]:
    """Return all definitions by name, sorted."""
    by_name: dict[str, Definition] = {}
    for family in iter_modules(__path__):
        for name, definition in import_module(f"{__name__}.{family.name}").MODELS.items():
            if name in by_name:
                raise ModelError(f"{name}: defined twice, again in {family.name}.py")
            by_name[name] = definition
    return dict(sorted(by_name.items()))


@cache
def trainable() -> frozenset[str]:
    """Return the names of the models that have defaults for training."""
    return frozenset(path.stem for path in DEFAULTS.glob("*.yaml"))


@cache
def published_sizes(name: str) -> Mapping[str, int]:
    """Return those SIZES that a model takes, with their usual values."""
    parameters = signature(_definition(name)).parameters
    return {size: parameters[size].default for size in SIZES if size in parameters}


@cache
def define(name: str, **sizes: int | None) -> Tensor:
    """Return the logits of a model of these SIZES; those left out, 0 or None are as published.

    Raises ModelError when there is no such model, it does not take a size, or the image is too
    small or the sequence too long for it.
    """
    definition, known = _definition(name), published_sizes(name)
    given = {size: value for size, value in sizes.items() if value}
    for size, value in given.items():
        if size not in known:
            raise ModelError(f"{size}={value}: {name} takes no {SIZES[size]}; leave it out")
    try:
        return definition(**given)
    except TooSmallError:
        raise ModelError(
            f"image_px={given['image_px']}: {name} needs at least {_least_px(definition)}"
        ) from None
    except SizeError as error:
        raise ModelError(f"model={name}: {error}") from None


def takes_tokens(logits: Tensor) -> bool:
    """Return whether a model reads sequences of tokens; others read images."""
    return network_of(logits)[0].layer is Plain.TOKENS


def masks_every(logits: Tensor) -> int:
    """Return k where a model guesses every k-th token; 0 where it predicts the one after each."""
    for tensor in network_of(logits):
        if isinstance(tensor.layer, Masked):
            return tensor.layer.every
    return 0


def can_recompute(logits: Tensor) -> bool:
    """Return whether the definition says what recompute=true keeps."""
    return any(tensor.layer is Plain.KEPT for tensor in network_of(logits))


def _definition(name: str) -> Definition:
    if name not in definitions():
        raise ModelError(
            f"model={name}: no file in scalemark/models/ defines it; defined are "
            f"{', '.join(definitions())}"
        )
    return definitions()[name]


@cache
def _least_px(definition: Definition) -> int:
    image_px = 1
    while True:
        try:
            definition(image_px=image_px)
            return image_px
        except TooSmallError:
            image_px += 1
