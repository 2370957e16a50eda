"""Sorts trials into races: trials that differ in what races alone, in the strategy unless the user
says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from scalemark.records.axes import Engine
from scalemark.records.free_axes import bare_name, full_name
from scalemark.records.strategies import STRATEGY_AXES
from scalemark.records.trial import TrialSpec, all_axes, strategy_axes, width_name
from sweeper.errors import SweepRefusedError
from sweeper.grid.explain import nearest

STRATEGY = "strategy"  # in sweep.race_over: variable_update, local_parameter_device and all_reduce


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """Trials of which one shall be found the fastest."""

    label: str  # for people: what they share, as far as it tells them from other races
    trial_ids: tuple[str, ...]  # two or more, in the order of the plan
    names: tuple[str, ...]  # for people: what tells each from the others


def sort_into_races(specs: Sequence[TrialSpec], race_over: Sequence[str]) -> list[Race]:
    """Keep the order of the plan, and leave out trials without a rival.

    `race_over` names free axes with or without their prefix. Raises SweepRefusedError for what is
    no axis of these trials.
    """
    known = all_axes(specs)
    racing: set[str] = set()
    for name in race_over:
        racing.update(STRATEGY_AXES if name == STRATEGY else (_full_name(name, specs, known),))
    shared = [name for name in known if name not in racing]
    groups: dict[tuple[object, ...], list[TrialSpec]] = {}
    for spec in specs:
        axes, own = spec.axes, _own(spec, race_over)
        key = tuple(None if name in own else axes.get(name) for name in shared)
        groups.setdefault(key, []).append(spec)
    crowds = [group for group in groups.values() if len(group) > 1]
    telling = _telling([group[0] for group in crowds], shared)
    return [
        Race(
            label=_label(group[0], telling, racing | set(_own(group[0], race_over))),
            trial_ids=tuple(spec.trial_id for spec in group),
            names=_names(group, racing | set(_own(group[0], race_over))),
        )
        for group in crowds
    ]


def _full_name(name: str, specs: Sequence[TrialSpec], known: Sequence[str]) -> str:
    if (full := full_name(name, known)) in known:
        return full
    bare = [bare_name(axis) for axis in known]
    differing = ", ".join(_varying(specs, known)) or "nothing"
    raise SweepRefusedError(
        f"sweep.race_over={name}: no axis of these trials; {nearest(name, bare)}They differ in "
        f"{differing}"
    )


def _own(spec: TrialSpec, race_over: Sequence[str]) -> tuple[str, ...]:
    """Return the free axes of which the strategy of a program is the name, where these race."""
    is_of_program = spec.engine == Engine.command
    return strategy_axes(spec.axes) if is_of_program and STRATEGY in race_over else ()


def _telling(specs: Sequence[TrialSpec], axes: Sequence[str]) -> list[str]:
    """Return axes that vary among trials of one model: what each model has of its own tells
    nothing.
    """
    by_model: dict[str, list[TrialSpec]] = {}
    for spec in specs:
        by_model.setdefault(spec.model, []).append(spec)
    found: set[str] = set()
    for of_model in by_model.values():
        found.update(_varying(of_model, axes))
    return [axis for axis in axes if axis in found]


def _varying(specs: Sequence[TrialSpec], axes: Sequence[str]) -> list[str]:
    return [axis for axis in axes if len({spec.axes.get(axis) for spec in specs}) > 1]


def _label(spec: TrialSpec, telling: Sequence[str], racing: Set[str]) -> str:
    """Name model, GPU count and hosts, unless they race, and what else tells races apart."""
    named, words = {"model", "num_gpus"}, []
    if "model" not in racing:
        words.append(spec.model)
    if "num_gpus" not in racing:
        named.add("hosts")
        words.append(width_name(spec.num_gpus, 1 if "hosts" in racing else spec.hosts))
    named |= racing
    others = [f"{axis}={spec.axes.get(axis)}" for axis in telling if axis not in named]
    return " ".join(filter(None, ["-".join(words), *others])) or "of all"


def _names(specs: Sequence[TrialSpec], racing: Set[str]) -> tuple[str, ...]:
    """Return the article's names of strategies, where these differ, with the other axes that do."""
    differing = _varying(specs, sorted(racing))
    others = [axis for axis in differing if axis not in STRATEGY_AXES]
    names = []
    for spec in specs:
        words = [f"{axis}={spec.axes.get(axis)}" for axis in others]
        if len(others) < len(differing):
            words.insert(0, spec.strategy)
        names.append(" ".join(words))
    return tuple(names)
