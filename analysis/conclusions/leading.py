"""Which strategy leads for models with few and with many parameters for their work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from analysis.conclusions.cases import PUBLISHED_MARGIN, model
from analysis.conclusions.conclusion import Conclusion
from analysis.conclusions.sizes import CLASSES, network_of, of_class
from analysis.pivot import pivot
from analysis.results import Origin, Result
from analysis.scaling.crossovers import Lead, leads
from analysis.text.numbers import number
from analysis.text.ties import tied_text, undecided


def conclude(results: Sequence[Result]) -> Iterator[Conclusion]:
    """Per place, class of models, number of GPUs above 1 and of hosts."""
    by_place: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        by_place[result.place.key].append(result)
    for of_place in by_place.values():
        for words, holds in CLASSES.items():
            if of := of_class(of_place, holds):
                yield from _of_class(of, words.format(_models(of)))
        if of := [result for result in of_place if network_of(result) is None]:
            yield from _of_class(of, f"layers that the cost model does not know ({_models(of)})")


def _models(results: Sequence[Result]) -> str:
    return ", ".join(sorted({model(result) for result in results}))


def _of_class(results: Sequence[Result], what: str) -> Iterator[Conclusion]:
    led: dict[tuple[int, int], list[Lead]] = defaultdict(list)
    for table in pivot(results):
        for lead in leads(table):
            if lead.num_gpus > 1 and lead.others:
                led[lead.num_gpus, lead.best.result.hosts].append(lead)
    for _, of in sorted(led.items()):
        place = of[0].best.result.place
        settings = [_setting(lead.best.result) for lead in of]
        shared = [told for told in settings[0] if all(told in setting for setting in settings)]
        under = f" in {', '.join(shared)}" if shared else ""
        told = (
            _told(lead, [one for one in setting if one not in shared])
            for lead, setting in zip(of, settings, strict=True)
        )
        yield Conclusion(
            topic="leading",
            place=place,
            sentence=(
                f"On {of[0].best.result.counted}{under}, of models with {what}: {'; '.join(told)}."
            ),
            rows=tuple(cell.result for lead in of for cell in (lead.best, *lead.others)),
        )


def _told(lead: Lead, setting: Sequence[str]) -> str:
    """`setting`: what tells its table from the others of the sentence."""
    best = lead.best.result
    others = sorted((cell.result for cell in lead.others), key=_throughput, reverse=True)
    able = [result for result in others if result.throughput]
    missing = [
        f"{one.strategy} {one.outcome.replace('_', ' ')}" for one in others if not one.throughput
    ]
    without = f" ({', '.join(missing)})" if missing else ""
    under = f" ({', '.join(setting)})" if setting else ""
    return f"{model(best)}{under}: {_leading(lead, able)}{without}"


def _leading(lead: Lead, able: Sequence[Result]) -> str:
    best = lead.best.result
    if not able:
        return f"only {best.strategy} has a number"
    if tied := [one for one in able if _is_tied(lead, one)]:
        numbers = ", ".join(number(_throughput(one)) for one in (best, *tied))
        return (
            f"{tied_text(' and '.join(one.strategy for one in (best, *tied)), best, tied)} "
            f"({numbers} images/s)"
        )
    ahead = _throughput(best) / _throughput(able[0]) - 1
    open_ = undecided(() if _is_published(best) else lead.unknown, lead.out)
    leading = f"{best.strategy} leads with {number(_throughput(best))} images/s"
    return "; ".join([f"{leading}, {ahead:.0%} ahead of {able[0].strategy}", *open_])


def _is_tied(lead: Lead, other: Result) -> bool:
    best = lead.best.result
    if not _is_published(best):
        return other.strategy in lead.tied
    return _throughput(best) <= (1 + PUBLISHED_MARGIN) * _throughput(other)


def _is_published(result: Result) -> bool:
    return result.place.origin is Origin.PUBLISHED


def _throughput(result: Result) -> float:
    return result.throughput or 0.0


def _setting(result: Result) -> list[str]:
    """What tells it from other tables, model left out."""
    axes = result.axes
    batch = [] if axes["batch_size"] is None else [f"batch size {axes['batch_size']}"]
    return [
        axes["precision"],
        f"{axes['data']} data",
        *batch,
        *(f"{name} {axes[name]}" for name in _SWITCHES if axes.get(name)),
    ]


_SWITCHES = ("gradient_repacking", "compact_gradients", "relaxed", "reports", "staged_vars")
