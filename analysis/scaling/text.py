"""What a scaling curve says, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.neighbors import with_num_gpus
from analysis.results import Origin, Result
from analysis.scaling.curves import Curve, Scaling
from analysis.scaling.paying import Added
from analysis.scaling.scalability import FEWEST_COUNTS
from analysis.text.summary import change_text, quoted, summarize
from scalemark.records.overrides import command

LITTLE_LOST = 0.9  # efficiency from which on there is little to explain
_ALL_KEPT = 0.995  # efficiency that is told as 100 %
_USUAL_COUNTS = (1, 2, 4, 8)


def sentences(scaling: Scaling) -> list[str]:
    """Who leads where, what each strategy's curve says, who leads from where on, what is not known,
    and how to read it.
    """
    summary = summarize(scaling.table)
    changes = [change_text(scaling.table, change) for change in scaling.crossovers]
    curves = [sentence for curve in scaling.curves for sentence in _of_curve(scaling, curve)]
    return [
        *summary.fastest,
        *curves,
        *changes,
        *summary.doubts,
        *_more(scaling),
        _how_scaled(scaling),
    ]


def _of_curve(scaling: Scaling, curve: Curve) -> Iterator[str]:
    last = curve.points[-1]
    if last.result.num_gpus == 1 or len(curve.points) == 1:
        return
    yield (
        f"{curve.strategy}: "
        f"{_speed_up(scaling, curve)}{_stop(curve) if scaling.speaks_of_gpus else ''}."
    )
    yield from (_negative(run) for run in curve.slower)
    if scaling.speaks_of_gpus:
        leads = bool(scaling.leads) and curve.strategy in scaling.leads[-1].top
        yield from list(_limit(curve)) or (_nothing(curve) if leads else ())


def _negative(run: Sequence[Added]) -> str:
    best, worst = run[0].before, run[-1].after
    sure = "is" if all(step.is_surely_slower for step in run) else "is perhaps"
    return (
        f"Negative scaling: {best.strategy} {sure} slower on {worst.counted} than on {best.num_gpus}: "
        f"{quoted(worst)} against {quoted(best)}."
    )


def _speed_up(scaling: Scaling, curve: Curve) -> str:
    last = curve.points[-1]
    where = f"on {last.result.counted}"
    if last.result.speed_up is None or last.result.baseline is None:
        first = curve.points[0].result
        gain = (last.result.throughput or 0) / (first.throughput or 1)
        times = f"{gain:.2f}x of those on {first.num_gpus}"
        return f"{quoted(last.result)} {where}, {times}; no number on 1 to tell a speed-up against"
    known = (
        f" [{last.speed_up_low:.2f}..{last.speed_up_high:.2f}]"
        if last.speed_up_low is not None
        else ""
    )
    baseline = last.result.baseline
    against = (
        baseline.width
        if baseline.strategy == curve.strategy
        else f"{baseline.strategy} on {baseline.width}"
    )
    return (
        f"{last.result.speed_up:.2f}x{known} of {against} {where}, an efficiency of "
        f"{last.result.efficiency:.0%}"
    )


def _stop(curve: Curve) -> str:
    results = [point.result for point in curve.points]
    if curve.stop is None:
        final = curve.points[-1].added
        sure = (
            ""
            if final is None or final.is_sure
            else "as far as one process each tells, "
            if _alone(results)
            else "perhaps "
        )
        return f"; {sure}more pay up to {results[-1].counted}, the most that were tried"
    sure = "" if curve.stop.is_sure else "perhaps "
    return f"; {sure}more than {curve.stop.num_gpus} do not pay: {brings(curve.stop.added)}"


def brings(added: Added) -> str:
    """As `each of the 4 that make it 8 brings 31% [25%..37%] of one of the first`."""
    sign = 1 if added.share >= 0 else -1
    ends = (
        []
        if added.low is None or added.high is None
        else sorted((sign * added.low, sign * added.high))
    )
    known = f" [{ends[0]:.0%}..{ends[1]:.0%}]" if ends else ""
    num, most = added.after.num_gpus - added.before.num_gpus, added.after.num_gpus
    each = f"each of the {num} that make it {most}" if num > 1 else f"the one that makes it {most}"
    does = "brings" if sign > 0 else "takes away"
    return f"{each} {does} {sign * added.share:.0%}{known} of one of the first"


def _alone(results: Sequence[Result]) -> bool:
    return min(len(result.repeats) for result in results) < 2


def _limit(curve: Curve) -> Iterator[str]:
    efficiency = curve.points[-1].result.efficiency
    if efficiency is not None and efficiency >= LITTLE_LOST:
        return
    law = curve.law
    if law is None or curve.no_law:
        serial = curve.serial
        if serial is not None:
            known = f" [{serial.low:.1%}..{serial.high:.1%}]" if serial.low is not None else ""
            told = (
                f"as if {serial.share:.1%}{known} of the work did not scale ({serial.law}'s law "
                f"on {serial.num_gpus} alone)"
            )
            yield f"What limits {curve.strategy}: {told}; {curve.no_law}."
        return
    sigma = f"sigma {law.sigma:.3f} [{law.sigma_low:.3f}..{law.sigma_high:.3f}]"
    kappa = f"kappa {law.kappa:.4f} [{law.kappa_low:.4f}..{law.kappa_high:.4f}]"
    if law.sigma_low == 0 and law.kappa_low == 0:
        way = (
            "its numbers cannot tell whether its loss grows with every one more, or with every pair"
        )
    elif law.lost_by_sigma >= law.lost_by_kappa:
        way = "its loss grows with every one more, as where they queue for something shared"
    else:
        way = (
            "its loss grows with every pair more, as where they wait for each other, or for "
            "slower links"
        )
    yield f"What limits {curve.strategy}: {way} (Universal Scalability Law: {sigma}, {kappa})."


def _more(scaling: Scaling) -> Iterator[str]:
    """What is missing, with the command that supplies it."""
    results = [point.result for curve in scaling.curves for point in curve.points]
    counts, hosts = sorted({one.num_gpus for one in results}), scaling.table.hosts
    if not counts or scaling.table.place.origin is Origin.PUBLISHED:
        return
    if len(counts) == 1:
        other = next(
            num for num in (*_USUAL_COUNTS, 2 * hosts) if num != counts[0] and num % hosts == 0
        )
        where = scaling.table.counted(counts[0])
        was = "was" if counts[0] == 1 else "were"
        yield (
            f"Only {where} {was} tried, and nothing scales on one number; more: "
            f"{_on(scaling, other)}"
        )
    elif not any(one.num_gpus == 1 or one.baseline for one in results):
        yield f"No number on 1 to tell speed-ups against; it is measured by {_on(scaling, 1)}"
    elif (
        scaling.speaks_of_gpus
        and len(counts) < FEWEST_COUNTS
        and (missing := _missing(counts, hosts))
    ):
        yield (
            f"A law of what limits needs {FEWEST_COUNTS} numbers of GPUs; one more: "
            f"{_on(scaling, missing)}"
        )


def _nothing(curve: Curve) -> Iterator[str]:
    """Of one that leads it is told, too, that nothing is to be seen."""
    last = curve.points[-1].result
    if last.efficiency is None:
        yield (
            f"What limits {curve.strategy}: not known without a number on 1 to tell a loss against."
        )
        return
    lost = f"{1 - last.efficiency:.0%}" if last.efficiency < _ALL_KEPT else "nothing"
    yield (
        f"What limits {curve.strategy}: nothing that its curve shows, it loses {lost} on "
        f"{last.counted}."
    )


def _missing(counts: Sequence[int], hosts: int) -> int | None:
    """Of those that so many hosts can have."""
    return next(
        (
            num
            for num in (*_USUAL_COUNTS, 3, 6)
            if num not in counts and num < max(counts) and num % hosts == 0
        ),
        None,
    )


def _on(scaling: Scaling, num_gpus: int) -> str:
    first = scaling.curves[0].points[0].result
    return command(with_num_gpus(first.spec, num_gpus), first.place.hardware)


def _how_scaled(scaling: Scaling) -> str:
    if scaling.is_strong:
        return (
            "Strong scaling: the batch of all together stays the same, so each has less to do "
            "the more there are."
        )
    if (
        scaling.table.place.origin is Origin.PUBLISHED
        and scaling.table.setting.get("batch_size") is None
    ):
        return (
            "The source tells no batch: whether it grows with their number decides what a "
            "speed-up means."
        )
    return (
        "Weak scaling: the batch of all together grows with their number; told are images/s, "
        "not the time to a trained model."
    )
