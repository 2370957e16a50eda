"""Finds the ablations of a trial: other trials that differ from it in one thing, to be subtracted.

```
  1 GPU -> N independent -> N with reduction -> real data -> distortions
    contention        communication         input        input
```
Beside them stand the same trial with more steps per call, a larger batch, or model=trivial.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from operator import itemgetter
from typing import Any

from analysis import again
from analysis.results import Result, items_per_step
from scalemark.abilities import DEFAULT_UPDATE, VARIABLE_UPDATES, least_replicas, trains_apart
from scalemark.own_model import is_own
from scalemark.records.measurement import IMAGES, injected_text, read_injected
from scalemark.records.references import Origin
from scalemark.records.trial import AXES, free_names

FLOOR = "trivial"  # the model whose step has nothing but what every step costs
MANY_STEPS = 10  # per call: what a call costs is then a tenth


class Ablation(StrEnum):
    """The relation of a trial to a target, which may be an ablation itself."""

    ALONE = "alone"  # one replica, synthetic data, nothing exchanged
    INDEPENDENT = "independent"  # as many replicas as the target, each for itself
    REDUCING = "reducing"  # the target's own strategy, on synthetic data
    # one replica with the target's own data: where nothing better is known
    ALONE_READING = "alone, reading"
    READING = "reading"  # its own data, without distortions
    DISTORTING = "distorting"
    MANY_STEPS = "many steps"  # on synthetic data, many steps per call
    LARGER_BATCH = "larger batch"  # on one replica
    FLOOR = "floor"  # the trivial model, each replica for itself
    TAKEN_APART = "taken apart"  # a user's program whose steps are timed from inside


ABLATION_ORDER = (
    Ablation.ALONE,
    Ablation.INDEPENDENT,
    Ablation.REDUCING,
    Ablation.READING,
    Ablation.DISTORTING,
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
_ON_ONE = {"num_gpus": 1, "hosts": 1}
_OF_THE_FLOOR = (
    *("model", "num_gpus", "data", "variable_update", "steps_per_execution", "injected"),
    *("precision", "xla"),
)


@cache
def exchanging_nothing() -> dict[str, Any]:
    """Return the axes of a trial whose replicas train apart."""
    name = next(name for name, update in VARIABLE_UPDATES.items() if not update.exchanges)
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
class Ablations:
    """The trials around one target."""

    target: Result
    results: Mapping[Ablation, Result]
    missing: tuple[Ablation, ...]  # those that would say more
    own: Ablation  # what the target itself is


class AblationFinder:
    """Finds ablations among all results.

    Results of one environment are never compared with another's, nor those that count one item with
    those that count another.
    """

    def __init__(self, results: Iterable[Result]) -> None:
        # by what is the same of them, all axes or all but some; the best of its like first
        self._alike: dict[object, list[Result]] = defaultdict(list)
        self._alone: dict[object, Result | None] = {}
        self.results: list[Result] = []  # those that have a number, and a known step
        for result in results:
            if result.throughput is None or not items_per_step(result):
                continue
            self.results.append(result)
            where = _where(result)
            for without in ((), ("steps_per_execution",), ("batch_size",)):
                self._alike[where, _identity(result.axes, without)].append(result)
            if result.num_gpus == 1:
                self._alike[where, _identity(result.axes, exchanging_nothing())].append(result)
            if result.axes["model"] == FLOOR:
                self._alike[where, _kind_of_floor(result.axes)].append(result)
        for alike in self._alike.values():
            alike.sort(key=_order)

    def around(self, target: Result) -> Ablations:
        """Find the ablations of a result that has a number."""
        own = Ablation.REDUCING
        if target.axes.get("distortions"):
            own = Ablation.DISTORTING
        elif reads(target.axes):
            own = Ablation.READING
        results: dict[Ablation, Result] = {own: target}
        missing = []
        lower = ABLATION_ORDER[: ABLATION_ORDER.index(own)]
        for ablation in (*lower, Ablation.MANY_STEPS, Ablation.LARGER_BATCH, Ablation.FLOOR):
            if not _has_meaning(ablation, target):
                continue
            result = self._find(ablation, target)
            if result is not None:
                results[ablation] = result
            else:
                missing.append(ablation)
        if Ablation.ALONE not in results and reads(target.axes):
            alone = self._best(_with(target.axes, _ON_ONE), target)
            if alone is not None:
                results[Ablation.ALONE_READING] = alone
        return Ablations(target=target, results=results, missing=tuple(missing), own=own)

    def alone(self, target: Result) -> Result | None:
        """Find one replica of it alone, on synthetic data.

        On one replica most strategies exchange nothing, and published figures have no other. One
        whose variables are on the CPU fetches them in every step, so copies on the GPU go first.
        """
        identity = _identity(target.axes)
        key = _where(target), identity
        if key not in self._alone:
            self._alone[key] = self._find_alone(target)
        best = self._alone[key]
        if best is not None and _identity(best.axes) == identity:
            return target
        return best

    def _find_alone(self, target: Result) -> Result | None:
        own = _with(target.axes, SYNTHETIC | _ON_ONE)
        own_identity = _identity(own)
        ranked = []
        for result in self._like(own, target, exchanging_nothing()):
            is_own = _identity(result.axes) == own_identity
            rank = _rank_alone(result, target, is_own=is_own)
            if rank is not None:
                ranked.append((rank, result))
        return min(ranked, key=itemgetter(0), default=(0, None))[1]

    def _find(self, ablation: Ablation, target: Result) -> Result | None:
        axes = _with(target.axes, _changes(ablation, target))
        if ablation is Ablation.ALONE:
            return self.alone(target)
        if ablation is Ablation.MANY_STEPS:
            return self._with_larger(axes, target, "steps_per_execution")
        if ablation is Ablation.FLOOR:
            # the fastest of its kind, whatever its images: they hardly count there
            floors = self._alike.get((_where(target), _kind_of_floor(axes)), ())
            ranked = []
            for floor in floors:
                step_s = items_per_step(floor) / (floor.throughput or 1)
                ranked.append((not _is_plain(floor), step_s, floor))
            if ranked:
                return min(ranked, key=lambda entry: entry[:2])[2]
            return None
        if ablation is Ablation.LARGER_BATCH:
            # subtracted from the one alone: what else differs would count as fixed
            alone = self.alone(target)
            same = None
            if alone:
                same = self._with_larger(alone.axes, target, "batch_size")
            return same or self._with_larger(axes, target, "batch_size")
        return self._best(axes, target)

    def _like(
        self, axes: Mapping[str, Any], target: Result, without: Collection[str] = ()
    ) -> Sequence[Result]:
        return self._alike.get((_where(target), _identity(axes, without)), ())

    def _best(self, axes: Mapping[str, Any], target: Result) -> Result | None:
        """Return the trial without idle faults, then of most repeats, then with timed replicas."""
        if _identity(axes) == _identity(target.axes):
            return target
        return next(iter(self._like(axes, target)), None)

    def _with_larger(self, axes: Mapping[str, Any], target: Result, axis: str) -> Result | None:
        """Return the trial that has these axes, but the next larger value of one of them."""
        larger = []
        for result in self._like(axes, target, (axis,)):
            if result.axes.get(axis, 0) > axes.get(axis, 0):
                larger.append(result)
        return min(larger, key=lambda result: result.axes[axis], default=None)


def command(ablation: Ablation, target: Result) -> str:
    """Return the command that makes the trial; empty for published figures."""
    if target.environment.origin is Origin.PUBLISHED:
        return ""
    axes = _with(target.axes, _changes(ablation, target))
    if ablation is Ablation.MANY_STEPS:
        axes["steps_per_execution"] = MANY_STEPS * target.axes["steps_per_execution"]
    if ablation is Ablation.LARGER_BATCH:
        axes["batch_size"] = 2 * target.axes["batch_size"]
    # The batch of each replica is known, whatever the target scaled.
    wanted = {name: axes[name] for name in AXES} | {"scaling": "weak"}
    return again.command(replace(target.spec, **wanted), [target])


def reads(axes: Mapping[str, Any]) -> bool:
    """Return whether it has an input to wait for."""
    return not str(axes["data"]).startswith("synthetic")


def _where(result: Result) -> tuple[str, str]:
    return result.environment.key, result.item


def _rank_alone(result: Result, target: Result, *, is_own: bool) -> int | None:
    """Return how well one replica stands for the target alone, 0 the best; None: not at all."""
    own_update, own_device = target.axes["variable_update"], target.axes["local_parameter_device"]
    is_on_gpu = result.axes["local_parameter_device"] == "gpu"
    if is_own and target.num_gpus == 1 and own_device == "gpu":
        return 0  # its variables are where it computes: it is alone itself
    if result.trains_apart:
        return 1
    if own_device == "cpu" and is_on_gpu and result.axes["variable_update"] == DEFAULT_UPDATE:
        return 2
    if is_own:
        return 3
    if is_on_gpu and least_replicas(own_update) > 1:
        return 4  # it cannot run on one replica itself
    return None


def _order(result: Result) -> tuple[bool, int, bool]:
    """Sort by how well a trial stands for its like, the best first."""
    return not _is_plain(result), -len(result.repeats), not result.axes.get("replica_times")


def has_own_loop(axes: Mapping[str, Any]) -> bool:
    """Return whether a loop of others took the steps of a trial."""
    update = VARIABLE_UPDATES.get(str(axes["variable_update"]))
    return update is not None and update.has_own_loop


def _has_meaning(ablation: Ablation, target: Result) -> bool:
    axes = target.axes
    if has_own_loop(axes):
        return False  # our loop runs them: the difference would be that of the loops
    if ablation is Ablation.INDEPENDENT:
        return bool(axes["num_gpus"] > 1)  # of one it is the one alone
    if ablation is Ablation.MANY_STEPS:
        # Sources report no steps per call.
        return bool(axes.get("steps_per_execution", MANY_STEPS) < MANY_STEPS)
    if ablation is Ablation.FLOOR and (target.item != IMAGES or is_own(str(axes["model"]))):
        return False  # its inputs are no images of the trivial model
    if ablation in (Ablation.LARGER_BATCH, Ablation.FLOOR):
        return str(axes["model"]) != FLOOR
    return True


def _changes(ablation: Ablation, target: Result) -> dict[str, Any]:
    """Return the axes that make that ablation, or a lower one, of a target."""
    apart = SYNTHETIC | exchanging_nothing()
    if ablation in (Ablation.ALONE, Ablation.LARGER_BATCH):
        return apart | {"num_gpus": 1}
    if ablation is Ablation.INDEPENDENT:
        return apart | _on_one_host(target)
    if ablation is Ablation.FLOOR:
        return apart | _on_one_host(target) | {"model": FLOOR}
    if ablation is Ablation.READING:
        return {"distortions": False}
    return SYNTHETIC


def _on_one_host(target: Result) -> dict[str, Any]:
    """Return as many replicas as a host has; all, where hosts are processes of one machine."""
    if target.hosts == 1 or target.is_on_one_machine:
        return {"hosts": 1}
    return {"hosts": 1, "num_gpus": target.axes["num_gpus"] // target.axes["hosts"]}


def _with(axes: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Change the axes that there are: published figures have few."""
    changed = dict(axes)
    for axis, value in changes.items():
        if axis in axes:
            changed[axis] = value
    return _settled(changed)


def _settled(axes: Mapping[str, Any]) -> dict[str, Any]:
    """Put it on one host where it can be on no more, and drop faults that have nothing to slow."""
    settled = dict(axes)
    # One replica, and replicas each for itself, are on one host.
    is_of_one_host = axes["num_gpus"] == 1 or trains_apart(axes["variable_update"])
    if is_of_one_host and "hosts" in settled:
        settled["hosts"] = 1
    injected = read_injected(settled.get("injected", ""))
    if not injected:
        return settled
    idle = []
    if not reads(settled):
        idle.append("input_s")
    if is_of_one_host:
        idle.append("reduction_s")
    if injected.get("slow_replica", 0) >= axes["num_gpus"]:  # there is no such replica
        idle += ["slow_replica", "slow_replica_by"]
    for name in idle:
        injected.pop(name, None)
    settled["injected"] = injected_text(injected)
    return settled


def _is_plain(result: Result) -> bool:
    """Return whether every injected fault has an effect there, unlike a slow synthetic input."""
    return bool(result.axes.get("injected", "") == _settled(result.axes).get("injected", ""))


def _kind_of_floor(axes: Mapping[str, Any]) -> tuple[object, ...]:
    settled = _settled(axes)
    return tuple(settled.get(axis) for axis in (*_OF_THE_FLOOR, *free_names(settled)))


def _identity(axes: Mapping[str, Any], without: Collection[str] = ()) -> tuple[object, ...]:
    """Return what is equal for trials whose steps are the same work, but for some axes.

    Effort and seeds do not matter.
    """
    settled = _settled(axes)
    compared = []
    for axis in (*COMPARED, *free_names(settled)):
        if axis in settled and axis not in without:
            compared.append((axis, settled[axis]))
    return tuple(compared)
