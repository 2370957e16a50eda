"""Concludes which strategy leads for models with few and with many parameters for their work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from analysis.conclusions.cases import PUBLISHED_MARGIN, model, throughput_text
from analysis.conclusions.conclusion import Conclusion
from analysis.conclusions.sizes import FEW, MANY, UNKNOWN, size_class
from analysis.pivot import pivot
from analysis.results import Origin, Result
from analysis.scaling.crossovers import Lead, leads
from analysis.text.ties import tied_text, undecided

_SWITCHES = ("gradient_repacking", "compact_gradients", "relaxed", "reports", "staged_vars")


def leading(results: Sequence[Result]) -> Iterator[Conclusion]:
    """Yield one for each environment, class of models, number of GPUs above 1, and of hosts."""
    grouped: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for environment in dict.fromkeys(result.environment.key for result in results):
        grouped |= {(environment, size): [] for size in (FEW, MANY, UNKNOWN)}
    for result in results:
        grouped[result.environment.key, size_class(result)].append(result)
    for (_, size), of in grouped.items():
        names = ", ".join(sorted({model(result) for result in of}))
        yield from _of_class(of, size.format(names))


def _of_class(results: Sequence[Result], what: str) -> Iterator[Conclusion]:
    led: dict[tuple[int, int], list[Lead]] = defaultdict(list)
    for table in pivot(results):
        for lead in leads(table):
            if lead.num_gpus > 1 and lead.others:
                led[lead.num_gpus, lead.best.result.hosts].append(lead)
    for _, of in sorted(led.items()):
        best = of[0].best.result
        settings = [_setting(lead.best.result) for lead in of]
        shared = [one for one in settings[0] if all(one in setting for setting in settings)]
        under = f" in {', '.join(shared)}" if shared else ""
        texts = [
            _text(lead, [one for one in setting if one not in shared])
            for lead, setting in zip(of, settings, strict=True)
        ]
        yield Conclusion(
            topic="leading",
            environment=best.environment,
            sentence=f"On {best.counted}{under}, of models with {what}: {'; '.join(texts)}.",
            rows=tuple(cell.result for lead in of for cell in (lead.best, *lead.others)),
        )


def _text(lead: Lead, setting: Sequence[str]) -> str:
    """`setting` is what distinguishes its table from the others of the sentence."""
    others = sorted((cell.result for cell in lead.others), key=_throughput, reverse=True)
    failed = [f"{one.strategy} {one.ended}" for one in others if not one.throughput]
    without = f" ({', '.join(failed)})" if failed else ""
    under = f" ({', '.join(setting)})" if setting else ""
    ahead = _leading(lead, [one for one in others if one.throughput])
    return f"{model(lead.best.result)}{under}: {ahead}{without}"


def _leading(lead: Lead, others: Sequence[Result]) -> str:
    """`others` have numbers, the fastest first."""
    best = lead.best.result
    if not others:
        return f"only {best.strategy} has a number"
    if tied := [one for one in others if _is_tied(lead, one)]:
        names = " and ".join(one.strategy for one in (best, *tied))
        numbers = ", ".join(throughput_text(one) for one in (best, *tied))
        return f"{tied_text(names, best, tied)} ({numbers} {best.unit})"
    ahead = _throughput(best) / _throughput(others[0]) - 1
    is_published = best.environment.origin is Origin.PUBLISHED
    leads = f"{best.strategy} leads with {throughput_text(best)} {best.unit}"
    doubts = undecided(() if is_published else lead.unknown, lead.out)
    return "; ".join([f"{leads}, {ahead:.0%} ahead of {others[0].strategy}", *doubts])


def _is_tied(lead: Lead, other: Result) -> bool:
    best = lead.best.result
    if best.environment.origin is Origin.PUBLISHED:
        return _throughput(best) <= (1 + PUBLISHED_MARGIN) * _throughput(other)
    return other.strategy in lead.tied


def _throughput(result: Result) -> float:
    return result.throughput or 0.0


def _setting(result: Result) -> list[str]:
    """Return what distinguishes its table from others, without the model."""
    axes = result.axes
    found = [axes["precision"], f"{axes['data']} data"]
    if axes["batch_size"] is not None:
        found.append(f"batch size {axes['batch_size']}")
    return found + [f"{name} {axes[name]}" for name in _SWITCHES if axes.get(name)]
