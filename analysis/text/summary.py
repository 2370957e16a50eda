"""What a table says, in words: who is fastest where, what more GPUs bring, and what is not
known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis.pivot import Table, by_hosts
from analysis.results import Origin, Result
from analysis.scaling.crossovers import Crossover, Lead, crossovers, leads
from analysis.scaling.paying import added
from analysis.text.numbers import number
from analysis.text.ties import tied_text, undecided
from analysis.text.wording import counted, listed, shortened
from scalemark.records.devices import DeviceKind
from scalemark.records.outcomes import Outcome

CLEARLY = 1.02  # of speed-ups: less of a difference is not worth a sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Of one table."""

    fastest: tuple[str, ...]  # a sentence per number of GPUs
    # speed-up and efficiency at the most GPUs, crossovers, whether more still pay
    scaling: tuple[str, ...]
    doubts: tuple[str, ...]  # what failed, also in part, and what is suspect

    @property
    def sentences(self) -> tuple[str, ...]:
        return (*self.fastest, *self.scaling, *self.doubts)


def summarize(table: Table) -> Summary:
    """Of any table; about GPUs only where they are down or across, against one another axis. Each
    number of hosts by itself.
    """
    told = ("Simulated by a cost model, not measured.",) if table.place.is_simulated else ()
    parts = [_of_one(part) for part in by_hosts(table)]
    return Summary(
        fastest=(*told, *dict.fromkeys(sentence for fastest, _ in parts for sentence in fastest)),
        scaling=tuple(sentence for _, scaling in parts for sentence in scaling),
        doubts=tuple(_doubts(table)),
    )


def _of_one(table: Table) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Who is fastest, and how that scales."""
    results = table.results
    axes = {*table.rows_by, *table.columns_by}
    fastest: Iterator[str] = iter(())
    scaling: Iterator[str] = iter(())
    if not any(result.throughput is not None for result in results):
        fastest = iter(["There is no number that may be quoted."])
    elif axes == {"strategy", "num_gpus"}:
        led = leads(table)
        fastest, scaling = _fastest(table, led), _scaling(table, led)
    elif axes == {"model", "num_gpus"}:
        scaling = _of_models(table)
    return tuple(fastest), tuple(scaling)


def _curve(results: Sequence[Result], axis: str, value: object) -> list[Result]:
    """By number of GPUs, those that have a number."""
    found = [one for one in results if one.throughput is not None and one.axes[axis] == value]
    return sorted(found, key=lambda one: one.num_gpus)


def _of_models(table: Table) -> Iterator[str]:
    """They do not compete: what each of them brings on the most GPUs."""
    for model in dict.fromkeys(result.axes["model"] for result in table.results):
        if curve := _curve(table.results, "model", model):
            result = curve[-1]
            speed_up = f", {_against(result)}" if result.num_gpus > 1 else ""
            yield f"{model}: {quoted(result)} on {table.counted(result.num_gpus)}{speed_up}."


def _against(result: Result) -> str:
    if result.speed_up is None or result.baseline is None:
        return "no run to compare with"
    return (
        f"{result.speed_up:.2f}x of {result.baseline.width}: an efficiency of "
        f"{result.efficiency:.0%}"
    )


def _fastest(table: Table, led: Sequence[Lead]) -> Iterator[str]:
    apart = [result for result in table.results if result.trains_apart]
    if (
        led
        and len(
            {
                result.strategy
                for result in table.results
                if result not in apart or len(apart) == len(table.results)
            }
        )
        == 1
    ):
        yield _only(table, led)
        yield from _ceiling(table)
        return
    for lead in led:
        yield f"On {table.counted(lead.num_gpus)} {_leading(lead)}."
    yield from _ceiling(table)


def _ceiling(table: Table) -> Iterator[str]:
    """What replicas reach that train a model each, beside those that share one."""
    apart = [one for one in table.results if one.trains_apart]
    if len(apart) < len(table.results) and (
        able := [one for one in apart if one.throughput is not None]
    ):
        most = max(able, key=lambda one: one.num_gpus)
        yield (
            f"{most.strategy} is the ceiling and leads nowhere, for each of its replicas trains a model of its own: "
            f"{quoted(most)} on {table.counted(most.num_gpus)}."
        )


def _only(table: Table, led: Sequence[Lead]) -> str:
    strategy = led[0].strategy
    numbers = listed([_throughput(lead.best.result) for lead in led])
    where = listed([*(str(lead.num_gpus) for lead in led[:-1]), table.counted(led[-1].num_gpus)])
    told = f"{numbers} {table.unit} on {where}"
    if table.place.origin.is_ours:
        others = {result.strategy for result in table.results} - {strategy}
        among = "Of those that train one model only" if others else "Only"
        return f"{among} {strategy} was run: {told}."
    return (
        f"{told}; of which strategy the source does not tell."
        if strategy == NOT_TOLD
        else f"Of {strategy} alone: {told}."
    )


def _leading(lead: Lead) -> str:
    """Who, with what, and how sure that is."""
    best = lead.best.result
    if lead.ahead is None:
        only = "has a figure," if best.place.origin is Origin.PUBLISHED else "completed with"
        return f"only {lead.strategy} {only} {quoted(best)}"
    if best.place.origin is Origin.PUBLISHED:
        return f"{lead.strategy} has the highest figure, {quoted(best)}"
    unknown = "; ".join(undecided(lead.unknown, lead.out))
    if lead.tied:
        of = {cell.result.strategy: cell.result for cell in lead.others}
        numbers = listed([quoted(one) for one in (best, *(of[name] for name in lead.tied))])
        told = f"{tied_text(listed(lead.top), best, [of[name] for name in lead.tied])} ({numbers})"
        return f"{told}; {unknown}" if unknown else told
    if unknown:
        return f"{lead.strategy} leads with {quoted(best)}; {unknown}"
    able = [cell.result for cell in lead.others if cell.result.throughput is not None]
    return (
        f"{lead.strategy} is fastest with {quoted(best)}, {lead.ahead - 1:.0%} ahead of "
        f"{max(able, key=_images).strategy}"
    )


def _scaling(table: Table, led: Sequence[Lead]) -> Iterator[str]:
    if not led:
        return
    last = led[-1]
    if last.num_gpus > 1:
        best = last.best.result
        yield _speed_up(table, best)
        others = [cell.result for cell in last.others if cell.result.speed_up is not None]
        widest = max(others, key=lambda result: result.speed_up or 0.0, default=best)
        if (widest.speed_up or 0.0) > CLEARLY * (best.speed_up or 0.0) and best.speed_up:
            yield (
                f"{widest.strategy} has the largest speed-up there: {widest.speed_up:.2f}x, from "
                "a slower start."
            )
        yield from _last_step(table, _curve(table.results, "strategy", best.strategy))
    yield from (change_text(table, change) for change in crossovers(led))


def change_text(table: Table, change: Crossover) -> str:
    place_of = f", in place of {change.before}" if change.before else ""
    told = f"{change.after} leads {change.span(table.counted)}{place_of}"
    return f"{told}." if change.is_certain else f"Perhaps {told}: {change.doubt}."


def _speed_up(table: Table, best: Result) -> str:
    where = table.counted(best.num_gpus)
    if best.speed_up is None or best.baseline is None:
        return (
            f"No speed-up of {best.strategy} on {where}: it has no number on 1 to compare with "
            "(--baseline fewest takes another)."
        )
    against = f"{best.baseline.strategy} on {best.baseline.width}"
    return (
        f"On {where} {best.strategy} reaches {best.speed_up:.2f}x of {against}: an efficiency of "
        f"{best.efficiency:.0%}."
    )


def _last_step(table: Table, curve: Sequence[Result]) -> Iterator[str]:
    """Of the fastest on the most GPUs, whether the last that were added pay."""
    if len(curve) < 2:
        return
    first, before, last = curve[0], *curve[-2:]
    step = added(first, before, last)
    where = f"from {before.num_gpus} to {table.counted(last.num_gpus)}"
    numbers = f"{_throughput(before)} to {_throughput(last)} {last.unit}"
    if table.place.device_kind is DeviceKind.CPU_STAND_IN:
        tie = ", which its repeats cannot tell from 1x" if step.is_tie else ""
        told = f"Going {where} makes {last.strategy} {step.gain:.2f}x as fast{tie}"
        yield f"{told}; whether it pays is not said: stand-ins share the machine's cores."
    elif step.is_tie:
        yield (
            f"Whether going {where} brings {last.strategy} anything its repeats cannot tell: "
            f"{numbers}, {step.gain:.2f}x."
        )
    else:
        going = f"{'Going' if step.is_sure else 'Perhaps going'} {where}"
        if step.gain < 1:
            yield f"{going} makes {last.strategy} slower: {numbers}."
        else:
            pays = "still pays" if step.pays else "hardly pays"
            brings = f"each that was added brings {step.share:.0%} of one before"
            yield f"{going} {pays} for {last.strategy}: {numbers}, {brings}."


def _images(result: Result) -> float:
    return result.throughput or 0.0


def _throughput(result: Result) -> str:
    return number(_images(result), exactly=result.place.origin is Origin.PUBLISHED)


def quoted(result: Result) -> str:
    """As `142 images/s (suspect)`."""
    doubt = "suspect" if result.place.origin.is_ours else "in doubt"
    return f"{_throughput(result)} {result.unit}{'' if result.is_valid else f' ({doubt})'}"


def failed_repeats(result: Result) -> str:
    """Of a result that has a number, as `2 of 3: hung, invalid`."""
    ways = dict.fromkeys(outcome.replace("_", " ") for outcome in result.failed)
    return f"{len(result.failed)} of {len(result.failed) + len(result.repeats)}: {', '.join(ways)}"


def _doubts(table: Table) -> Iterator[str]:
    results = table.results
    failed = Counter(result.outcome for result in results if result.throughput is None)
    for outcome, count in failed.most_common():
        which = [_named(result) for result in results if result.outcome == outcome]
        yield (
            f"{count} of {counted(len(results), 'trial')} {_ended(Outcome(outcome), count)}: "
            f"{_shortened(which)}."
        )
    shown = [result for result in results if result.throughput is not None]
    if partly := [
        f"{_named(result)} ({failed_repeats(result)})" for result in shown if result.failed
    ]:
        has_have = "has" if len(partly) == 1 else "have"
        yield (
            f"{counted(len(partly), 'trial')} {has_have} repeats that brought no number: "
            f"{_shortened(partly)}."
        )
    if suspect := sum(not result.is_valid for result in shown):
        is_are = "is" if suspect == 1 else "are"
        what = (
            "suspect: see the verdicts"
            if table.place.origin.is_ours
            else "in doubt: the source leaves open what was run"
        )
        yield f"{suspect} of {counted(len(shown), 'number')} {is_are} {what}."


_ENDED = {
    Outcome.FAILED: "failed",
    Outcome.OUT_OF_MEMORY: "ran out of memory",
    Outcome.TIMED_OUT: "timed out",
    Outcome.HUNG: "hung",
    Outcome.INTERRUPTED: "was interrupted",
    Outcome.UNSUPPORTED: "cannot run there",
    Outcome.INVALID: "completed without a number that may be quoted",
}

NOT_TOLD = "not told"  # of published figures the strategy
_MOST_LISTED = 6


def _ended(outcome: Outcome, count: int) -> str:
    told = _ENDED[outcome]
    return told if count == 1 else told.replace("was ", "were ", 1)


def _named(result: Result) -> str:
    return f"{result.strategy} on {result.width}"


def _shortened(names: Sequence[str]) -> str:
    return listed(shortened(names, _MOST_LISTED))
