"""Puts a table into words: who is fastest where, what more GPUs bring, and what is unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis.pivot import by_hosts
from analysis.results import NOT_REPORTED, Origin, Result
from analysis.scaling.crossovers import Lead, crossovers, leads
from analysis.scaling.paying import added
from analysis.tables.table import Table
from analysis.text.numbers import number
from analysis.text.ties import LEVEL_UP_TO, tied_text, undecided
from scalemark.records.devices import DeviceKind
from scalemark.records.outcomes import Outcome
from scalemark.text.wording import counted, listed, shortened

CLEARLY = 1.02  # times a speed-up: less of a difference is not worth a sentence
_MOST_LISTED = 6
_ENDED = {  # of one trial, and of several
    Outcome.FAILED: ("failed", "failed"),
    Outcome.OUT_OF_MEMORY: ("ran out of memory", "ran out of memory"),
    Outcome.TIMED_OUT: ("timed out", "timed out"),
    Outcome.HUNG: ("hung", "hung"),
    Outcome.INTERRUPTED: ("was interrupted", "were interrupted"),
    Outcome.UNSUPPORTED: ("cannot run there", "cannot run there"),
    Outcome.INVALID: ("has no number that may be quoted", "have no number that may be quoted"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Sentences about one table."""

    fastest: tuple[str, ...]  # a sentence per number of GPUs
    # speed-up and efficiency at the most GPUs, crossovers, whether more still pay
    scaling: tuple[str, ...]
    doubts: tuple[str, ...]  # what failed, also in part, and what is suspect

    @property
    def sentences(self) -> tuple[str, ...]:
        return (*self.fastest, *self.scaling, *self.doubts)


def summarize(table: Table) -> Summary:
    """Summarize any table, each number of hosts by itself.

    Sentences are about GPUs only where they are down or across, against one another axis.
    """
    fastest: list[str] = []
    scaling: list[str] = []
    if table.environment.is_simulated:
        fastest.append("Simulated by a cost model, not measured.")
    for part in by_hosts(table):
        axes = {*part.rows_by, *part.columns_by}
        if all(result.throughput is None for result in part.results):
            fastest.append("There is no number that may be quoted.")
        elif axes == {"strategy", "num_gpus"}:
            led = leads(part)
            fastest += _fastest(part, led)
            scaling += _scaling(part, led)
        elif axes == {"model", "num_gpus"}:
            scaling += _of_models(part)
    return Summary(
        fastest=tuple(dict.fromkeys(fastest)),
        scaling=tuple(scaling),
        doubts=tuple(_doubts(table)),
    )


def _curve(results: Sequence[Result], axis: str, value: object) -> list[Result]:
    """Return those that have a number, by number of GPUs."""
    found = [one for one in results if one.throughput is not None and one.axes[axis] == value]
    return sorted(found, key=lambda one: one.num_gpus)


def _of_models(table: Table) -> Iterator[str]:
    """Models do not compete: say what each of them brings on the most GPUs."""
    for model in dict.fromkeys(result.axes["model"] for result in table.results):
        curve = _curve(table.results, "model", model)
        if not curve:
            continue
        result, speed_up = curve[-1], ""
        if result.num_gpus > 1:
            speed_up = ", no run to compare with"
            if result.speed_up is not None and result.baseline is not None:
                speed_up = f", {result.speed_up:.2f}x of {result.baseline.width}"
            if result.efficiency is not None:
                speed_up = f"{speed_up}: an efficiency of {result.efficiency:.0%}"
        yield f"{model}: {quoted(result)} on {table.counted(result.num_gpus)}{speed_up}."


def _fastest(table: Table, led: Sequence[Lead]) -> Iterator[str]:
    apart = [result for result in table.results if result.trains_apart]
    together = [result for result in table.results if not result.trains_apart]
    if led and len({result.strategy for result in together or apart}) == 1:
        yield _only(table, led)
    else:
        for lead in led:
            yield f"On {table.counted(lead.num_gpus)} {_leading(lead)}."
    able = [one for one in apart if one.throughput is not None]
    if together and able:
        most = max(able, key=lambda one: one.num_gpus)
        yield (
            f"{most.strategy} is the ceiling and leads nowhere, for each of its replicas trains "
            f"a model of its own: {quoted(most)} on {table.counted(most.num_gpus)}."
        )


def _only(table: Table, led: Sequence[Lead]) -> str:
    strategy = led[0].strategy
    numbers = listed([_throughput(lead.best.result) for lead in led])
    where = listed([*(str(lead.num_gpus) for lead in led[:-1]), table.counted(led[-1].num_gpus)])
    text = f"{numbers} {table.unit} on {where}"
    if table.environment.origin.is_ours:
        others = {result.strategy for result in table.results} - {strategy}
        among = "Of those that train one model only" if others else "Only"
        return f"{among} {strategy} was run: {text}."
    if strategy == NOT_REPORTED:
        return f"{text}; the source does not name the strategy."
    return f"Of {strategy} alone: {text}."


def _leading(lead: Lead) -> str:
    """Say who leads, with what, and how sure that is."""
    best = lead.best.result
    is_published = best.environment.origin is Origin.PUBLISHED
    is_ours = best.environment.origin.is_ours
    if lead.ahead is None:
        only = "completed with" if is_ours else "has a figure,"
        return f"only {lead.strategy} {only} {quoted(best)}"
    if is_published:
        return f"{lead.strategy} has the highest figure, {quoted(best)}"
    doubts = undecided(lead.unknown, lead.out, can_repeat=is_ours)
    if lead.tied:
        by_name = {cell.result.strategy: cell.result for cell in lead.others}
        tied = [by_name[name] for name in lead.tied]
        numbers = listed([quoted(one) for one in (best, *tied)])
        return "; ".join([f"{tied_text(listed(lead.top), best, tied)} ({numbers})", *doubts])
    if doubts and (level := _level(lead)):
        names = listed([lead.strategy, *level])
        return "; ".join([f"{names} have the same number, {quoted(best)}", *doubts])
    if doubts:
        return "; ".join([f"{lead.strategy} leads with {quoted(best)}", *doubts])
    able = [cell.result for cell in lead.others if cell.result.throughput is not None]
    second = max(able, key=lambda one: one.throughput or 0.0).strategy
    return f"{lead.strategy} is fastest with {quoted(best)}, {lead.ahead - 1:.0%} ahead of {second}"


def _level(lead: Lead) -> list[str]:
    """Return those that have the number of the first, though a single run is not conclusive."""
    most = lead.best.result.throughput or 0.0
    return [
        cell.result.strategy
        for cell in lead.others
        if cell.result.strategy in lead.unknown
        and most < LEVEL_UP_TO * (cell.result.throughput or 0.0)
    ]


def _scaling(table: Table, led: Sequence[Lead]) -> Iterator[str]:
    if led and led[-1].num_gpus > 1:
        last = led[-1]
        best = last.best.result
        yield _speed_up(table, best)
        others = [cell.result for cell in last.others if cell.result.speed_up is not None]
        widest = max(others, key=lambda result: result.speed_up or 0.0, default=best)
        if best.speed_up and (widest.speed_up or 0.0) > CLEARLY * best.speed_up:
            yield (
                f"{widest.strategy} has the largest speed-up there: {widest.speed_up:.2f}x, from "
                "a slower start."
            )
        curve = _curve(table.results, "strategy", best.strategy)
        if len(curve) > 1:
            yield _last_step(table, curve)
    yield from (change.text(table.counted) for change in crossovers(led))


def _speed_up(table: Table, best: Result) -> str:
    where = table.counted(best.num_gpus)
    if best.speed_up is None or best.baseline is None:
        return (
            f"No speed-up of {best.strategy} on {where}: it has no number on 1 to compare with "
            "(--baseline fewest takes another)."
        )
    against = f"{best.baseline.strategy} on {best.baseline.width}"
    if best.efficiency is None:
        return (
            f"On {where} {best.strategy} reaches {best.speed_up:.2f}x the {best.unit} of {against}."
        )
    return (
        f"On {where} {best.strategy} reaches {best.speed_up:.2f}x of {against}: an efficiency of "
        f"{best.efficiency:.0%}."
    )


def _last_step(table: Table, curve: Sequence[Result]) -> str:
    """Say whether the last GPUs added pay for the fastest on the most."""
    first, before, last = curve[0], *curve[-2:]
    step = added(first, before, last)
    name, where = last.strategy, f"from {before.num_gpus} to {table.counted(last.num_gpus)}"
    numbers = f"{_throughput(before)} to {_throughput(last)} {last.unit}"
    if last.counts_steps:
        return f"Going {where} changes {name} from {numbers}, {step.gain:.2f}x."
    if table.environment.device_kind is DeviceKind.CPU_DEVICE:
        tie = ", a tie" if step.is_tie else ""
        return (
            f"Going {where} makes {name} {step.gain:.2f}x as fast{tie}; whether it pays is not "
            "said: CPU devices share the machine's cores."
        )
    if step.is_tie:
        return f"Going {where} is a tie for {name}: {numbers}, {step.gain:.2f}x."
    going = f"{'Going' if step.is_sure else 'Perhaps going'} {where}"
    if step.gain < 1:
        return f"{going} makes {name} slower: {numbers}."
    pays = "still pays" if step.pays else "hardly pays"
    return f"{going} {pays} for {name}: {numbers}, a marginal efficiency of {step.share:.0%}."


def _throughput(result: Result) -> str:
    return number(result.throughput or 0.0, exactly=result.environment.origin is Origin.PUBLISHED)


def quoted(result: Result) -> str:
    """Return `142 images/s (suspect)`."""
    text = f"{_throughput(result)} {result.unit}"
    if result.is_valid:
        return text
    return f"{text} ({'suspect' if result.environment.origin.is_ours else 'in doubt'})"


def failed_repeats(result: Result) -> str:
    """Return `2 of 3: hung, invalid` for a result that has a number."""
    ways = dict.fromkeys(outcome.replace("_", " ") for outcome in result.failed)
    return f"{len(result.failed)} of {len(result.failed) + len(result.repeats)}: {', '.join(ways)}"


def _doubts(table: Table) -> Iterator[str]:
    results = table.results
    shown = [result for result in results if result.throughput is not None]
    failed = Counter(result.outcome for result in results if result.throughput is None)
    for outcome, count in failed.most_common():
        ended = _ENDED[Outcome(outcome)][count > 1]
        which = [_name(result) for result in results if result.outcome == outcome]
        of_all = f"{count} of {counted(len(results), 'trial')}"
        yield f"{of_all} {ended}: {listed(shortened(which, _MOST_LISTED))}."
    if partly := [f"{_name(one)} ({failed_repeats(one)})" for one in shown if one.failed]:
        which = shortened(partly, _MOST_LISTED)
        yield f"Repeats without a number in {counted(len(partly), 'trial')}: {listed(which)}."
    if suspect := [_name(result) for result in shown if not result.is_valid]:
        what = "in doubt: the source leaves open what was run"
        if table.environment.origin.is_ours:
            what = f"suspect: {listed(shortened(suspect, _MOST_LISTED))}"
        is_are = "is" if len(suspect) == 1 else "are"
        yield f"{len(suspect)} of {counted(len(shown), 'number')} {is_are} {what}."


def _name(result: Result) -> str:
    return f"{result.strategy} on {result.width}"
