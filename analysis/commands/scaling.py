"""`scaling`: how many GPUs are worth using, and which strategy leads where, in words."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console

from analysis import badges, options
from analysis.advise.questions import names
from analysis.pivot import Table, over_growing_hosts, pivot
from analysis.results import BaselineRule, GlobalBatch, Result, scales_strongly, with_number
from analysis.screen import say, say_foot
from analysis.selection import Source
from analysis.titles import (
    has_interval,
    number,
    reported_notes,
    spread,
    table_facts,
    title,
    unconfirmed_notes,
)
from scalemark.cli.terminal import make_console, print_columns, print_json, reading_width
from scalemark.records.machine import DeviceKind
from scalemark.records.references import Origin
from scalemark.stats.welch import error_of_log_mean, known_ratio_interval, reach_of_sum
from scalemark.text.wording import counted, fixed, in_all, listed, shortened
from store.command_line import Db, Filters, Json, OriginOption, Sweep

PAYS_FROM = 0.5  # of what one GPU brings: each that is added should add as much, to be worth it
OVERVIEW = ("work", "strategy", "pays up to", "speed-up", "efficiency", "each more adds")
POINTS = ("strategy", "num_gpus", "throughput", "speed-up", "efficiency", "each added", "n")
_MOST_ROWS = 12
_MOST_NAMED = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedGpus:
    """The gain from more GPUs than `num_gpus`, up to `up_to`."""

    num_gpus: int
    up_to: int
    share: float  # of what each GPU of the first result brings: what each that was added does
    share_low: float | None  # 95 % CI; None where one of the three is a single run
    share_high: float | None
    is_sure: bool  # whether it pays is known


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """One number of GPUs on a curve."""

    result: Result  # with a number
    speed_up_low: float | None  # 95 % CI; None of the baseline, and where a side is a single run
    speed_up_high: float | None
    # since the point before; None of the first, and where the work of a step is unknown
    added: AddedGpus | None

    def facts(self) -> dict[str, Any]:
        """Return what --json prints of it."""
        added = self.added
        return self.result.facts() | {
            "speed_up_low": self.speed_up_low,  # 95 % CI, as everywhere below
            "speed_up_high": self.speed_up_high,
            "added_share": added and added.share,
            "added_share_low": added and added.share_low,
            "added_share_high": added and added.share_high,
            # whether the share is known to be above or below one half
            "added_is_sure": added and added.is_sure,
            "doubts": badges.of_result(self.result),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingCurve:
    """One strategy, by number of GPUs."""

    strategy: str
    points: tuple[CurvePoint, ...]  # at least one
    stops_paying: AddedGpus | None  # by all beyond; None: all that were tried pay, or it is unknown

    @property
    def doubts(self) -> list[str]:
        """Return the badges of its numbers, each once."""
        doubts: dict[str, None] = {}
        for point in self.points:
            doubts.update(dict.fromkeys(badges.of_result(point.result)))
        return list(doubts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """The answer for one model in one setting and environment."""

    table: Table
    scaling: str | None  # `strong` or `weak`; None of programs and where the batch is unknown
    # whether its numbers tell if more GPUs pay: CPU devices share the cores of one machine, and a
    # step may grow with the GPUs
    tells_what_pays: bool
    curves: tuple[ScalingCurve, ...]  # of strategies that have a number
    failures: tuple[str, ...]  # trials without a number, as `ps_cpu on 8 out of memory`

    @property
    def telling(self) -> list[ScalingCurve]:
        """Return the curves that tell whether more GPUs pay."""
        telling = []
        for curve in self.curves:
            if self.tells_what_pays and len(curve.points) > 1:
                telling.append(curve)
        return telling

    def facts(self) -> dict[str, Any]:
        """Return what --json prints of it."""
        environment = self.table.environment
        facts = {"setting": dict(self.table.setting), "environment": environment.key}
        for name in ("origin", "host", "machine", "versions", "device_kind"):
            facts[name] = getattr(environment, name)
        for name in ("scaling", "tells_what_pays", "curves", "failures"):
            facts[name] = getattr(self, name)
        facts["unit"], facts["notes"] = self.table.unit, table_facts(self.table)
        return facts | {"doubts": badges.of_environment(environment)}


def scalings(results: Sequence[Result]) -> list[Scaling]:
    """Return one answer per model, setting and environment."""
    return [_scaling(table) for table in over_growing_hosts(pivot(results))]


def curve_of(results: Sequence[Result]) -> list[Result]:
    """Order results over as many hosts by their GPUs, those that have a number.

    The fastest of each number counts, for sources tell figures apart by notes alone.
    """
    able = with_number(results)
    fastest_last = sorted(able, key=lambda result: (result.num_gpus, result.throughput))
    return list({result.num_gpus: result for result in fastest_last}.values())


def _scaling(table: Table) -> Scaling:
    results, environment = table.results, table.environment
    counts_steps = any(result.counts_steps for result in results)
    tells_what_pays = environment.device_kind is not DeviceKind.CPU_DEVICE and not counts_steps
    curves = []
    for row in table.rows:
        of_row = [cell.result for (of, _), cell in table.cells.items() if of == row]
        curve = curve_of(of_row)
        if curve:
            curves.append(_curve(curve, tells_what_pays=tells_what_pays))
    failures = []
    for result in results:
        if result.throughput is None:
            failures.append(f"{result.strategy} on {result.width} {result.ended}")
    is_unknown = not environment.origin.is_ours and table.setting.get("batch_size") is None
    scaling: str | None = "weak"
    if any(map(scales_strongly, results)):
        scaling = "strong"
    elif is_unknown or any(result.is_of_program for result in results):
        scaling = None
    return Scaling(
        table=table,
        scaling=scaling,
        tells_what_pays=tells_what_pays,
        curves=tuple(curves),
        failures=tuple(failures),
    )


def _curve(results: Sequence[Result], *, tells_what_pays: bool) -> ScalingCurve:
    points = []
    for place, result in enumerate(results):
        step, low, high = None, None, None
        if place and not result.counts_steps:
            step = added(results[0], results[place - 1], result)
        baseline = result.baseline
        if baseline is not None and baseline.trial_id != result.trial_id:
            low, high = known_ratio_interval(result.repeats, baseline.repeats)
        points.append(CurvePoint(result=result, speed_up_low=low, speed_up_high=high, added=step))
    return ScalingCurve(
        strategy=results[0].strategy,
        points=tuple(points),
        stops_paying=stop_of(results) if tells_what_pays else None,
    )


def added(first: Result, before: Result, after: Result) -> AddedGpus:
    """Compare three results of one curve that have numbers; `before` may be the first."""
    per_added = first.num_gpus / (after.num_gpus - before.num_gpus)
    share = per_added * (_rate(after) - _rate(before)) / _rate(first)
    reach = _reach(first, before, after, per_added)
    low, high = None, None
    is_sure = first.environment.origin is Origin.PUBLISHED  # what others published counts as it is
    if reach is not None:
        low, high = share - reach, share + reach
        is_sure = is_sure or (low >= PAYS_FROM) == (high >= PAYS_FROM)
    return AddedGpus(
        num_gpus=before.num_gpus,
        up_to=after.num_gpus,
        share=share,
        share_low=low,
        share_high=high,
        is_sure=is_sure,
    )


def stop_of(curve: Sequence[Result]) -> AddedGpus | None:
    """Return the fewest GPUs beyond which no number that was tried pays, and what the most add."""
    for position, before in enumerate(curve[:-1]):
        beyond = [added(curve[0], before, after) for after in curve[position + 1 :]]
        if all(step.share < PAYS_FROM for step in beyond):
            return replace(beyond[-1], is_sure=all(step.is_sure for step in beyond))
    return None


def _reach(first: Result, before: Result, after: Result, per_added: float) -> float | None:
    """Return half the interval of a share, from the errors of the logarithms of its throughputs."""
    if min(len(first.repeats), len(before.repeats), len(after.repeats)) < 2:
        return None
    # slopes of the share against each logarithm; `before` may be the first
    slopes = {first.num_gpus: 0.0, before.num_gpus: 0.0, after.num_gpus: 0.0}
    slopes[after.num_gpus] += per_added * _rate(after) / _rate(first)
    slopes[before.num_gpus] -= per_added * _rate(before) / _rate(first)
    slopes[first.num_gpus] -= per_added * (_rate(after) - _rate(before)) / _rate(first)
    errors = []
    for result in {each.num_gpus: each for each in (first, before, after)}.values():
        error = slopes[result.num_gpus] * error_of_log_mean(result.repeats)
        errors.append((error**2, len(result.repeats) - 1))
    return reach_of_sum(errors)


def _rate(result: Result) -> float:
    return result.throughput or 0.0


def headline(answers: Sequence[Scaling]) -> str:
    """Say for how many strategies more GPUs pay, and how sure that is."""
    curves: list[ScalingCurve] = []
    results: list[Result] = []
    are_ours = True
    for answer in answers:
        curves += answer.telling
        are_ours &= answer.table.environment.origin.is_ours
    if not curves:
        why = "no strategy ran on two numbers of GPUs"
        if any(len(curve.points) > 1 for answer in answers for curve in answer.curves):
            why = "a step may hold more work on more GPUs"
        kinds = {answer.table.environment.device_kind for answer in answers}
        if kinds == {DeviceKind.CPU_DEVICE}:
            why = "CPU devices share the cores of one machine"
        return f"Whether more GPUs pay is not known: {why}."
    num_stopped = 0
    for curve in curves:
        num_stopped += curve.stops_paying is not None
        results += [point.result for point in curve.points]
    what = "strategies"
    if len({curve.strategy for curve in curves}) < len(curves):
        what = "curves"
    text = f"More GPUs stop paying for {num_stopped} of {len(curves)} {what}."
    if len(curves) == 1:
        text = f"{curves[0].strategy}: {_pays(curves[0])}."
    elif not num_stopped:
        text = f"More GPUs pay for all {len(curves)} {what}, up to the most tried."
    if are_ours and any(len(result.repeats) == 1 for result in results):
        return f"{text}{badges.repeat_first(results)}"
    return text


def overview(answers: Sequence[Scaling], most: int) -> tuple[list[tuple[str, ...]], int]:
    """Return a row for each curve that tells whether more GPUs pay, and how many were left out:
    the cells of OVERVIEW, and doubts. Curves that stop paying come first where there are more than
    `most`. The work stands in the first of its rows alone.
    """
    shown: list[tuple[bool, tuple[str, ...]]] = []
    settings = [answer.table.setting for answer in answers]
    works = names(settings, [answer.table.environment for answer in answers])
    for work, answer in zip(works, answers, strict=True):
        for curve in answer.telling:
            row = (work, *_overview_row(curve), ", ".join(curve.doubts))
            shown.append((curve.stops_paying is None, row))
    if len(shown) > most:
        shown.sort(key=lambda item: item[0])
    rows: list[tuple[str, ...]] = []
    last = ""
    for _, (work, *cells) in shown[:most]:
        rows.append(("" if work == last else work, *cells))
        last = work
    return rows, len(shown) - len(rows)


def sentences(answer: Scaling) -> Iterator[str]:
    """Say what failed, how the batch grows, and what is missing."""
    if not answer.curves:
        yield "No trial has a number."
    if answer.failures:
        yield f"Without a number: {listed(shortened(answer.failures, _MOST_NAMED))}."
    batch_size = answer.table.setting.get("batch_size")
    if answer.scaling == "strong" and isinstance(batch_size, GlobalBatch):
        yield f"Strong scaling: the batch of all GPUs stays {int(batch_size)}."
    elif answer.scaling == "strong":
        yield "Strong scaling: all GPUs share one batch of constant size."
    elif answer.scaling == "weak":
        yield "Weak scaling: the batch grows with the number of GPUs."
    widths, has_speed_up = set(), False
    for curve in answer.curves:
        for point in curve.points:
            widths.add(point.result.num_gpus)
            has_speed_up |= point.result.speed_up is not None
    if len(widths) == 1:
        yield "One number of devices was tried, which tells nothing about scaling."
    elif not has_speed_up:
        yield "Speed-ups need a number on 1; --baseline fewest takes another."


def rows(answer: Scaling) -> Iterator[tuple[str, ...]]:
    """Yield the cells of POINTS for every number."""
    for curve in answer.curves:
        for point in curve.points:
            result, added_share = point.result, ""
            rate = number(_rate(result), exactly=result.environment.origin is Origin.PUBLISHED)
            around = spread(result.repeats, result.low, result.high, _rate(result))
            if point.added is not None:
                added_share = f"{100 * point.added.share:.0f} %"
            yield (
                curve.strategy,
                result.width,
                f"{rate} {around}".rstrip(),
                _speed_up(point),
                _efficiency(result, 1),
                added_share,
                str(len(result.repeats)),
            )


def _pays(curve: ScalingCurve) -> str:
    stop, last = curve.stops_paying, curve.points[-1]
    step = stop or last.added
    perhaps = "" if step is not None and step.is_sure else "perhaps "
    if stop is None:
        return f"{perhaps}all {last.result.num_gpus} GPUs pay, the most tried"
    first, share = stop.num_gpus + 1, f"{100 * stop.share:.0f} % of a first GPU's throughput"
    adds = f"GPUs {first} to {stop.up_to} add {share} each"
    if stop.up_to == first:
        adds = f"GPU {first} adds {share}"
    return f"{perhaps}more than {counted(stop.num_gpus, 'GPU')} do not pay, since {adds}"


def _overview_row(curve: ScalingCurve) -> tuple[str, ...]:
    stop, point = curve.stops_paying, curve.points[-1]
    step = stop or point.added
    adds = f"{100 * step.share:.0f} %" if step else ""
    if stop is not None:
        for each in curve.points:
            if each.result.num_gpus == stop.num_gpus:
                point = each
    pays = point.result.width
    if not (step is not None and step.is_sure) and len(point.result.repeats) > 1:
        pays = f"perhaps {pays}"
    return curve.strategy, pays, _speed_up(point), _efficiency(point.result, 0), adds


def _efficiency(result: Result, decimals: int) -> str:
    if result.efficiency is None:
        return ""
    return f"{fixed(100 * result.efficiency, decimals)} %"


def _speed_up(point: CurvePoint) -> str:
    if point.result.speed_up is None:
        return ""
    text = f"{fixed(point.result.speed_up, 2)}x"
    if point.speed_up_low is None:
        return text
    return f"{text} [{point.speed_up_low:.2f}, {point.speed_up_high:.2f}]"


def scaling(
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    origin: OriginOption = None,
    source: options.SourceOption = None,
    baseline: options.BaselineOption = BaselineRule.SAME,
    shows_all: options.All = False,
    as_json: Json = False,
) -> None:
    """Show where adding GPUs stops paying off; --all has each curve with its intervals."""
    chosen = options.select(db, filters, sweep, origin, source, baseline)
    options.tell_all_sweeps(chosen)
    read = Source(selection=chosen)
    answers = scalings(read.results)
    if as_json:
        return print_json(answers)
    console = make_console()
    used: set[str] = set()
    for answer in answers:
        used.update(badges.of_environment(answer.table.environment))
    say(console, headline(answers), "bold")
    if any(answer.telling for answer in answers):
        used |= _print_overview(console, answers)
    elif sum(len(curve.points) for answer in answers for curve in answer.curves) <= _MOST_ROWS:
        shows_all = True
    if shows_all:
        facts = [table_facts(answer.table) for answer in answers]
        shared = in_all(facts) if len(facts) > 1 else []
        for note in shared:
            say(console, note, "dim")
        for answer in answers:
            _print(console, answer, shared)
            for curve in answer.curves:
                used.update(curve.doubts)
    notes = read.notes
    if not shows_all:  # --all has them in each table
        notes += [*reported_notes(read.results), *unconfirmed_notes(read.results)]
    for result in read.results:
        doubted = result.attempt_with(result.doubts[0]) if result.is_suspect else None
        if doubted is not None:
            notes.append(f"In doubt: {chosen.show_command} {doubted} says why")
            break
    say_foot(console, None, notes, used)
    if not shows_all:
        say(console, "--all has every curve, point by point", "dim")
    return None


def _print_overview(console: Console, answers: Sequence[Scaling]) -> set[str]:
    """Print a row per curve; return the badges that its column of doubts has."""
    console.print()
    rows, num_more = overview(answers, _MOST_ROWS)
    doubts = {row[-1] for row in rows}
    columns: tuple[str, ...] = (*OVERVIEW, "doubts")
    if len(doubts) == 1:  # what is said of all stands below the table once
        columns = OVERVIEW
        rows = [row[:-1] for row in rows]
    right, width = frozenset(columns[2:6]), reading_width(console)
    print_columns(console, columns, rows, right, piped_width=width)
    if num_more:
        say(console, f"and {counted(num_more, 'more curve')}")
    console.print()
    say(console, "Each more: of a first GPU's throughput; below 50 %, adding GPUs does not pay.")
    num_others = sum(len(answer.curves) - len(answer.telling) for answer in answers)
    if num_others:
        more = counted(num_others, "more curve")
        say(
            console,
            f"{more} on one number of devices, on CPU devices or counted in steps: see --all",
        )
    if len(doubts) == 1:  # the headline says it
        doubts = {text.replace("single run", "") for text in doubts}
    return {badge for text in doubts for badge in text.split(", ") if badge}


def _print(console: Console, answer: Scaling, shared: Collection[str]) -> None:
    """Print every number of an answer, without the notes that all answers share."""
    console.print()
    say(console, title(answer.table.setting), "bold")
    for note in table_facts(answer.table):
        if note not in shared:
            say(console, note, "dim")
    for sentence in sentences(answer):
        say(console, sentence)
    if answer.curves:
        kind = answer.table.environment.device_kind
        interval = " [95 % CI]" if has_interval(answer.table.results) else ""
        shown_as = {
            "num_gpus": kind.plural.removeprefix("simulated "),
            "throughput": f"{answer.table.unit}{interval}",
            "speed-up": "speed-up [95 % CI]",
        }
        columns = [shown_as.get(name, name) for name in POINTS]
        print_columns(console, columns, rows(answer), right=frozenset(columns[1:]))
