"""In which order models scale, beside the bytes that they have to share per operation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from analysis.conclusions.cases import by_efficiency, is_synthetic, model, percent
from analysis.conclusions.conclusion import Conclusion
from analysis.conclusions.sizes import mb_per_gflop, network_of
from analysis.results import Result
from analysis.text.titles import named
from scalemark.records.trial import unusual_axes
from scalemark.stats.welch import Relation

_UNSURE = (Relation.TIE, Relation.UNKNOWN)


def conclude(results: Sequence[Result]) -> Iterator[Conclusion]:
    for best in scaled(results):
        if len(best) > 1:
            place, first = best[0].place, best[0]
            under = "".join(f", {named(axis, first.axes[axis])}" for axis in _unusual(first))
            yield Conclusion(
                topic="models",
                place=place,
                sentence=f"On {first.counted} with {first.axes['data']} data in {first.axes['precision']}{under} models "
                f"scale in this order, each with its most efficient strategy at its largest batch: {'; '.join(map(_told, best))}."
                f"{_ties(best)}",
                rows=tuple(best),
            )


def scaled(results: Sequence[Result], num_gpus: int | None = None) -> list[list[Result]]:
    """Per place, number of hosts, data, precision and what is unusual, on so many GPUs, or on the
    most that two models ran on.

    Of each model the most efficient result at its largest batch, the most efficient first.
    """
    groups: dict[tuple[object, ...], dict[int, list[Result]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for result in results:
        if (
            result.efficiency
            and not result.trains_apart
            and result.num_gpus > 1
            and num_gpus in (None, result.num_gpus)
        ):
            axes = result.axes
            unusual = tuple(axes[axis] for axis in _unusual(result))
            key = (
                result.place.key,
                result.hosts,
                is_synthetic(result),
                axes["data"],
                axes["precision"],
                *_unusual(result),
                unusual,
            )
            groups[key][result.num_gpus].append(result)
    found = []
    for by_gpus in groups.values():
        able = [num for num, of in by_gpus.items() if len({model(one) for one in of}) > 1]
        if able:
            found.append(_best(by_gpus[max(able)]))
    return found


def _unusual(result: Result) -> tuple[str, ...]:
    """Axes that change how efficient any model is; sources tell of none."""
    if not result.place.origin.is_ours:
        return ()
    return tuple(axis for axis in unusual_axes(result.axes) if axis not in _TOLD_APART)


# by what is told anyway, or of no matter
_TOLD_APART = ("hosts", "data_dir", "loss_scale", "profile")


def _best(results: Sequence[Result]) -> list[Result]:
    by_model: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        by_model[model(result)].append(result)
    best = []
    for of in by_model.values():
        largest = max(int(one.axes["batch_size"] or 0) for one in of)
        best.append(
            max(
                (one for one in of if (one.axes["batch_size"] or 0) == largest),
                key=lambda one: one.efficiency or 0.0,
            )
        )
    return sorted(best, key=lambda one: -(one.efficiency or 0.0))


def _told(result: Result) -> str:
    net, batch_size = network_of(result), result.axes["batch_size"]
    shared = (
        f", {mb_per_gflop(net) / batch_size:.3f} MB to share per GFLOP"
        if net and batch_size
        else ""
    )
    return f"{model(result)} {percent(result)} ({result.strategy}, batch size {batch_size}{shared})"


def _ties(best: Sequence[Result]) -> str:
    pairs = [(one, other, by_efficiency(one, other)) for one, other in pairwise(best)]
    unsure = [
        f"{model(one)} and {model(other)}"
        for one, other, found in pairs
        if found and found.relation in _UNSURE
    ]
    return f" Not told apart: {', '.join(unsure)}." if unsure else ""
