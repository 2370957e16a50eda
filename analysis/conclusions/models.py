"""Concludes in which order models scale, beside the bytes that they share per operation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from analysis.conclusions.cases import by_efficiency, is_synthetic, model, percent
from analysis.conclusions.conclusion import Conclusion
from analysis.conclusions.sizes import mb_per_gflop, network_of
from analysis.results import Result, examples_per_step
from analysis.text.titles import named
from scalemark.records.trial import unusual_axes
from scalemark.stats.welch import Relation

# or of the model alone, as its length of sequences is
_NAMED_ANYWAY = ("hosts", "data_dir", "loss_scale", "profile", "seq_len")


def models(results: Sequence[Result]) -> Iterator[Conclusion]:
    for best in scaled(results):
        first = best[0]
        under = "".join(f", {named(axis, first.axes[axis])}" for axis in _unusual(first))
        where = f"On {first.counted} with {first.axes['data']} data in {first.axes['precision']}"
        yield Conclusion(
            topic="models",
            environment=first.environment,
            sentence=(
                f"{where}{under} models scale in this order, each with its most efficient "
                f"strategy at its largest batch: {'; '.join(_text(one) for one in best)}."
                f"{_ties(best)}"
            ),
            rows=tuple(best),
        )


def scaled(results: Sequence[Result], num_gpus: int | None = None) -> list[list[Result]]:
    """Return two or more models' most efficient results at their largest batches, best first.

    There is one list for each environment, number of hosts, data, precision and unusual setting, on
    `num_gpus`, else on the most GPUs that two models ran on.
    """
    grouped: dict[tuple[object, ...], dict[int, list[Result]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for result in results:
        if not result.efficiency or result.trains_apart or result.num_gpus == 1:
            continue
        if num_gpus in (None, result.num_gpus):
            axes = result.axes
            fixed = [axes["data"], axes["precision"], is_synthetic(result)]
            unusual = [(axis, axes[axis]) for axis in _unusual(result)]
            key = (result.environment.key, result.hosts, *fixed, *unusual)
            grouped[key][result.num_gpus].append(result)
    found = []
    for by_gpus in grouped.values():
        able = [num for num, of in by_gpus.items() if len({model(one) for one in of}) > 1]
        if able:
            found.append(_best(by_gpus[max(able)]))
    return found


def _unusual(result: Result) -> list[str]:
    """Return axes that change how efficient any model is; sources report none."""
    if not result.environment.origin.is_ours:
        return []
    return [axis for axis in unusual_axes(result.axes) if axis not in _NAMED_ANYWAY]


def _best(results: Sequence[Result]) -> list[Result]:
    best: dict[str, Result] = {}
    for result in results:
        name = model(result)
        if name not in best or _preference(best[name]) < _preference(result):
            best[name] = result
    return sorted(best.values(), key=lambda one: -(one.efficiency or 0.0))


def _preference(result: Result) -> tuple[int, float]:
    return examples_per_step(result) // result.num_gpus, result.efficiency or 0.0


def _text(result: Result) -> str:
    net, batch_size = network_of(result), result.axes["batch_size"]
    shared = ""
    if net and batch_size:
        per_gpu = examples_per_step(result) / result.num_gpus
        shared = f", {_share(mb_per_gflop(net) / per_gpu)} MB to share per GFLOP"
    batches = result.axes.get("gradient_accumulation", 1)
    batch = f"batch size {batch_size}" + (f" x {batches} micro-batches" if batches > 1 else "")
    return f"{model(result)} {percent(result)} ({result.strategy}, {batch}{shared})"


def _share(megabytes: float) -> str:
    """Format with digits where accumulation leaves little."""
    return f"{megabytes:.3f}" if megabytes >= 0.001 else f"{megabytes:.2g}"


def _ties(best: Sequence[Result]) -> str:
    ties = []
    for one, other in pairwise(best):
        found = by_efficiency(one, other)
        if found and found.relation in (Relation.TIE, Relation.UNKNOWN):
            ties.append(f"{model(one)} and {model(other)}")
    return f" Ties: {', '.join(ties)}." if ties else ""
