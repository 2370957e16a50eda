"""Which trials tell where the time of another one goes: those that differ from it in one thing.

```
  1 GPU ─► N independent ─► N with reduction ─► real data ─► distortions        beside them, the same but for
    contention      communication          input       input               steps per call, batch, model=trivial
               ─► over fast links ─►                         between several hosts
       communication        network
```
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import Any

from analysis.results import Origin, Result
from scalemark.abilities import DEFAULT_UPDATE, VARIABLE_UPDATES, trains_apart
from scalemark.records import overrides
from scalemark.records.planted import planted_text, read_planted
from scalemark.records.trial import AXES, free_names

FLOOR = "trivial"
"""The model whose step is nothing but what every step costs."""

PLANTED_LINK = "link_mbit"
"""Of what is planted, the rate of links between hosts."""

MANY_STEPS = 10  # per call: what a call costs is then a tenth


class Rung(StrEnum):
    """What a trial is to a target, which may be itself one of them."""

    ALONE = "alone"  # one replica, synthetic data, nothing exchanged
    INDEPENDENT = "independent"  # as many replicas as the target, each for itself
    # the target's own strategy on synthetic data, where no slow network between hosts is in its way
    FAST_LINKS = "fast links"
    REDUCING = "reducing"  # the target's own strategy, on synthetic data
    # one replica with the target's own data: where nothing better is known
    ALONE_READING = "alone, reading"
    READING = "reading"  # its own data, without distortions
    DISTORTING = "distorting"
    MANY_STEPS = "many steps"  # on synthetic data, many steps per call
    LARGER_BATCH = "larger batch"  # on one replica
    FLOOR = "floor"  # the trivial model, each replica for itself


LADDER = (
    Rung.ALONE,
    Rung.INDEPENDENT,
    Rung.FAST_LINKS,
    Rung.REDUCING,
    Rung.READING,
    Rung.DISTORTING,
)
"""Each has one thing more than the one before."""

SYNTHETIC = {
    "data": "synthetic",
    "data_dir": "",
    "distortions": False,
    "cache": True,
    "data_threads": 0,
    "prefetch": 2,
}
COMPARED = tuple(axis.name for axis in AXES.values() if axis.sets_step_time)
"""Axes of a trial that its steps depend on."""
_VARIED = ("steps_per_execution", "batch_size")
_OF_THE_FLOOR = (
    "model",
    "num_gpus",
    "data",
    "variable_update",
    "steps_per_execution",
    "planted",
    "precision",
    "xla",
)


@cache
def exchanging_nothing() -> dict[str, Any]:
    """What makes of a trial one whose replicas train apart."""
    name, abilities = next(
        (name, one) for name, one in VARIABLE_UPDATES.items() if not one.exchanges
    )
    return {
        "hosts": 1,
        "variable_update": name,
        "local_parameter_device": abilities.local_parameter_devices[0],
        "all_reduce": abilities.all_reduces[0],
        "staged_vars": False,
        "gradient_repacking": 0,
        "compact_gradients": False,
        "loss_scale": "none",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A trial that would tell more."""

    rung: Rung
    command: str  # that would make it; empty where there is none
    elsewhere: str = ""  # another place that has it, whose numbers do not count here


@dataclass(frozen=True, slots=True, kw_only=True)
class Rungs:
    """Around one target."""

    target: Result
    found: Mapping[Rung, Result]
    missing: tuple[Missing, ...]
    own: Rung  # of the ladder, what the target itself is

    def has_meaning(self, rung: Rung) -> bool:
        """Whether there could be one: it is found, or missing."""
        return rung in self.found or any(one.rung is rung for one in self.missing)

    @property
    def trials(self) -> dict[Rung, Result]:
        """Each once: one may be several rungs."""
        rung_of = {
            result.trial_id: rung
            for rung, result in sorted(
                self.found.items(), key=lambda item: list(Rung).index(item[0])
            )
        }
        return {rung: self.found[rung] for rung in rung_of.values()}


class Ladder:
    """Finds rungs among all results: those of one place are never compared with another's."""

    def __init__(self, results: Iterable[Result]) -> None:
        self._by_identity: dict[object, list[Result]] = defaultdict(list)
        self._but_for: dict[object, list[Result]] = defaultdict(list)  # one axis, and in one place
        self._floors: dict[object, list[Result]] = defaultdict(list)
        for result in results:
            if result.throughput is not None and result.axes["batch_size"]:
                self._add(result)

    def _add(self, result: Result) -> None:
        self._by_identity[_identity(result.axes)].append(result)
        for axis in _VARIED:
            self._but_for[result.place.key, axis, _identity(result.axes, without=axis)].append(
                result
            )
        if result.axes["model"] == FLOOR:
            self._floors[result.place.key, _kind_of_floor(result.axes)].append(result)

    def around(self, target: Result) -> Rungs:
        """Of a result that has a number."""
        own = _own(target.axes)
        found: dict[Rung, Result] = {own: target}
        missing = []
        for rung in (*LADDER[: LADDER.index(own)], Rung.MANY_STEPS, Rung.LARGER_BATCH, Rung.FLOOR):
            if not _has_meaning(rung, target):
                continue
            if result := self._find(rung, target):
                found[rung] = result
            else:
                missing.append(self._missing(rung, target))
        if (
            Rung.ALONE not in found
            and reads(target.axes)
            and (alone := self._best(_with(target.axes, {"num_gpus": 1, "hosts": 1}), target))
        ):
            found[Rung.ALONE_READING] = alone
        return Rungs(target=target, found=found, missing=tuple(missing), own=own)

    def _find(self, rung: Rung, target: Result) -> Result | None:
        if rung is Rung.MANY_STEPS:
            return self._like(target, SYNTHETIC, "steps_per_execution")
        if rung is Rung.LARGER_BATCH:
            return self._like(
                target, SYNTHETIC | exchanging_nothing() | {"num_gpus": 1}, "batch_size"
            ) or self._like(target, SYNTHETIC | {"num_gpus": 1, "hosts": 1}, "batch_size")
        if rung is Rung.FLOOR:
            return self._floor(target)
        ways = [_changes(rung, target)]
        # on one replica most strategies exchange nothing, and published figures have no other
        if rung is Rung.ALONE:
            own = SYNTHETIC | {"num_gpus": 1, "hosts": 1}
            # one replica, too, fetches its variables from there
            if target.axes["local_parameter_device"] == "cpu":
                copies = own | exchanging_nothing() | {"variable_update": DEFAULT_UPDATE}
                # all the same on one replica
                reduces = VARIABLE_UPDATES[DEFAULT_UPDATE].all_reduces
                ways += [copies | {"all_reduce": name} for name in reduces]
            ways.append(own)
            if target.num_gpus == 1 and target.axes["local_parameter_device"] == "gpu":
                ways.reverse()  # its variables are where it computes: it is alone itself
        for changes in ways:
            if result := self._best(_with(target.axes, changes), target):
                return result
        return None

    def _best(self, axes: Mapping[str, Any], target: Result) -> Result | None:
        """Of equal trials in the target's place the one with the most repeats, of those with
        nothing idle planted first.
        """
        if _identity(axes) == _identity(target.axes):
            return target
        here = [
            one
            for one in self._by_identity.get(_identity(axes), ())
            if one.place.key == target.place.key
        ]
        return max(here, key=lambda one: (_is_plain(one), len(one.repeats)), default=None)

    def _like(self, target: Result, changes: Mapping[str, Any], axis: str) -> Result | None:
        """Equal to the target with these changes, but with the next larger value of one axis."""
        axes = _with(target.axes, changes)
        alike = self._but_for[target.place.key, axis, _identity(axes, without=axis)]
        larger = [one for one in alike if one.axes.get(axis, 0) > axes.get(axis, 0)]
        return min(
            larger,
            key=lambda one: (one.axes[axis], not _is_plain(one), -len(one.repeats)),
            default=None,
        )

    def _floor(self, target: Result) -> Result | None:
        """The fastest of its kind, whatever its images: they hardly count there."""
        axes = _with(target.axes, _changes(Rung.FLOOR, target))
        alike = self._floors[target.place.key, _kind_of_floor(axes)]
        plain = [one for one in alike if _is_plain(one)] or alike
        return min(
            plain,
            key=lambda one: one.num_gpus * one.axes["batch_size"] / (one.throughput or 1),
            default=None,
        )

    def _missing(self, rung: Rung, target: Result) -> Missing:
        elsewhere = ""
        if rung in LADDER:
            others = self._by_identity.get(
                _identity(_with(target.axes, _changes(rung, target))), ()
            )
            elsewhere = next((f"{one.place.host} ({one.place.versions})" for one in others), "")
        return Missing(rung=rung, command=command(rung, target), elsewhere=elsewhere)


def command(rung: Rung, target: Result) -> str:
    """That makes the trial, on a machine like the target's; empty for published figures, whose
    machine is not here.
    """
    if target.place.origin is Origin.PUBLISHED:
        return ""
    axes = _with(target.axes, _changes(rung, target))
    if rung is Rung.MANY_STEPS:
        axes["steps_per_execution"] = MANY_STEPS * target.axes["steps_per_execution"]
    if rung is Rung.LARGER_BATCH:
        axes["batch_size"] = 2 * target.axes["batch_size"]
    spec = target.spec
    told = {name: axes[name] for name in AXES}
    return overrides.command(replace(spec, **told | {"scaling": "weak"}), target.place.hardware)


def _own(axes: Mapping[str, Any]) -> Rung:
    if axes.get("distortions"):
        return Rung.DISTORTING
    if reads(axes):
        return Rung.READING
    return Rung.REDUCING


def reads(axes: Mapping[str, Any]) -> bool:
    """It has an input to wait for."""
    return not str(axes["data"]).startswith("synthetic")


def _has_meaning(rung: Rung, target: Result) -> bool:
    axes = target.axes
    if rung is Rung.INDEPENDENT:
        return bool(axes["num_gpus"] > 1)  # of one it is the one alone
    # hosts that are processes of one machine have no network between them but the planted one
    if rung is Rung.FAST_LINKS:
        return several_hosts(axes) and (_links_are_planted(axes) or not target.is_on_one_machine)
    if rung is Rung.MANY_STEPS:
        # sources tell of no steps per call
        return bool(axes.get("steps_per_execution", MANY_STEPS) < MANY_STEPS)
    if rung in (Rung.LARGER_BATCH, Rung.FLOOR):
        return str(axes["model"]) != FLOOR
    return True


def several_hosts(axes: Mapping[str, Any]) -> bool:
    """Of published figures only their own words tell, see `analysis.hosts_told`."""
    return bool(axes.get("hosts", 1) > 1)


def is_on_one_host(rung: Rung, target: Result) -> bool:
    """Several replicas of a target over several hosts."""
    changes = _changes(rung, target)
    return several_hosts(target.axes) and changes.get("hosts") == 1 and changes.get("num_gpus") != 1


def _links_are_planted(axes: Mapping[str, Any]) -> bool:
    return PLANTED_LINK in read_planted(axes.get("planted", ""))


def _changes(rung: Rung, target: Result) -> dict[str, Any]:
    """What makes a target that rung, or a lower one."""
    changes: dict[Rung, dict[str, Any]] = {
        Rung.ALONE: SYNTHETIC | exchanging_nothing() | {"num_gpus": 1},
        Rung.INDEPENDENT: SYNTHETIC | exchanging_nothing() | _on_one_host(target),
        Rung.FAST_LINKS: SYNTHETIC | _over_fast_links(target),
        Rung.REDUCING: SYNTHETIC,
        Rung.READING: {"distortions": False},
        Rung.DISTORTING: {},
        Rung.MANY_STEPS: SYNTHETIC,
        Rung.LARGER_BATCH: SYNTHETIC | exchanging_nothing() | {"num_gpus": 1},
        Rung.FLOOR: SYNTHETIC | exchanging_nothing() | _on_one_host(target) | {"model": FLOOR},
    }
    return changes[rung]


def _on_one_host(target: Result) -> dict[str, Any]:
    """As many replicas as one of its hosts has; where its hosts are processes of one machine, that
    has all of them.
    """
    if not several_hosts(target.axes) or target.is_on_one_machine:
        return {"hosts": 1}
    return {"hosts": 1, "num_gpus": target.axes["num_gpus"] // target.axes["hosts"]}


def _over_fast_links(target: Result) -> dict[str, Any]:
    planted = read_planted(target.axes.get("planted", ""))
    if planted.pop(PLANTED_LINK, None) is None:
        return _on_one_host(target)
    return {"planted": planted_text(planted)}


def _with(axes: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Published figures have few of the axes."""
    return _settled(dict(axes) | {axis: value for axis, value in changes.items() if axis in axes})


def _settled(axes: Mapping[str, Any]) -> dict[str, Any]:
    """On one host where it can be on no more, and without what is planted where there is nothing to
    slow.
    """
    told = dict(axes)
    if told.get("hosts", 1) > 1 and _is_of_one_host(told):
        told["hosts"] = 1
    if planted := read_planted(told.get("planted", "")):
        if not reads(told):
            planted.pop("input_s", None)
        if _is_of_one_host(told):
            planted.pop("reduction_s", None)
        if not several_hosts(told):
            planted.pop(PLANTED_LINK, None)
        told["planted"] = planted_text(planted)
    return told


def _is_plain(result: Result) -> bool:
    """Nothing is planted in it that has no effect there: another trial's leftovers, as a slow input
    of synthetic data.
    """
    return bool(result.axes.get("planted", "") == _settled(result.axes).get("planted", ""))


def _is_of_one_host(axes: Mapping[str, Any]) -> bool:
    """One replica, and replicas each for itself, are on no more."""
    return bool(axes["num_gpus"] == 1 or trains_apart(axes["variable_update"]))


def _kind_of_floor(axes: Mapping[str, Any]) -> tuple[object, ...]:
    told = _settled(axes)
    return tuple(told.get(axis) for axis in _OF_THE_FLOOR)


def _identity(axes: Mapping[str, Any], without: str = "") -> tuple[object, ...]:
    """Equal for trials whose steps are the same work done in the same way, but for one axis; effort
    and seeds do not matter.
    """
    told = _settled(axes)
    compared = [axis for axis in COMPARED if axis in told] + free_names(told)
    return tuple((axis, told[axis]) for axis in compared if axis != without)
