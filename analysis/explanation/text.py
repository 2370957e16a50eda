"""What an explanation says to people: rows with bars, and sentences."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.explanation.explanations import Explanation
from analysis.explanation.host_links import PHASES, HostLinks
from analysis.explanation.rungs import LADDER, Rung, is_on_one_host, reads
from analysis.explanation.step_times import Seconds, global_images, step_s
from analysis.explanation.suspects import Bound
from analysis.explanation.verdicts import Confidence
from analysis.explanation.waterfall import Cause, shares_cores
from analysis.results import Origin, Result
from analysis.text.numbers import number, span
from scalemark.records.trial import unusual_axes

COLUMNS = ("where the step goes", "ms", "interval", "share", "", "images/s without", "trials")
BAR_WIDTH = 24  # characters of a whole step
_TRIAL_ID = 8  # characters, as `python -m store list` has them


def title(target: Result) -> str:
    """As `vgg16 on 8 GPUs: replicated_nccl, batch_size 32, fp32, real data`."""
    axes = target.axes
    told = [
        target.strategy,
        f"batch_size {axes['batch_size']}",
        str(axes["precision"]),
        f"{axes['data']} data",
    ]
    if axes.get("image_px"):
        told.insert(2, f"image_px {axes['image_px']}")
    quiet = ("precision", "data", "hosts")
    told += (
        [f"{axis}={axes[axis]}" for axis in unusual_axes(axes) if axis not in quiet]
        if "seed" in axes
        else []
    )
    return f"{axes['model']} on {target.counted}: {', '.join(told)}"


def rows(explained: Explanation) -> Iterator[list[str]]:
    """Of the ladder from its base to the target's whole step; then what stands beside it."""
    fall = explained.fall
    yield _row(explained, _base(explained), fall.base_s, [_first(explained)], without=False)
    for part in fall.parts:
        yield _row(
            explained,
            " or ".join(part.causes),
            part.seconds,
            [part.before, part.after],
            without=True,
        )
    yield _row(explained, "= the step", fall.step, [fall.target], without=False)
    beside = {
        "within: calls of the function": fall.calls,
        "within: fixed, whatever the batch": fall.fixed,
    }
    for what, one in beside.items():
        if one is not None:
            yield _row(explained, what, one.seconds, list(one.trials), without=True)
    if fall.floor is not None:
        yield _row(
            explained,
            "beside: the trivial model's step",
            fall.floor.seconds,
            list(fall.floor.trials),
            without=False,
        )
    if links := explained.host_links:
        what = (
            f"beside: {links.link_bytes / 1e6:.4g} MB between hosts at "
            f"{links.bytes_per_s / 1e6:.4g} MB/s"
        )
        about = Seconds(value=links.seconds, low=None, high=None, over_processes=False)
        yield _row(explained, what, about, [], without=False)
    if check := explained.quick_check:
        what = (
            f"beside: {check.num_parameters * 4 / 1e6:.4g} MB at {check.bandwidth.gb_per_s:g} GB/s"
        )
        about = Seconds(value=check.seconds, low=None, high=None, over_processes=False)
        yield _row(explained, what, about, [], without=False)


def _row(
    explained: Explanation, what: str, seconds: Seconds, trials: list[Result], *, without: bool
) -> list[str]:
    fall = explained.fall
    share = fall.share(seconds.value)
    left_s = fall.step.value - seconds.value
    interval = ""
    if seconds.low is not None and seconds.high is not None:
        interval = f"[{span(1e3 * seconds.low, 1e3 * seconds.high, 1e3 * seconds.value)}]{'' if seconds.over_processes else '*'}"
    return [
        what,
        number(1e3 * seconds.value),
        interval,
        percent(share),
        "█" * round(BAR_WIDTH * min(1.0, max(0.0, share))),
        number(global_images(fall.target) / left_s) if without and left_s > 0 else "",
        " - ".join(trial.trial_id[:_TRIAL_ID] for trial in reversed(trials)),
    ]


def _first(explained: Explanation) -> Result:
    fall = explained.fall
    return fall.parts[0].before if fall.parts else fall.target


def _base(explained: Explanation) -> str:
    fall = explained.fall
    one = fall.target.place.counted(1)
    names = {
        Rung.ALONE: f"{one} alone: compute",
        Rung.ALONE_READING: f"{one} alone, with its input",
        Rung.INDEPENDENT: f"{fall.target.place.counted(fall.target.num_gpus)}, each for itself",
    }
    return names.get(fall.base, "not known: the whole step")


def percent(share: float) -> str:
    """With digits where it would be told as the threshold that it misses."""
    return (
        f"{100 * share:.3g}%"
        if 0.095 <= share < 0.105 or 0.895 <= share < 0.905
        else f"{share:.0%}"
    )


def verdict(explained: Explanation) -> str:
    """One sentence."""
    diagnosis = explained.diagnosis
    why = "; ".join(diagnosis.evidence)
    if diagnosis.bound is None:
        return f"Cannot tell: {why}."
    sure = "" if diagnosis.confidence is Confidence.SURE else f" ({diagnosis.confidence})"
    return f"Verdict: {diagnosis.bound}{sure}: {why}.{_of_efficiency(explained)}"


def _of_efficiency(explained: Explanation) -> str:
    fall = explained.fall
    if (
        fall.efficiency is None
        or fall.target.num_gpus == 1
        or explained.diagnosis.bound is Bound.HEALTHY
    ):
        return ""
    ideal = (
        "as many, each for itself"
        if shares_cores(fall.target)
        else f"{fall.target.num_gpus} times one alone"
    )
    return f" It reaches {percent(fall.efficiency)} of {ideal}."


def sentences(explained: Explanation) -> Iterator[str]:
    """After the verdict: why it is not surer, what else was seen, what must be known."""
    if explained.diagnosis.doubts:
        yield f"Not sure, because {'; '.join(explained.diagnosis.doubts)}."
    yield from _seen(explained)
    yield from _host_links(explained)
    yield from _quick_check(explained)
    yield from (f"{note[0].upper()}{note[1:]}." for note in explained.notes)
    if any(
        not part.seconds.over_processes and part.seconds.low is not None
        for part in explained.fall.parts
    ):
        yield "* within single processes: too narrow, another process may differ by more."


def _seen(explained: Explanation) -> Iterator[str]:
    seen, target = explained.seen, explained.target
    if reads(target.axes) and seen.data_wait_share is not None:
        yield f"{percent(seen.data_wait_share)} of the measured time was spent waiting for batches."
    if seen.cores_taken is not None and seen.cores_taken >= 0.05:
        yield f"Other programs took {percent(seen.cores_taken)} of the cores."
    if seen.clock_loss is not None and (seen.throttled or percent(seen.clock_loss) != percent(0)):
        throttled = f"; throttled: {', '.join(seen.throttled)}" if seen.throttled else ""
        yield f"The slowest GPU ran {percent(seen.clock_loss)} below its highest clock{throttled}."
    if profile := seen.profile:
        step_s = profile["step_s"]
        told = [
            f"gradients being reduced for {percent(profile['reduction_s'] / step_s)} of a step",
            f"{percent(profile['exposed_reduction_s'] / step_s)} with nothing else beside",
            f"waiting for input {percent(profile['input_wait_s'] / step_s)}",
        ]
        if profile["launch_gap_share"] is not None:
            told.append(f"GPUs idle between kernels {percent(profile['launch_gap_share'])}")
        yield f"TensorFlow's profile, which takes time itself, has {', '.join(told)}."


def _host_links(explained: Explanation) -> Iterator[str]:
    links = explained.host_links
    if links is None:
        return
    told = (
        f"{_sent(links)}, {number(1e3 * links.seconds)} ms at the "
        f"{number(links.bytes_per_s / 1e6)} MB/s {links.told_by}"
    )
    if links.rest is None or links.expected_step_s is None:
        yield f"{told}."
        return
    step = explained.fall.step.value
    yield (
        f"{told}; with the {number(1e3 * step_s(links.rest).value)} ms of {links.rest.trial_id[:_TRIAL_ID]}, which no slow link "
        f"holds up, {number(1e3 * links.expected_step_s.value)} ms are expected ({links.expected_step_s.value / step - 1:+.0%})."
    )


def _sent(links: HostLinks) -> str:
    if len(links.phases) == 1:
        return f"A step sends {number(links.link_bytes / 1e6)} MB over each host's link each way"
    one_by_one = " and ".join(
        f"{number(sent / 1e6)} MB of {what}"
        for sent, what in zip(links.phases, PHASES, strict=True)
    )
    return f"A step sends {one_by_one} over the busiest host's link, one after the other"


def _quick_check(explained: Explanation) -> Iterator[str]:
    check = explained.quick_check
    if check is None:
        return
    lost = [part for part in explained.fall.parts if Cause.COMMUNICATION in part.causes]
    told = (
        f"The guide's quick check expects a reduction of {number(1e3 * check.seconds)} ms "
        f"({check.bandwidth.told_by})"
    )
    if not lost:
        yield f"{told}."
        return
    found, inner = lost[0].seconds.value, explained.inner_links
    if inner:
        told = f"{told}, the cost model up to {number(1e3 * inner.seconds)} ms of communication"
    if found <= 0:
        yield f"{told}; nothing of it is left over beside the other work."
    elif inner and found > inner.at_most_s:
        yield f"{told}; {number(1e3 * found)} ms were lost, which the links do not explain."
    elif found > 2 * (inner.seconds if inner else check.seconds):
        yield (
            f"{told}; {number(1e3 * found)} ms were lost: the links are used badly, or it is not "
            "them alone."
        )
    else:
        yield f"{told}; {number(1e3 * found)} ms of the step were lost, what is hidden left out."


def missing(explained: Explanation) -> Iterator[tuple[str, str]]:
    """Trials that would tell more, and the command for each."""
    target = explained.target
    for one in explained.diagnosis.needed:
        if target.place.origin is not Origin.PUBLISHED:
            where = " (on one host)" if is_on_one_host(one.rung, target) else ""
            yield f"missing, {_TELLS[one.rung]}{where}", one.command
        elif one.rung in LADDER:
            yield f"missing, {_TELLS[one.rung]}", ""


_TELLS = {
    Rung.ALONE: "one replica alone, the ideal",
    Rung.INDEPENDENT: "independent replicas, which tell contention from communication",
    Rung.FAST_LINKS: "the same without a slow network between hosts, which tells what that costs",
    Rung.REDUCING: "the same on synthetic data, which tells what the input costs",
    Rung.READING: "the same without distortions",
    Rung.MANY_STEPS: "many steps per call, which tell what calls cost",
    Rung.LARGER_BATCH: "a larger batch, which tells what is fixed",
    Rung.FLOOR: "the trivial model, the floor of a step",
}
