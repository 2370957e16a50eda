"""An earlier trial with what differs, as a sweep takes it: `from=TRIAL batch_size=128`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scalemark.models import ModelError, published_sizes
from scalemark.records.overrides import hydra_value
from scalemark.records.strategies import STRATEGY_AXES, STRATEGY_NAMES
from scalemark.records.trial import AXES

SETTING = "from"
ID_DIGITS = 8  # of a trial's id in commands, as tables show it

OF_PRECISION = ("loss_scale", "data_format")  # what a precision decides, unless it is given

_STRATEGY = ("strategy", *STRATEGY_AXES)
# what is given anew -> what an earlier trial had beside it, and another choice decides again
_DECIDED_BY = {
    "strategy": (*_STRATEGY, "staged_vars"),
    "variable_update": (*_STRATEGY, "staged_vars"),
    "precision": OF_PRECISION,
    "optimizer": ("learning_rate", "momentum", "weight_decay"),
    "model": ("learning_rate", "data_format"),
    "data": ("data.dir", "distortions", "cache"),
    "engine": ("engine", "hardware"),
    "hardware": ("hardware",),
    "command": ("command.run", "command.name", "read"),
    "command.run": ("command.name",),
    "command.read": ("read",),
}
_ON_CPU_DEVICES = "hardware=cpu"
# another precision, and the loss scale that it then has by itself
_LOSS_SCALES = (
    ("precision=fp16", "loss_scale=dynamic"),
    ("precision=fp32", "loss_scale=none"),
    ("precision=tf32", "loss_scale=none"),
    ("precision=bf16", "loss_scale=none"),
)


def with_changes(trial: Sequence[str], changes: Iterable[str]) -> list[str]:
    """Return the overrides of a trial with the changes in their places, new ones last.

    A change also takes the place of what depends on it: another precision has a loss scale of its
    own, another optimizer a learning rate, and a strategy is another name for three axes.
    """
    changed = {key_of(change): change for change in changes}
    gone = {key for name in changed for key in _DECIDED_BY.get(name, ())}
    if _ON_CPU_DEVICES in trial:
        gone.discard("data_format")  # it is the same for all
    if "model" in changed:
        gone.update(_sizes_not_of(changed["model"].partition("=")[2].split(",")))
    parts = [part for override in trial for part in _apart(override, changed)]
    found = {}
    for part in parts:
        key = key_of(part)
        if key not in gone and key.split(".")[0] not in gone:
            found[key] = part
    for key, change in changed.items():
        known = found.get(key, "")
        # a free axis that the trial has is changed, and not added again
        added = "+" if known.startswith("+") and not change.startswith(("+", "~")) else ""
        found[key] = added + change
    return list(found.values())


def key_of(override: str) -> str:
    """Return what an override sets."""
    return override.partition("=")[0].lstrip("+~")


def _sizes_not_of(models: Iterable[str]) -> set[str]:
    """Return the sizes of inputs that not all of the models take."""
    found = set()
    for size in ("image_px", "seq_len"):
        try:
            if not all(size in published_sizes(model) for model in models):
                found.add(size)
        except ModelError:  # of a user's own; composing refuses one that is not known
            found.add(size)
    return found


def _apart(override: str, changed: Iterable[str]) -> list[str]:
    """Return a strategy as its axes, where one of these is changed."""
    key, _, name = override.partition("=")
    if key != "strategy" or not {"local_parameter_device", "all_reduce"}.intersection(changed):
        return [override]
    values = next((axes for axes, of in STRATEGY_NAMES.items() if of == name), None)
    if values is None:
        return [override]
    return [f"{axis}={value}" for axis, value in zip(STRATEGY_AXES, values, strict=True)]


def changes_to(wanted: Sequence[str], trial: Sequence[str]) -> list[str] | None:
    """Return the changes that make one trial's overrides of another's; None where there are none.

    `with_changes` inverts it, but for axes at their defaults.
    """
    there = set(trial)
    found = [one for one in wanted if one not in there]
    keys = {key_of(one) for one in wanted}
    for key in map(key_of, trial):
        if key in keys or key in _STRATEGY:
            continue
        if key not in AXES or AXES[key].default is None:
            return None
        found.append(f"{key}={hydra_value(AXES[key].default)}")
    usual = set(found).difference(wanted)
    implied = {scale for precision, scale in _LOSS_SCALES if precision in found}
    found = [one for one in found if one not in implied]
    made = with_changes(trial, found)
    found += [one for one in wanted if one not in (*made, *implied)]
    made = with_changes(trial, found)
    return found if set(made).difference(usual) == set(wanted).difference(implied) else None
