"""Makes the measurement from what a program printed: warm-up, window, cores taken by others."""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from command import curve
from command.points import are_other, label, two_phases
from command.watch import Looks, TakenResources
from scalemark.readers.opening import FASTEST_STEP_S
from scalemark.records.measurement import (
    FASTEST,
    LARGEST_THROUGHPUT,
    LINES_COUNT,
    SLOWEST,
    STEPS,
    Measurement,
    Phase,
    StepSample,
    unit_of,
)
from scalemark.records.trial import LARGEST_FLOAT32, TrialSpec
from trainer import measured

NO_NUMBER = "found no number"
OTHER_NUMBERS = "`scalemark read LOG` shows its other numbers"
STEADY_SPAN = 2 * measured.STEADY_CALLS
LONGEST_WARM_UP = 3  # a third of all calls, where they are many
LOST_SHARE = 0.25  # of the time with numbers: silence for longer after them is reported
LOST_LINES = 10  # that came in that silence
REPORTED = "as reported by the program: one number of its whole run, whose warm-up is not known"
WIDEST_APART = 0.05  # of rates to the time between lines, as a share of the time
REFUSED_APART = 0.1  # likewise, of few items of a step to a whole number; less is a doubt
STAMPED_WITHIN_S = 0.03  # of its arrival a line is seen, on a busy machine
SHORTEST_S = 0.003  # of a step that a program prints: steps of one item that are faster are items
MUCH_APART = 0.25  # of rates to counted items: more than rounding and pauses explain
LEAST_SEVERAL = 1.5  # items of a step, by rates and the time between lines: else it has one
FEW_ITEMS = 5  # of a step, which have to be whole numbers
WIDEST_MISFIT = 0.02  # of the means of a run to when they came, as a share of the time
LINES_AT_ONCE = (
    f"its own times could not be compared with a clock, as its lines came at once; {curve.FLUSH}"
)
FEWEST_BURSTS = 20  # the last is of another size: with fewer, that is more than 5 % of them
FEW_BURSTS = f"its lines came many at once, and too few times to be timed; {curve.FLUSH}"
FILE_WITHOUT_TIMES = (
    "its own rates could not be compared with a clock, and its steps are taken to fill its run, as "
    "its file has no times; write them, too, and name them by time_s"
)
NEVER_CHANGES = "the speed that it printed never changes: its spread is unknown"
EVALUATES = (
    "it evaluates between its lines, and nothing tells how long a step takes; give "
    "command.items_per_step"
)
MISFIT = "the items of a step follow from its means only roughly; give command.items_per_step"


class NothingReadError(Exception):
    """Raised where no number was found, or none that a speed follows from; says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredProgram:
    """The numbers of one attempt."""

    samples: Sequence[StepSample]
    durations_s: Sequence[float]  # of the measured calls that count, per step
    measurement: Measurement
    doubts: Sequence[str]  # that only the reading of a program has
    window_s: tuple[float, float]  # on the monotonic clock
    note: str = ""  # what is to know of it, and no doubt

    def __post_init__(self) -> None:
        """Raise NothingReadError for a speed that no record holds."""
        throughput = self.measurement.throughput
        if not throughput < LARGEST_THROUGHPUT:
            raise NothingReadError(
                f"found {throughput:g} {unit_of(self.measurement.item)}; wanted less than "
                f"{LARGEST_THROUGHPUT:g}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRun:
    """What is known of a program that ended well."""

    spec: TrialSpec
    printed: curve.PrintedNumbers
    looks: Looks
    started_s: float  # on the monotonic clock
    ended_s: float


def measured_by(run: ProgramRun, items_per_step: float | None) -> MeasuredProgram:
    """Measure by steps where the program reports them, else take its own number.

    Raises NothingReadError.
    """
    spec, printed = run.spec, run.printed
    if printed.steps_fall:
        raise NothingReadError(
            "its step numbers fall, so that they are no steps done; print how many are done, or "
            "leave the step out of read="
        )
    if parted := two_phases(printed.rated):
        raise NothingReadError(f"its pattern reads lines of two phases: {parted}")
    summary = printed.summary
    counted = items_per_step or summary.items_per_step
    of_run = summary.of_run(counted)
    rate, item = of_run or (printed.curve.mean_rate, summary.item)
    if not printed.curve.points:
        if rate is None:
            raise NothingReadError(_instead(printed) or NO_NUMBER)
        return _reported(run, rate, item, REPORTED)
    run_s = run.ended_s - run.started_s if printed.is_file else 0.0
    try:
        calls = printed.curve.calls(counted, run_s=run_s)
    except curve.CurveError as error:
        if rate is None:
            why = _instead(printed) or f"found steps and no speed: {error}"
            raise NothingReadError(why) from error
        why = REPORTED
        if len(printed.curve.points) > 1:
            why = f"{REPORTED}; {error}"
            if of_run is None:
                why = (
                    "as reported by the program: the mean of the "
                    f"{len(printed.curve.points)} rates that it printed, warm-up included; {error}"
                )
        return _reported(run, rate, item, why)
    said = _window(spec, _by_clock(printed, calls))
    begin = said.num_warm_up
    both = curve.compared(said.calls.durations_s[begin:], said.calls.arrivals_s[begin:])
    better = said
    if both and both.lines_count and _are_comparable(printed, said):
        better = _window(spec, printed.curve.calls(said.calls.items_per_step, by_lines=True))
    window, misfits = _with_means(better, printed)
    _refuse_wrong_items(printed, window, both, items_per_step)
    of_phases, is_evaluation = curve.doubt_of_phases(
        printed.curve, window.calls, window.usual_step_s
    )
    if is_evaluation:
        raise NothingReadError(of_phases)
    is_known = window.calls.items_per_step is not None
    if not is_known and summary.total and rate:  # items are worth more than steps
        return _reported(run, rate, item, REPORTED)
    if not is_known and printed.unusable:
        raise NothingReadError(_instead(printed))
    item = label(spec, summary.item, is_known=is_known, is_reported=items_per_step is None)
    doubts = []
    num_measured = len(window.calls.durations_s) - window.num_warm_up
    if window.calls.in_bursts and num_measured < FEWEST_BURSTS:
        doubts.append(FEW_BURSTS)
    doubts += [
        *curve.doubts(printed.curve, window.calls),
        *filter(None, [of_phases]),
        *_of_items(spec, item, is_known=is_known),
        *_other_number(spec, printed, window, items_per_step),
        *_doubt_of_part(window),
        *misfits,
        *_apart(printed, said, both, window, item),
        *([EVALUATES] if _evaluates(printed, window) else []),
        *_doubts(run),
    ]
    return _timed(run, window, item, doubts)


def _by_clock(printed: curve.PrintedNumbers, calls: curve.Calls) -> curve.Calls:
    """Return calls by the arrival of lines, where the rates turn out to be means since the begin,
    and with the items of a step by most lines, where there are pauses between others.

    Raises NothingReadError for rates that are neither that nor those between the lines.
    """
    if not calls.is_fitted or printed.is_file:
        return calls
    fit = printed.curve.items_by_means(calls.arrivals_s[0])
    span_s = calls.arrivals_s[-1] - calls.arrivals_s[0]
    widest = _widest(WIDEST_APART, span_s)
    are_means = fit is not None and fit.is_mean and fit.misfit <= WIDEST_MISFIT
    if not are_means and (items := printed.curve.items_between_pauses):
        return printed.curve.calls(items)
    if fit is None or (not fit.is_mean and fit.misfit <= widest):
        if printed.curve.are_rates_mixed:
            raise NothingReadError(
                "its rates do not follow the time between its lines: of several phases, which "
                "`scalemark read LOG` tells apart, of batches of several sizes, or on a machine "
                "that was busy; give command.items_per_step, or print the items so far, too, and "
                "read them as items"
            )
        return calls
    if fit.is_mean:  # but for rounding, all lines agree
        widest = _widest(WIDEST_MISFIT, span_s)
    if fit.misfit > widest or (fit.is_mean and fit.drift > WIDEST_APART):
        raise NothingReadError(
            f"its rates and the time between its lines are "
            f"{max(fit.misfit, fit.drift):.0%} of the run apart: does it evaluate, save or print "
            f"late in between? Give command.items_per_step, as batch_size*num_gpus; {OTHER_NUMBERS}"
        )
    return printed.curve.calls(fit.items_per_step, by_lines=True)


def _widest(share: float, span_s: float) -> float:
    """Return by what share of their span lines may deny rates: each is seen a little late."""
    if span_s <= 0:
        return math.inf
    return max(share, STAMPED_WITHIN_S / span_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """Calls, of which the first are warm-up."""

    calls: curve.Calls
    num_warm_up: int
    steady: bool

    @property
    def start_s(self) -> float:
        return self.calls.arrivals_s[self.num_warm_up]

    @property
    def end_s(self) -> float:
        return self.calls.arrivals_s[-1]

    @property
    def span_s(self) -> float:
        return self.end_s - self.calls.arrivals_s[0]

    @property
    def length_s(self) -> float:
        return math.fsum(self.calls.durations_s[self.num_warm_up :])

    @property
    def usual_step_s(self) -> float:
        measured_s = self.calls.durations_s[self.num_warm_up :]
        return statistics.median(measured_s) / self.calls.steps_per_call


def _window(spec: TrialSpec, calls: curve.Calls) -> _Window:
    num_warm_up, steady = warm_up(calls.durations_s, calls.steps_per_call, spec.min_warm_up_steps)
    return _Window(calls=calls, num_warm_up=num_warm_up, steady=steady)


def _refuse_wrong_items(
    printed: curve.PrintedNumbers,
    window: _Window,
    both: curve.Compared | None,
    asked: float | None,
) -> None:
    """Raise NothingReadError for items that are counted, and rates or means that deny them, and for
    steps that are too fast to be of training, with many items each, as environment steps.
    """
    fit = printed.curve.items_by_means(window.start_s)
    may_be_items = printed.curve.has_steps and (fit is None or fit.items_per_step < LEAST_SEVERAL)
    if asked and asked > 1 and may_be_items and window.usual_step_s < FASTEST_STEP_S:
        raise NothingReadError(
            f"found {1 / window.usual_step_s:,.0f} steps per second, which may be items, as "
            "environment steps; give command.items_per_step=1 where they are, or print items per "
            "second"
        )
    counted, mean = printed.summary.items_per_step, printed.summary.mean
    if not both or not counted or asked is not None:
        return
    factor, apart = 1.0, MUCH_APART
    if printed.curve.mean_rate:
        factor = both.between_s / both.said_s
    elif fit and mean and not are_other(printed.summary.item, mean.item):
        factor = fit.items_per_step / counted
        apart = max(_widest(WIDEST_APART, window.span_s), fit.misfit)
    if abs(factor - 1) <= apart:
        return
    cause = "are its rates of one rank, and the items of all?"
    if abs(factor / max(2, round(factor)) - 1) <= WIDEST_APART:
        cause = "are the items of one rank, and its rates of all, or does it evaluate in between?"
    elif factor > 1:
        cause = "does it evaluate, save or print late in between?"
    raise NothingReadError(
        f"by its rates and the items that it counts {both.num_calls} lines took "
        f"{both.between_s / factor:.3g} s, and they took {both.between_s:.3g} s, "
        f"{factor:.3g} times as long; {cause} {OTHER_NUMBERS}"
    )


def _doubt_of_part(window: _Window) -> Iterator[str]:
    """Doubt few items per step, fitted to lines, that are not quite whole: the rates are off by
    little. Raises NothingReadError where they are by much.
    """
    items = window.calls.items_per_step or 1.0
    if not window.calls.is_fitted or items >= FEW_ITEMS:
        return
    part = abs(items - max(1, round(items))) / items
    said = f"by its rates and the time between its lines a step has {items:.3g} items"
    if part > _widest(REFUSED_APART, window.span_s):
        raise NothingReadError(f"{said}, so that it is no rate of training; {OTHER_NUMBERS}")
    if part > _widest(WIDEST_APART, window.span_s):
        yield (
            f"{said}, and wanted is a whole number: its rates may be a little off, or of something "
            "else"
        )


def _are_comparable(printed: curve.PrintedNumbers, said: _Window) -> bool:
    """Return whether the program says how long its steps took, and how many a line stands for."""
    items = printed.summary.items_per_step
    is_counted = printed.curve.has_steps or (items and items == said.calls.items_per_step)
    return bool(is_counted) and not said.calls.is_fitted


def _with_means(window: _Window, printed: curve.PrintedNumbers) -> tuple[_Window, Sequence[str]]:
    """Return the window with the items of a step by the program's means, and doubts of them."""
    if window.calls.items_per_step is not None:
        return window, ()
    fit = printed.curve.items_by_means(window.start_s)
    if fit is None:
        return window, ()
    calls = replace(window.calls, items_per_step=fit.items_per_step)
    return replace(window, calls=calls), (MISFIT,) if fit.misfit > WIDEST_MISFIT else ()


def _evaluates(printed: curve.PrintedNumbers, window: _Window) -> bool:
    """Return whether the time between most lines, by which steps are timed, holds an evaluation."""
    return window.calls.is_fitted and 2 * printed.num_evaluated >= len(printed.curve.points)


def _samples(window: _Window) -> list[StepSample]:
    calls, num_warm_up = window.calls, window.num_warm_up
    return [
        StepSample(
            step=index * calls.steps_per_call,
            phase=Phase.WARM_UP if index < num_warm_up else Phase.MEASURE,
            start_s=calls.starts_s[index],
            duration_s=duration_s,
            data_wait_s=0.0,
            loss=_storable(calls.losses[index]),
            num_steps=calls.steps_per_call,
        )
        for index, duration_s in enumerate(calls.durations_s)
    ]


def _timed(run: ProgramRun, window: _Window, item: str, doubts: Sequence[str]) -> MeasuredProgram:
    calls, printed = window.calls, run.printed
    samples = _samples(window)
    start_s, end_s = window.start_s, window.end_s
    if end_s - start_s < curve.LEAST_BETWEEN_S:  # its lines do not say when these steps were
        start_s, end_s = run.started_s, run.ended_s
    window_s = window.length_s
    taken = run.looks.taken(start_s, end_s)
    timed = measured.Timed(
        samples=samples,
        steady=window.steady,
        window_start_s=start_s,
        window_s=window_s,
        cpu_s=None if taken is None else taken.cpu_s * window_s / (end_s - start_s),
    )
    first_s = printed.first_arrival_s
    measurement = measured.measurement(
        timed,
        items_per_step=1.0 if calls.items_per_step is None else calls.items_per_step,
        time_to_first_step_s=None if first_s is None else first_s - run.started_s,
        first_loss=_storable(printed.first_loss),
        cores_taken_by_others=_others(run.spec, taken),
        peak_host_memory_bytes=run.looks.peak_bytes or None,
        knows_data_wait=False,
        item=item,
    )
    # of lines: the samples are of as many as came at once
    measurement = replace(measurement, last_loss=_storable(printed.last_loss))
    step_s = measurement.median_step_s or math.inf
    counts_items = abs((calls.items_per_step or 0.0) - 1) <= WIDEST_APART and step_s < SHORTEST_S
    note = ""
    if calls.clock is curve.Clock.RATE and measured.never_change(timed.step_durations_s()):
        # a number that never changes does not tell how much the speed varies
        note = NEVER_CHANGES
        measurement = replace(measurement, throughput_low=None, throughput_high=None, jitter_s=None)
    if (
        not printed.curve.has_steps or counts_items or _evaluates(printed, window)
    ):  # a line stands for any number of steps
        measurement = replace(measurement, median_step_s=None, jitter_s=None, p90_step_s=None)
    return MeasuredProgram(
        samples=samples,
        durations_s=timed.step_durations_s(),
        measurement=measurement,
        doubts=tuple(doubts),
        window_s=(start_s, end_s),
        note=note,
    )


def warm_up(durations_s: Sequence[float], steps_per_call: int, min_steps: int) -> tuple[int, bool]:
    """Return the number of calls before the first steady ones, and whether there are such.

    The trainer knows only the past, and takes the calls by which it sees the steady state for
    warm-up; here all are known, and these calls are measured, unless they begin with slow ones, or
    are all slower than most that follow, as before something was compiled. One call is always left.
    """
    least, num_calls = -(-min_steps // steps_per_call), len(durations_s)
    most = max(
        measured.MAX_WARM_UP_FACTOR * least,
        measured.MAX_WARM_UP_CALLS,
        num_calls // LONGEST_WARM_UP,
    )
    slower = 1 + measured.STEADY_TOLERANCE
    usual_s = statistics.median(durations_s[min(most, num_calls // 2) :])
    first_steady: int | None = None
    for begin in range(least, min(most, num_calls - STEADY_SPAN) + 1):
        span = durations_s[begin : begin + STEADY_SPAN]
        if not measured.is_steady(span):
            continue
        early, late = span[: measured.STEADY_CALLS], span[measured.STEADY_CALLS :]
        if statistics.median(span) > slower * usual_s:
            continue
        if max(early) <= max(slower * statistics.median(late), *late):
            return begin, True
        first_steady = begin if first_steady is None else first_steady
    if first_steady is not None:
        return first_steady, True
    return min(least, num_calls - 1), False


def _doubts(run: ProgramRun) -> Iterator[str]:
    """Doubt rates that are none, and a program that talks on and tells no numbers any more."""
    printed = run.printed
    if len(printed.unusable) > 1:  # the first one often has no time to be of
        yield (
            f"{len(printed.unusable)} of the printed rates are not usable, as "
            f"{printed.unusable[0]}; they are left out"
        )
    first_s, last_s = printed.first_arrival_s, printed.curve.last_arrival_s
    if first_s is None:
        return
    silent_s = run.ended_s - last_s
    if printed.num_lines_since >= LOST_LINES and silent_s >= LOST_SHARE * (last_s - first_s):
        yield (
            f"no number was read in the last {silent_s:.1f} of "
            f"{run.ended_s - run.started_s:.1f} s, in "
            f"which the program printed {printed.num_lines_since} lines; has its output changed?"
        )


def _of_items(spec: TrialSpec, item: str, *, is_known: bool) -> Iterator[str]:
    """Doubt items that are not those that were asked for, and steps in their place."""
    if is_known and are_other(spec.item, item):
        yield (
            f"the program counts {item}, and its numbers are kept so; for {spec.item} give "
            f"command.items_per_step, else command.item={item}"
        )
    elif not is_known and spec.item not in ("", STEPS):
        yield (
            f"steps are counted, as nothing tells how many {spec.item} a step has; give "
            "command.items_per_step"
        )


def _other_number(
    spec: TrialSpec, printed: curve.PrintedNumbers, window: _Window, asked: float | None
) -> Iterator[str]:
    """Doubt items per step that the program denies."""
    summary = printed.summary
    if asked is None or are_other(spec.item, summary.item):
        return
    num, apart = summary.items_per_step or printed.curve.items_by_rates, curve.TOLERANCE
    fit = printed.curve.items_by_means(window.start_s)
    if num is None and summary.mean and fit:
        num, apart = fit.items_per_step, max(apart, fit.misfit)
    if num is not None and abs(asked / num - 1) > apart:
        yield (
            f"command.items_per_step is {asked:.6g}, and by what the program prints a step has "
            f"{num:.6g}; does it count all GPUs, and the batches that are accumulated?"
        )


def _apart(
    printed: curve.PrintedNumbers,
    said: _Window,
    both: curve.Compared | None,
    used: _Window,
    item: str,
) -> Iterator[str]:
    """Doubt times that the program tells, and the time between its lines does not confirm."""
    if both is None and said.length_s >= curve.RESOLUTION_S:
        yield FILE_WITHOUT_TIMES if printed.is_file else LINES_AT_ONCE
    if both is None or both.agree or not _are_comparable(printed, said):
        return
    num_items = both.num_calls * said.calls.steps_per_call * (used.calls.items_per_step or 1.0)
    by_program, by_lines = num_items / both.said_s, num_items / both.between_s
    numbers = (
        f"by {said.calls.clock} it does {by_program:.4g} {unit_of(item)}, and by the time between "
        f"its lines {by_lines:.4g}"
    )
    if used is said:
        yield f"{numbers}; the first counts: does it evaluate, save or print late in between?"
    elif both.exceeds:
        yield f"{numbers}{LINES_COUNT}: do some of its times hold more, as an evaluation?"
    else:
        yield (
            f"{numbers}{LINES_COUNT}: does it evaluate before each, time one step of "
            "several, or not wait for its devices?"
        )


def _instead(printed: curve.PrintedNumbers) -> str:
    """Say what stood where a rate was expected; empty where rates stood there."""
    if not printed.unusable:
        return ""
    return (
        f"found {printed.unusable[0]} where a rate was expected; wanted a number from {SLOWEST:g} "
        f"to {FASTEST:g}"
    )


def _reported(run: ProgramRun, throughput: float, reported_item: str, why: str) -> MeasuredProgram:
    """Keep the program's own number of its whole run, of the item that it reports; no time of a
    step is known, and `why` says what is known instead.
    """
    item = label(run.spec, reported_item, is_known=True, is_reported=True)
    taken = run.looks.taken(run.started_s, run.ended_s)
    measurement = Measurement(
        throughput=throughput,
        num_steps=0,
        window_s=run.ended_s - run.started_s,
        num_warm_up_steps=0,
        steady=False,
        cpu_s=None if taken is None else taken.cpu_s,
        cores_taken_by_others=_others(run.spec, taken),
        peak_host_memory_bytes=run.looks.peak_bytes or None,
        first_loss=_storable(run.printed.first_loss),
        last_loss=_storable(run.printed.last_loss),
        item=item,
        reported=True,
    )
    return MeasuredProgram(
        samples=(),
        durations_s=(),
        measurement=measurement,
        doubts=(why, *_of_items(run.spec, item, is_known=True)),
        window_s=(run.started_s, run.ended_s),
    )


def _others(spec: TrialSpec, taken: TakenResources | None) -> float | None:
    """Return None also for one of several hosts: others of the trial may be on its machine."""
    if taken is None or spec.hosts > 1:
        return None
    return taken.cores_taken_by_others


def _storable(loss: float | None) -> float | None:
    if loss is not None and abs(loss) <= LARGEST_FLOAT32:
        return loss
    return None
