"""The ablation of a trial: other trials that differ from it in one thing, to be subtracted.

```
  1 GPU ─► N independent ─► N with reduction ─► real data ─► distortions
    contention      communication          input       input
               ─► over fast links ─►                         between several hosts
       communication        network
```
Beside them stand the same but for steps per call, batch, or model=trivial.
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
"""The model whose step has nothing but what every step costs."""

PLANTED_LINK = "link_mbit"
"""The injected rate of links between hosts."""

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
"""Axes that set the time of a step."""
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
    """Return the axes of a trial whose replicas train apart."""
    name = next(name for name, one in VARIABLE_UPDATES.items() if not one.exchanges)
    abilities = VARIABLE_UPDATES[name]
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
    """A trial that would say more."""

    rung: Rung
    command: str  # that would make it; empty where there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Rungs:
    """The trials around one target."""

    target: Result
    found: Mapping[Rung, Result]
    missing: tuple[Missing, ...]
    own: Rung  # of the ladder, what the target itself is

    def has_meaning(self, rung: Rung) -> bool:
        """Return whether there could be one: it is found, or missing."""
        return rung in self.found or any(one.rung is rung for one in self.missing)

    @property
    def trials(self) -> dict[Rung, Result]:
        """Each trial once, by its last rung: it may be several."""
        last = {}
        for rung in Rung:
            if rung in self.found:
                last[self.found[rung].trial_id] = rung
        return {rung: self.found[rung] for rung in last.values()}


class Ladder:
    """Finds rungs among all results: those of one environment are never compared with another's."""

    def __init__(self, results: Iterable[Result]) -> None:
        self._by_identity: dict[object, list[Result]] = defaultdict(list)
        self._but_for: dict[object, list[Result]] = defaultdict(list)  # one axis
        self._floors: dict[object, list[Result]] = defaultdict(list)
        for result in results:
            if result.throughput is not None and result.axes["batch_size"]:
                self._add(result)

    def _add(self, result: Result) -> None:
        place = result.place.key
        self._by_identity[place, _identity(result.axes)].append(result)
        for axis in _VARIED:
            self._but_for[place, axis, _identity(result.axes, without=axis)].append(result)
        if result.axes["model"] == FLOOR:
            self._floors[place, _kind_of_floor(result.axes)].append(result)

    def around(self, target: Result) -> Rungs:
        """Find the rungs of a result that has a number."""
        own = _own(target.axes)
        found: dict[Rung, Result] = {own: target}
        missing = []
        for rung in (*LADDER[: LADDER.index(own)], Rung.MANY_STEPS, Rung.LARGER_BATCH, Rung.FLOOR):
            if not _has_meaning(rung, target):
                continue
            if result := self._find(rung, target):
                found[rung] = result
            else:
                missing.append(Missing(rung=rung, command=command(rung, target)))
        if Rung.ALONE not in found and reads(target.axes):
            alone = self._best(_with(target.axes, {"num_gpus": 1, "hosts": 1}), target)
            if alone is not None:
                found[Rung.ALONE_READING] = alone
        return Rungs(target=target, found=found, missing=tuple(missing), own=own)

    def _find(self, rung: Rung, target: Result) -> Result | None:
        on_one = SYNTHETIC | {"num_gpus": 1, "hosts": 1}
        if rung is Rung.MANY_STEPS:
            return self._like(target, SYNTHETIC, "steps_per_execution")
        if rung is Rung.LARGER_BATCH:
            apart = self._like(target, _changes(rung, target), "batch_size")
            return apart or self._like(target, on_one, "batch_size")
        if rung is Rung.FLOOR:
            return self._floor(target)
        ways = [_changes(rung, target)]
        # On one replica most strategies exchange nothing, and published figures have no other.
        if rung is Rung.ALONE:
            variables_on = target.axes["local_parameter_device"]
            # With variables on the CPU one replica, too, fetches them from there: then copies on
            # the GPU go first, whose reductions are all the same on one replica.
            if variables_on == "cpu":
                copies = on_one | exchanging_nothing() | {"variable_update": DEFAULT_UPDATE}
                reduces = VARIABLE_UPDATES[DEFAULT_UPDATE].all_reduces
                ways += [copies | {"all_reduce": name} for name in reduces]
            ways.append(on_one)
            if target.num_gpus == 1 and variables_on == "gpu":
                ways.reverse()  # its variables are where it computes: it is alone itself
        for changes in ways:
            if result := self._best(_with(target.axes, changes), target):
                return result
        return None

    def _best(self, axes: Mapping[str, Any], target: Result) -> Result | None:
        """Return the trial with the most repeats, one without idle injected faults first."""
        identity = _identity(axes)
        if identity == _identity(target.axes):
            return target
        here = self._by_identity.get((target.place.key, identity), ())
        return max(here, key=lambda one: (_is_plain(one), len(one.repeats)), default=None)

    def _like(self, target: Result, changes: Mapping[str, Any], axis: str) -> Result | None:
        """Return the target with these changes, but with the next larger value of one axis."""
        axes = _with(target.axes, changes)
        alike = self._but_for[target.place.key, axis, _identity(axes, without=axis)]
        larger = [one for one in alike if one.axes.get(axis, 0) > axes.get(axis, 0)]
        return min(
            larger,
            key=lambda one: (one.axes[axis], not _is_plain(one), -len(one.repeats)),
            default=None,
        )

    def _floor(self, target: Result) -> Result | None:
        """Return the fastest of its kind, whatever its images: they hardly count there."""
        axes = _with(target.axes, _changes(Rung.FLOOR, target))
        alike = self._floors[target.place.key, _kind_of_floor(axes)]
        plain = [one for one in alike if _is_plain(one)]
        return min(plain or alike, key=_step_s, default=None)


def _step_s(result: Result) -> float:
    return float(result.num_gpus * result.axes["batch_size"] / (result.throughput or 1))


def command(rung: Rung, target: Result) -> str:
    """Return the command that makes the trial; empty for published figures."""
    if target.place.origin is Origin.PUBLISHED:
        return ""
    axes = _with(target.axes, _changes(rung, target))
    if rung is Rung.MANY_STEPS:
        axes["steps_per_execution"] = MANY_STEPS * target.axes["steps_per_execution"]
    if rung is Rung.LARGER_BATCH:
        axes["batch_size"] = 2 * target.axes["batch_size"]
    # The batch of each replica is known, whatever the target scaled.
    wanted = {name: axes[name] for name in AXES} | {"scaling": "weak"}
    return overrides.command(replace(target.spec, **wanted), target.place.hardware)


def _own(axes: Mapping[str, Any]) -> Rung:
    if axes.get("distortions"):
        return Rung.DISTORTING
    return Rung.READING if reads(axes) else Rung.REDUCING


def reads(axes: Mapping[str, Any]) -> bool:
    """Return whether it has an input to wait for."""
    return not str(axes["data"]).startswith("synthetic")


def _has_meaning(rung: Rung, target: Result) -> bool:
    axes = target.axes
    if rung is Rung.INDEPENDENT:
        return bool(axes["num_gpus"] > 1)  # of one it is the one alone
    # Hosts that are processes of one machine have no network between them but the injected one.
    if rung is Rung.FAST_LINKS:
        is_slowed = PLANTED_LINK in read_planted(axes.get("planted", ""))
        return several_hosts(axes) and (is_slowed or not target.is_on_one_machine)
    if rung is Rung.MANY_STEPS:
        # Sources report no steps per call.
        return bool(axes.get("steps_per_execution", MANY_STEPS) < MANY_STEPS)
    if rung in (Rung.LARGER_BATCH, Rung.FLOOR):
        return str(axes["model"]) != FLOOR
    return True


def several_hosts(axes: Mapping[str, Any]) -> bool:
    """Return whether it ran over several hosts; for published figures see `analysis.hosts_told`."""
    return bool(axes.get("hosts", 1) > 1)


def is_on_one_host(rung: Rung, target: Result) -> bool:
    """Return whether it is several replicas on one host, of a target over several."""
    changes = _changes(rung, target)
    return several_hosts(target.axes) and changes.get("hosts") == 1 and changes.get("num_gpus") != 1


def _changes(rung: Rung, target: Result) -> dict[str, Any]:
    """Return the axes that make that rung, or a lower one, of a target."""
    apart = SYNTHETIC | exchanging_nothing()
    changes: dict[Rung, dict[str, Any]] = {
        Rung.ALONE: apart | {"num_gpus": 1},
        Rung.INDEPENDENT: apart | _on_one_host(target),
        Rung.FAST_LINKS: SYNTHETIC | _over_fast_links(target),
        Rung.REDUCING: SYNTHETIC,
        Rung.READING: {"distortions": False},
        Rung.MANY_STEPS: SYNTHETIC,
        Rung.LARGER_BATCH: apart | {"num_gpus": 1},
        Rung.FLOOR: apart | _on_one_host(target) | {"model": FLOOR},
    }
    return changes[rung]


def _on_one_host(target: Result) -> dict[str, Any]:
    """Return as many replicas as a host has; all, where hosts are processes of one machine."""
    if not several_hosts(target.axes) or target.is_on_one_machine:
        return {"hosts": 1}
    return {"hosts": 1, "num_gpus": target.axes["num_gpus"] // target.axes["hosts"]}


def _over_fast_links(target: Result) -> dict[str, Any]:
    injected = read_planted(target.axes.get("planted", ""))
    if injected.pop(PLANTED_LINK, None) is None:
        return _on_one_host(target)
    return {"planted": planted_text(injected)}


def _with(axes: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Change the axes that there are: published figures have few."""
    return _settled(dict(axes) | {axis: value for axis, value in changes.items() if axis in axes})


def _settled(axes: Mapping[str, Any]) -> dict[str, Any]:
    """Put it on one host where it can be on no more, and drop faults that have nothing to slow."""
    settled = dict(axes)
    # One replica, and replicas each for itself, are on one host.
    is_of_one_host = axes["num_gpus"] == 1 or trains_apart(axes["variable_update"])
    if is_of_one_host and "hosts" in settled:
        settled["hosts"] = 1
    if injected := read_planted(settled.get("planted", "")):
        if not reads(settled):
            injected.pop("input_s", None)
        if is_of_one_host:
            injected.pop("reduction_s", None)
        if not several_hosts(settled):
            injected.pop(PLANTED_LINK, None)
        settled["planted"] = planted_text(injected)
    return settled


def _is_plain(result: Result) -> bool:
    """Return whether every injected fault has an effect there, unlike a slow synthetic input."""
    return bool(result.axes.get("planted", "") == _settled(result.axes).get("planted", ""))


def _kind_of_floor(axes: Mapping[str, Any]) -> tuple[object, ...]:
    settled = _settled(axes)
    return tuple(settled.get(axis) for axis in _OF_THE_FLOOR)


def _identity(axes: Mapping[str, Any], without: str = "") -> tuple[object, ...]:
    """Return what is equal for trials whose steps are the same work, but for one axis.

    Effort and seeds do not matter.
    """
    settled = _settled(axes)
    compared = [axis for axis in COMPARED if axis in settled] + free_names(settled)
    return tuple((axis, settled[axis]) for axis in compared if axis != without)
