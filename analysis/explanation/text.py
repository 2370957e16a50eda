"""An explanation as rows with bars, and as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from analysis.explanation.ablations import ABLATION_ORDER, Ablation, is_on_one_host, reads
from analysis.explanation.evidence import Evidence, Method
from analysis.explanation.explanations import Explanation
from analysis.explanation.replicas import slow_replica_text
from analysis.explanation.step_times import Seconds, about
from analysis.explanation.suspects import Bound, Suspect
from analysis.explanation.verdicts import Confidence
from analysis.explanation.waterfall import Cause, shares_cores
from analysis.results import Result, items_per_step
from analysis.text.numbers import number, span, with_interval
from scalemark.records.origin import Origin
from scalemark.records.trial import unusual_axes
from scalemark.text.wording import counted, listed_phrases

_NUMBERS = ("ms", "interval", "share")
BAR_WIDTH = 24  # characters of a whole step
NEIGHBORS = "within: other programs"  # the row of what they take
_TRIAL_ID = 8  # characters, as `python -m store list` has them


def title(target: Result) -> str:
    """Return as `vgg16 on 8 GPUs: replicated_nccl, batch_size 32, fp32, synthetic data`."""
    axes = target.axes
    said = [target.strategy, f"batch_size {axes['batch_size']}"]
    if axes.get("image_px"):
        said.append(f"image_px {axes['image_px']}")
    if axes.get("seq_len"):
        said.append(f"seq_len {axes['seq_len']}")
    said += [str(axes["precision"]), f"{axes['data']} data"]
    if target.environment.origin is not Origin.PUBLISHED:
        unusual = [axis for axis in unusual_axes(axes) if axis not in _SAID]
        said += [f"{axis}={axes[axis]}" for axis in unusual]
    return f"{axes['model']} on {target.counted}: {', '.join(said)}"


_SAID = ("precision", "data", "hosts", "seq_len")  # in other words already


def columns(target: Result) -> tuple[str, ...]:
    """Return the headings of `rows`."""
    return ("where the step goes", *_NUMBERS, "", _without(target), "trials")


def number_columns(target: Result) -> frozenset[str]:
    """Return the headings of columns with numbers."""
    return frozenset((*_NUMBERS, _without(target)))


def _without(target: Result) -> str:
    return f"{target.unit} without"


def rows(explained: Explanation) -> Iterator[list[str]]:
    """Yield the step from its base upwards, the whole step, and what stands beside it."""
    fall = explained.fall
    first = fall.parts[0].before if fall.parts else fall.target
    yield _row(explained, base(explained), fall.base_s, [first])
    for part in fall.parts:
        trials = [part.before, part.after]
        yield _row(explained, " or ".join(part.causes), part.seconds, trials, is_lost=True)
    yield _row(explained, "= the step", fall.step, [fall.target])
    for what, one in (
        ("calls of the function", fall.calls),
        ("fixed, whatever the batch", fall.fixed),
    ):
        if one is not None:
            yield _row(explained, f"within: {what}", one.seconds, one.trials, is_lost=True)
    for slow in _waiting(explained):
        yield _row(explained, "within: the slow replica", slow.seconds, slow.trials, is_lost=True)
    for neighbors in of_neighbors(explained):
        yield _row(explained, NEIGHBORS, neighbors.seconds, neighbors.trials, is_lost=True)
    if fall.floor is not None:
        what = "beside: the trivial model's step"
        yield _row(explained, what, fall.floor.seconds, fall.floor.trials)
    if links := explained.host_links:
        rate = f"{links.bytes_per_s / 1e6:.4g} MB/s"
        what = f"beside: {links.link_bytes / 1e6:.4g} MB between hosts at {rate}"
        yield _row(explained, what, about(links.seconds), [])
    if check := explained.quick_check:
        rate = f"{check.bandwidth.gb_per_s:g} GB/s"
        what = f"beside: {check.num_parameters * 4 / 1e6:.4g} MB at {rate}"
        yield _row(explained, what, about(check.seconds), [])


def _waiting(explained: Explanation) -> list[Suspect]:
    return [one for one in explained.diagnosis.suspects if one.bound is Bound.SLOW_REPLICA]


def of_neighbors(explained: Explanation) -> list[Suspect]:
    """Return what other programs take, where it is in the verdict; no part above shows it."""
    bound = explained.diagnosis.bound
    blamed = [one for one in explained.diagnosis.suspects if one.bound is bound]
    return [one for one in blamed if one.method is Method.CORES]


def _row(
    explained: Explanation,
    what: str,
    seconds: Seconds,
    trials: Sequence[Result],
    *,
    is_lost: bool = False,
) -> list[str]:
    fall = explained.fall
    share = fall.share(seconds.value)
    interval, without = "", ""
    if seconds.low is not None and seconds.high is not None:
        mark = "" if seconds.over_processes else "*"
        interval = f"[{span(1e3 * seconds.low, 1e3 * seconds.high, 1e3 * seconds.value)}]{mark}"
    left_s = fall.step.value - seconds.value
    if is_lost and left_s > 0:
        without = number(items_per_step(fall.target) / left_s)
    return [
        what,
        number(1e3 * seconds.value),
        interval,
        percent(share),
        "█" * round(BAR_WIDTH * min(1.0, max(0.0, share))),
        without,
        " - ".join(trial.trial_id[:_TRIAL_ID] for trial in reversed(trials)),
    ]


def base(explained: Explanation) -> str:
    """Return the name of what the parts stand on."""
    environment, num_gpus = explained.target.environment, explained.target.num_gpus
    names = {
        Ablation.ALONE: f"{environment.counted(1)} alone: compute",
        Ablation.ALONE_READING: f"{environment.counted(1)} alone, with its input",
        Ablation.INDEPENDENT: f"{environment.counted(num_gpus)}, each for itself",
    }
    return names.get(explained.fall.base, "not known: the whole step")


def percent(share: float) -> str:
    """Format a share, with digits where it would else read as the threshold that it misses."""
    if 0.095 <= share < 0.105 or 0.895 <= share < 0.905:
        return f"{100 * share:.3g}%"
    return f"{share:.0%}"


def verdict(explained: Explanation) -> str:
    diagnosis, fall = explained.diagnosis, explained.fall
    why = "; ".join(diagnosis.evidence)
    if diagnosis.bound is None:
        return f"Cannot tell: {why}."
    sure = "" if diagnosis.confidence is Confidence.SURE else f" ({diagnosis.confidence})"
    found = f"Verdict: {diagnosis.bound}{sure}: {why}."
    if fall.efficiency is None or fall.target.num_gpus == 1 or diagnosis.bound is Bound.HEALTHY:
        return found
    return f"{found} It reaches {percent(fall.efficiency)} of {ideal(explained)}."


def ideal(explained: Explanation) -> str:
    """Return what a loss is measured against, as `8 times replicated_nccl on 1 GPU`."""
    target, alone = explained.target, explained.fall.ideal
    if alone is None or shares_cores(target):
        return "as many, each for itself"
    by = "one replica alone" if alone.trains_apart else f"{alone.strategy} on {alone.counted}"
    return f"{target.num_gpus} times {by}"


def evidence(explained: Explanation, most_trials: int | None = None) -> Iterator[str]:
    """Yield what the verdict rests on, of each: seconds, rates, and the trials; of more than
    `most_trials` their number.
    """
    for one in explained.diagnosis.rests_on:
        joint = " - " if one.method is Method.ABLATION else ", "
        trials = joint.join(trial[:_TRIAL_ID] for trial in one.trials)
        trials = f"trial {trials}" if len(one.trials) == 1 else f"trials {trials}"
        if most_trials is not None and len(one.trials) > most_trials:
            trials = counted(len(one.trials), "trial")
        figures = ", ".join(_figures(one, explained.target))
        yield f"Evidence ({one.method}): {figures}; {trials}."


def _figures(one: Evidence, target: Result) -> Iterator[str]:
    ms = one.seconds.scaled(1e3)
    known = "estimated" if one.method is Method.CORES else "observed"
    yield f"{with_interval(ms.value, ms.low, ms.high)} ms {known}"
    if (rates := one.rates) is None:
        return
    if rates.expected_s is None:
        yield f"{number(rates.implied / 1e9)} GB/s of gradients if nothing hides them"
    else:
        expected = f"up to {number(1e3 * rates.expected_s)} ms expected"
        yield f"{expected} of {target.strategy} on its links"


def sentences(explained: Explanation) -> Iterator[str]:
    """Yield why the verdict is not surer, what else was seen, and what must be known."""
    if explained.diagnosis.doubts:
        yield f"Not sure, because {'; '.join(explained.diagnosis.doubts)}."
    yield from _seen(explained)
    yield from slow_replica(explained)
    yield from _host_links(explained)
    yield from _update_bytes(explained)
    yield from _quick_check(explained)
    for note in explained.notes:
        yield f"{note[0].upper()}{note[1:]}."
    beside = (explained.fall.calls, explained.fall.fixed, explained.fall.floor)
    if any(beside) or _waiting(explained) or of_neighbors(explained):
        yield "Rows within and beside overlap those above; only these add up to the step."
    seconds = [part.seconds for part in explained.fall.parts]
    if any(not one.over_processes and one.low is not None for one in seconds):
        yield "* within a single run: too narrow, another run may differ by more."


def slow_replica(explained: Explanation) -> Iterator[str]:
    """Yield which replica is slow, where anything is known of them."""
    return slow_replica_text.sentences(
        explained.slow_replicas,
        explained.seen.gpus,
        explained.target.environment.device_kind,
        explained.replicas_timed_in[:_TRIAL_ID],
    )


def _seen(explained: Explanation) -> Iterator[str]:
    seen = explained.seen
    if reads(explained.target.axes) and seen.data_wait_share is not None:
        yield f"{percent(seen.data_wait_share)} of the measured time was spent waiting for batches."
    if seen.cores_taken is not None and seen.cores_taken >= 0.05:
        yield f"Other programs took {percent(seen.cores_taken)} of the cores."
    if seen.clock_loss is not None and seen.clock_loss >= 0.005:
        throttled = f" ({', '.join(seen.throttled)})" if seen.throttled else ""
        yield f"The slowest GPU ran {percent(seen.clock_loss)} below its highest clock{throttled}."
    if profile := seen.profile:
        parts = listed_phrases(_parts(profile))
        yield f"TensorFlow's profile, which takes time itself, has {parts}."


def _parts(profile: Mapping[str, Any]) -> list[str]:
    """Return what a profile has of a step, as phrases; reductions only where it has any."""
    step_s, parts = profile["step_s"], []
    if profile["reduction_s"]:
        parts.append(
            f"gradients being reduced for {percent(profile['reduction_s'] / step_s)} of a step, "
            f"{percent(profile['exposed_reduction_s'] / step_s)} with nothing else beside"
        )
    if profile["launch_gap_share"] is not None:
        idle = f"GPUs idle between kernels for {percent(profile['launch_gap_share'])} of a step"
        if (between := profile.get("step_gap_share")) is not None:
            idle = f"{idle}, and from one to the next for {percent(between)}"
        parts.append(idle)
    parts.append(f"waiting for input for {percent(profile['input_wait_s'] / step_s)}")
    return parts


def _host_links(explained: Explanation) -> Iterator[str]:
    links = explained.host_links
    if links is None:
        return
    sent = " and then ".join(f"{number(phase / 1e6)} MB" for phase in links.phases)
    said = (
        f"A step sends {sent} over the busiest host's link, {_ms(links.seconds)} at the "
        f"{number(links.bytes_per_s / 1e6)} MB/s {links.known_by}"
    )
    expected = links.expected_step_s
    if links.rest is not None and expected is not None:
        off = expected.value / explained.fall.step.value - 1
        said += (
            f"; with {links.rest.trial_id[:_TRIAL_ID]} over fast links the expected step is "
            f"{_ms(expected.value)} ({off:+.0%})"
        )
    yield f"{said}."


def _update_bytes(explained: Explanation) -> Iterator[str]:
    sent, target = explained.update_bytes, explained.target
    if sent is None or not sent.weights + sent.gradients:
        return
    parts = {"weights": sent.weights, "gradients": sent.gradients}
    said = [f"{_size(size)} of {what}" for what, size in parts.items() if size]
    taken = f"{sent.num_items} {target.item}"
    if sent.num_micro_batches > 1:
        taken += f" in {sent.num_micro_batches} micro-batches per replica"
    each = f"{_size(sent.per_item)} per {target.item.removesuffix('s')}"
    yield f"An update of {taken} sends {' and '.join(said)} between all devices, {each}."


def _size(num_bytes: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if num_bytes >= size:
            return f"{number(num_bytes / size)} {unit}"
    return f"{number(num_bytes / 1e3)} kB"


def _quick_check(explained: Explanation) -> Iterator[str]:
    check, inner = explained.quick_check, explained.inner_links
    if check is None:
        return
    said = (
        "By TensorFlow's guide to GPU performance, parameters over bandwidth, one reduction takes "
        f"{_ms(check.seconds)} ({check.bandwidth.known_by})"
    )
    lost = [part for part in explained.fall.parts if Cause.COMMUNICATION in part.causes]
    if lost:
        lost_s = lost[0].seconds.value
        if inner:
            strategy = explained.target.strategy
            said += f"; by the cost model {strategy} takes up to {_ms(inner.seconds)}"
        causes = " or ".join(lost[0].causes)
        said += f"; {_ms(max(0.0, lost_s))} were lost to {causes}"
        if inner and lost_s > inner.at_most_s:
            said += ", which the links do not explain"
    yield f"{said}."


def _ms(seconds: float) -> str:
    return f"{number(1e3 * seconds)} ms"


def missing(explained: Explanation) -> Iterator[tuple[str, str]]:
    """Yield trials that would say more, and the command for each."""
    is_published = explained.target.environment.origin is Origin.PUBLISHED
    for one in explained.diagnosis.needed:
        if not is_published or one.ablation in ABLATION_ORDER:
            where = ""
            if not is_published and is_on_one_host(one.ablation, explained.target):
                where = " (on one host)"
            yield f"missing, {_SHOWS[one.ablation]}{where}", one.command


_SHOWS = {
    Ablation.ALONE: "one replica alone, the ideal",
    Ablation.INDEPENDENT: "independent replicas, which tell contention from communication",
    Ablation.FAST_LINKS: (
        "the same without a slow network between hosts, which shows what that costs"
    ),
    Ablation.REDUCING: "the same on synthetic data, which shows what the input costs",
    Ablation.READING: "the same without distortions",
    Ablation.MANY_STEPS: "many steps per call, which show what calls cost",
    Ablation.LARGER_BATCH: "a larger batch, which shows what is fixed",
    Ablation.FLOOR: "the trivial model, the floor of a step",
}
