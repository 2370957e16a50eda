"""Sorts trials into races: trials that differ in what races alone, in the strategy unless the user
says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scalemark.records.free_axes import PREFIX
from scalemark.records.strategies import STRATEGY_AXES, strategy_name
from scalemark.records.trial import AXES, TrialSpec, all_axes, width_name
from sweeper.errors import SweepRefusedError

STRATEGY = "strategy"  # in sweep.race_over: variable_update, local_parameter_device and all_reduce


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """Trials of which one shall be found the fastest."""

    label: str  # for people: what they share, as far as it tells them from other races
    specs: tuple[TrialSpec, ...]  # two or more, in the order of the plan
    trial_ids: tuple[str, ...]  # of these
    names: tuple[str, ...]  # for people: what tells each from the others


def axes_that_race(race_over: Sequence[str]) -> frozenset[str]:
    """Of `sweep.race_over`. Raises SweepRefusedError for what is no axis, and for none."""
    if unknown := [
        name for name in race_over if name not in (STRATEGY, *AXES) and not name.startswith(PREFIX)
    ]:
        raise SweepRefusedError(
            f"sweep.race_over={unknown[0]}: wanted {STRATEGY}, or axes out of {', '.join(AXES)}"
        )
    if not race_over:
        raise SweepRefusedError(
            f"sweep.race_over=[]: nothing would race; name axes, or leave it out for [{STRATEGY}]"
        )
    named = frozenset(race_over)
    return named - {STRATEGY} | (frozenset(STRATEGY_AXES) if STRATEGY in race_over else frozenset())


def sort_into_races(specs: Sequence[TrialSpec], race_over: Sequence[str]) -> list[Race]:
    """In the order of the plan, without trials that have nobody to race against. Raises
    SweepRefusedError as `axes_that_race`.
    """
    racing = axes_that_race(race_over)
    known = all_axes(specs)
    for name in race_over:
        if name.startswith(PREFIX) and name not in known:
            raise SweepRefusedError(
                f"sweep.race_over={name}: no trial has such an axis; there are "
                f"{STRATEGY}, {', '.join(known)}"
            )
    shared = [name for name in known if name not in racing]
    groups: dict[tuple[object, ...], list[TrialSpec]] = {}
    for spec in specs:
        groups.setdefault(tuple(map(spec.axes.get, shared)), []).append(spec)
    crowds = [group for group in groups.values() if len(group) > 1]
    telling = _telling([group[0] for group in crowds], shared)
    return [
        Race(
            label=_label(group[0], telling, racing),
            specs=tuple(group),
            trial_ids=tuple(spec.trial_id for spec in group),
            names=_names(group, racing),
        )
        for group in crowds
    ]


def _telling(specs: Sequence[TrialSpec], axes: Sequence[str]) -> list[str]:
    """Those that vary among trials of one model: what each model has of its own tells nothing."""
    by_model: dict[str, list[TrialSpec]] = {}
    for spec in specs:
        by_model.setdefault(spec.model, []).append(spec)
    found = {axis for of_model in by_model.values() for axis in _varying(of_model, axes)}
    return [axis for axis in axes if axis in found]


def _varying(specs: Sequence[TrialSpec], axes: Sequence[str]) -> list[str]:
    return [axis for axis in axes if len({spec.axes.get(axis) for spec in specs}) > 1]


def _label(spec: TrialSpec, telling: Sequence[str], racing: frozenset[str]) -> str:
    """Model, GPU count and hosts, unless they race, and what else tells races apart."""
    place = (
        ""
        if "num_gpus" in racing
        else width_name(spec.num_gpus, 1 if "hosts" in racing else spec.hosts)
    )
    named = "-".join(filter(None, ["" if "model" in racing else spec.model, place]))
    named_already = {"model", "num_gpus"} | ({"hosts"} if place else set())
    others = (f"{axis}={spec.axes.get(axis)}" for axis in telling if axis not in named_already)
    return " ".join(filter(None, [named, *others])) or "of all"


def _names(specs: Sequence[TrialSpec], racing: frozenset[str]) -> tuple[str, ...]:
    """The article's name of a strategy, where strategies differ, and the other axes in which these
    do.
    """
    differing = _varying(specs, sorted(racing))
    others = [axis for axis in differing if axis not in STRATEGY_AXES]
    has_strategies = len(others) < len(differing)

    def name(spec: TrialSpec) -> str:
        strategy = strategy_name(spec.variable_update, spec.local_parameter_device, spec.all_reduce)
        return " ".join(
            [
                *([strategy] if has_strategies else []),
                *(f"{axis}={spec.axes.get(axis)}" for axis in others),
            ]
        )

    return tuple(map(name, specs))
