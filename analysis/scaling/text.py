"""Puts scaling curves into words."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.again import command
from analysis.neighbors import with_num_gpus, with_strategy
from analysis.results import Result
from analysis.scaling.curves import Curve, Scaling
from analysis.scaling.extra_p import Model
from analysis.scaling.paying import Added
from analysis.scaling.scalability import FEWEST_COUNTS, Law
from analysis.text.summary import change_text, quoted, summarize
from scalemark.abilities import DEFAULT_UPDATE, has_enough_replicas, least_replicas

LITTLE_LOST = 0.9  # efficiency from which on there is little to explain
_ALL_KEPT = 0.995  # efficiency that rounds to 100 %
_USUAL_COUNTS = (1, 2, 4, 8)


def sentences(scaling: Scaling) -> list[str]:
    """Say who leads where, what each curve says, what is unknown, and how to read it."""
    summary = summarize(scaling.table)
    curves = [sentence for curve in scaling.curves for sentence in _of_curve(scaling, curve)]
    changes = [change_text(scaling.table, change) for change in scaling.crossovers]
    missing = _missing(scaling)
    return [
        *summary.fastest,
        *curves,
        *changes,
        *summary.doubts,
        *([missing] if missing else []),
        *_how_scaled(scaling),
    ]


def _of_curve(scaling: Scaling, curve: Curve) -> Iterator[str]:
    last = curve.points[-1]
    if last.result.num_gpus == 1 or len(curve.points) == 1:
        return
    stop = _stop(curve) if scaling.speaks_of_gpus else ""
    yield f"{curve.strategy}: {_speed_up(curve)}{stop}."
    for run in curve.slower:
        best, worst = run[0].before, run[-1].after
        sure = "is" if all(step.is_surely_slower for step in run) else "is perhaps"
        where = f"slower on {worst.counted} than on {best.num_gpus}"
        numbers = f"{quoted(worst)} against {quoted(best)}"
        yield f"Negative scaling: {best.strategy} {sure} {where}: {numbers}."
    if scaling.speaks_of_gpus:
        leads = bool(scaling.leads) and curve.strategy in scaling.leads[-1].top
        limit = _limit(curve) or (_no_limit(curve) if leads else "")
        if limit:
            yield f"What limits {curve.strategy}: {limit}."
    if curve.extra_p is not None:
        yield _extra_p(curve, curve.extra_p)


def _extra_p(curve: Curve, model: Model) -> str:
    beside = ""
    if curve.law is not None:
        beside = f"; the Universal Scalability Law misses it by {curve.law.misfit:.1%} at most"
    unit = curve.points[0].result.unit
    missed = f"misses it by {model.smape_percent:.1f}% on average (SMAPE)"
    return f"Extra-P models {curve.strategy}: {unit} = {model.function}, which {missed}{beside}."


def _speed_up(curve: Curve) -> str:
    last, first = curve.points[-1], curve.points[0].result
    result, baseline = last.result, last.result.baseline
    where = f"on {result.counted}"
    if result.speed_up is None or baseline is None:
        gain = (result.throughput or 0) / (first.throughput or 1)
        times = f"{gain:.2f}x of those on {first.num_gpus}"
        return f"{quoted(result)} {where}, {times}; no number on 1 to tell a speed-up against"
    interval = ""
    if last.speed_up_low is not None:
        interval = f" [{last.speed_up_low:.2f}, {last.speed_up_high:.2f}]"
    against = baseline.width
    if baseline.strategy != curve.strategy:
        against = f"{baseline.strategy} on {baseline.width}"
    if result.efficiency is None:
        return f"{result.speed_up:.2f}x{interval} the {result.unit} of {against} {where}"
    speed_up = f"{result.speed_up:.2f}x{interval} of {against}"
    return f"{speed_up} {where}, an efficiency of {result.efficiency:.0%}"


def _stop(curve: Curve) -> str:
    if curve.stop is not None:
        sure = "" if curve.stop.is_sure else "perhaps "
        return f"; {sure}more than {curve.stop.num_gpus} do not pay: {brings(curve.stop.added)}"
    final = curve.points[-1]
    sure = "" if final.added is None or final.added.is_sure else "perhaps "
    return f"; {sure}more pay up to {final.result.counted}, the most that were tried"


def brings(added: Added) -> str:
    """Return `each of the 4 that make it 8 brings 31% [25%, 37%] of one of the first`."""
    sign, does = (1, "brings") if added.share >= 0 else (-1, "takes away")
    interval = ""
    if added.low is not None and added.high is not None:
        low, high = sorted((sign * added.low, sign * added.high))
        interval = f" [{low:.0%}, {high:.0%}]"
    num, most = added.after.num_gpus - added.before.num_gpus, added.after.num_gpus
    each = f"each of the {num} that make it {most}" if num > 1 else f"the one that makes it {most}"
    return f"{each} {does} {sign * added.share:.0%}{interval} of one of the first"


def _limit(curve: Curve) -> str:
    """Return what a law says of the loss; empty where little is lost, or nothing is known."""
    efficiency = curve.points[-1].result.efficiency
    if efficiency is not None and efficiency >= LITTLE_LOST:
        return ""
    if curve.law is not None and not curve.no_law:
        return _law(curve.law)
    serial = curve.serial
    if serial is None:
        is_lossy = efficiency is not None and bool(curve.no_law)
        return f"not known, for {curve.no_law}" if is_lossy else ""
    interval = f" [{serial.low:.1%}, {serial.high:.1%}]" if serial.low is not None else ""
    return (
        f"as if {serial.share:.1%}{interval} of the work did not scale ({serial.law}'s law on "
        f"{serial.num_gpus} alone); {curve.no_law}"
    )


def _law(law: Law) -> str:
    way = "its loss grows with every pair more, as where they wait for each other, or slower links"
    if law.sigma_low == 0 and law.kappa_low == 0:
        way = "whether its loss grows with every one or with every pair more is not conclusive"
    elif law.lost_by_sigma >= law.lost_by_kappa:
        way = "its loss grows with every one more, as where they queue for something shared"
    sigma = f"sigma {law.sigma:.3f} [{law.sigma_low:.3f}, {law.sigma_high:.3f}]"
    kappa = f"kappa {law.kappa:.4f} [{law.kappa_low:.4f}, {law.kappa_high:.4f}]"
    return f"{way} (Universal Scalability Law: {sigma}, {kappa})"


def _no_limit(curve: Curve) -> str:
    """Say of a strategy that leads that its curve shows nothing."""
    last = curve.points[-1].result
    if last.efficiency is None:
        return "not known without a number on 1 to tell a loss against"
    lost = f"{1 - last.efficiency:.0%}" if last.efficiency < _ALL_KEPT else "nothing"
    return f"nothing that its curve shows, it loses {lost} on {last.counted}"


def _missing(scaling: Scaling) -> str:
    """Return what is missing, with the command that supplies it."""
    results = [point.result for curve in scaling.curves for point in curve.points]
    counts, hosts = sorted({one.num_gpus for one in results}), scaling.table.hosts
    if not counts or not scaling.table.environment.origin.is_ours:
        return ""
    able = [num for num in (*_USUAL_COUNTS, 3, 6, 2 * hosts) if num % hosts == 0]
    able = [num for num in able if num not in counts]
    if len(counts) == 1:
        where = scaling.table.counted(counts[0])
        was = "was" if counts[0] == 1 else "were"
        what = f"Only {where} {was} tried, and nothing scales on one number"
        return f"{what}; more: {_command(scaling, able[0])}" if able else f"{what}."
    if not any(_needs_no_number_on_1(one) for one in results):
        what = "No number on 1 to tell speed-ups against; it is measured by"
        return f"{what} {_command(scaling, 1)}"
    between = [num for num in able if num < max(counts)]
    if scaling.speaks_of_gpus and len(counts) < FEWEST_COUNTS and between:
        what = f"A law of what limits needs {FEWEST_COUNTS} numbers of GPUs; one more:"
        return f"{what} {_command(scaling, between[0])}"
    return ""


def _needs_no_number_on_1(result: Result) -> bool:
    """Say whether it has a baseline, and for want of a number on 1 no wider one."""
    if result.num_gpus == 1:
        return True
    if result.baseline is None:
        return False
    can_run_on_1 = least_replicas(result.axes["variable_update"]) == 1
    return can_run_on_1 or result.baseline.num_gpus == 1


def _command(scaling: Scaling, num_gpus: int) -> str:
    first = scaling.curves[0].points[0].result
    spec = with_num_gpus(first.spec, num_gpus)
    if not has_enough_replicas(spec):
        spec = with_strategy(spec, DEFAULT_UPDATE, "gpu", "none")
    return command(spec, [first])


def _how_scaled(scaling: Scaling) -> Iterator[str]:
    results = scaling.table.results
    if any(one.counts_steps for one in results):
        return  # a note says so
    if scaling.is_strong:
        yield (
            "Strong scaling: the batch of all together stays the same, so each has less to do "
            "the more there are."
        )
    elif any(one.is_of_program for one in results):
        yield (
            f"Speed-ups are of {scaling.table.unit}; whether each keeps its batch or all share "
            "one is up to the program."
        )
    elif (
        not scaling.table.environment.origin.is_ours
        and scaling.table.setting.get("batch_size") is None
    ):
        yield (
            "The source reports no batch: whether it grows with their number decides what a "
            "speed-up means."
        )
    else:
        yield (
            "Weak scaling: the batch of all together grows with their number; shown are "
            f"{scaling.table.unit}, not the time to a trained model."
        )
