"""Follows the steps that a program tells of, and cuts its readings into calls of equal size."""

import math
import re
import statistics
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from command.ends import says_memory_ran_out
from command.points import Column, Fit, Points, RunSummary, are_last, fitted
from scalemark.readers.opening import Reader, Reading
from scalemark.readers.words import EVALUATION
from scalemark.records.trial import TrialSpec

TOLERANCE = 0.05  # of two clocks, as a share of the time
LEAST_BETWEEN_S = 0.05  # between lines: the watcher stamps them to a few milliseconds
_LEAST_APART_S = 0.01  # likewise, where many are taken together
RESOLUTION_S = 0.1  # of sums of such times
_FEWEST = 4  # intervals by which pauses are distinguished from steps that took longer than they say


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A comparison of the same steps by two clocks."""

    num_calls: int
    said_s: float
    between_s: float
    usual: float | None  # median of time between lines over time said; None: of too few

    @property
    def agree(self) -> bool:
        apart_s = abs(self.between_s - self.said_s)
        return apart_s <= max(TOLERANCE * self.said_s, RESOLUTION_S)

    @property
    def exceeds(self) -> bool:
        """Return whether more time is said than there was."""
        return not self.agree and self.said_s > (1 + TOLERANCE) * self.between_s

    @property
    def lines_count(self) -> bool:
        """Return whether it is not a few pauses by which both differ."""
        is_usual = self.usual is not None and abs(self.usual - 1) > TOLERANCE
        return self.exceeds or (is_usual and not self.agree)


def compared(durations_s: Sequence[float], arrivals_s: Sequence[float]) -> Compared | None:
    """Compare calls with the arrivals at their edges; None where all came at once."""
    first = 0
    while first < len(durations_s) and arrivals_s[first + 1] <= arrivals_s[first]:
        first += 1  # lines that came together: none tells when the first of them was done
    ratios: list[float] = []
    said_s, begin_s = 0.0, arrivals_s[first]
    for duration_s, end_s in zip(durations_s[first:], arrivals_s[first + 1 :], strict=True):
        said_s += duration_s
        if end_s - begin_s >= LEAST_BETWEEN_S and said_s > 0:
            ratios.append((end_s - begin_s) / said_s)
            said_s, begin_s = 0.0, end_s
    if not ratios:
        return None
    return Compared(
        num_calls=len(durations_s) - first,
        said_s=sum(durations_s[first:]),
        between_s=arrivals_s[-1] - arrivals_s[first],
        usual=statistics.median(ratios) if len(ratios) >= _FEWEST else None,
    )


MOST_CALLS = 20_000
MOST_STEPS = 2**31 - 1  # as databases have it
FLUSH = "have it flush its output (python -u, flush=True, stdbuf -oL)"
TOO_CLOSE = f"its lines came too close together to be timed; {FLUSH}"


class Clock(StrEnum):
    """The origin of the times of steps."""

    RATE = "the program's own rates"
    OWN = "the program's own clock"
    ARRIVAL = "the arrival of its lines"


class CurveError(Exception):
    """Raised for readings that no time of a step follows from; says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """Steps in calls of equal size."""

    steps_per_call: int
    starts_s: Sequence[float]  # from the beginning of the first
    durations_s: Sequence[float]
    losses: Sequence[float | None]  # the last one known at the end of each
    # on the monotonic clock: the beginning of the first, then the end of each
    arrivals_s: Sequence[float]
    clock: Clock
    items_per_step: float | None  # as asked for, or by the program's rates; None where none tells
    is_fitted: bool = False  # the rates were fitted to the time between the lines
    in_bursts: bool = False  # lines that are timed by arrival came many at once, at long intervals


class Readings(NamedTuple):
    """Columns of readings in their order."""

    steps: Column  # so far
    times: Column  # by the clock that is cut by
    arrivals: Column  # on the monotonic clock
    losses: Column

    def where(self, chosen: NDArray[np.bool_]) -> "Readings":
        """Return the readings that are chosen."""
        return Readings(*[column[chosen] for column in self])


def cut(clock: Clock, readings: Readings, items_per_step: float | None) -> Calls:
    """Cut by interpolation between the readings. Raises CurveError."""
    times = readings.times
    # lines that come faster are taken together: `command.watch` reads them every few milliseconds
    least_call_s = LEAST_BETWEEN_S if clock is Clock.ARRIVAL else 0.0
    if len(times) > 1 and times[-1] - times[0] <= least_call_s:
        raise CurveError(TOO_CLOSE)
    in_bursts = False
    if clock is not Clock.RATE:  # of lines that came at once, the last tells how far it was
        is_last = are_last(times)
        readings = readings.where(is_last)
        if clock is Clock.ARRIVAL and is_last.mean() < 0.5:
            in_bursts = float(np.median(np.diff(readings.times))) > LEAST_BETWEEN_S
    gaps = np.diff(readings.steps)
    usual = int(np.median(gaps[gaps > 0])) if (gaps > 0).any() else int(readings.steps[-1])
    usual = max(1, usual)
    if clock is Clock.RATE and readings.steps[0] >= 1:
        readings = _with_the_first(readings, usual)
    steps = readings.steps
    size = _size(readings, usual, least_call_s)
    # from the end: the first gap is the one that is often of another size
    edges = steps[-1] - size * np.arange(int((steps[-1] - steps[0]) // size), -1, -1)
    at_edges = np.interp(edges, steps, readings.times)
    last_rows = np.searchsorted(steps, edges[1:], side="right") - 1
    losses = readings.losses[last_rows]
    came = readings.where(are_last(readings.arrivals))
    return Calls(
        steps_per_call=size,
        starts_s=(at_edges[:-1] - at_edges[0]).tolist(),
        durations_s=np.diff(at_edges).tolist(),
        losses=[loss if math.isfinite(loss) else None for loss in losses.tolist()],
        arrivals_s=np.interp(edges, came.steps, came.arrivals).tolist(),
        clock=clock,
        items_per_step=items_per_step,
        in_bursts=in_bursts,
    )


def _with_the_first(readings: Readings, usual: int) -> Readings:
    """Return readings by rates with the moment when the steps of the first one began: the first
    rate is of the steps before it, and of no more than `usual` where the program resumes.
    """
    steps, times = readings.steps, readings.times
    begun = min(float(steps[0]), usual)
    return Readings(
        steps=np.concatenate([[steps[0] - begun], steps]),
        times=np.concatenate([[times[0] * (1 - begun / steps[0])], times]),
        arrivals=np.concatenate([readings.arrivals[:1], readings.arrivals]),
        losses=np.concatenate([[math.nan], readings.losses]),
    )


def _size(readings: Readings, usual: int, least_call_s: float) -> int:
    """Return the steps of a call. Raises CurveError."""
    num_steps = readings.steps[-1] - readings.steps[0]
    total_s = readings.times[-1] - readings.times[0]
    if num_steps < 1:
        raise CurveError("it reported one moment only; a step takes from one to the next")
    if num_steps > MOST_STEPS:
        raise CurveError(f"it reported {num_steps:.3g} steps; has `read` taken another number?")
    least_s = max(least_call_s, total_s / MOST_CALLS)
    usual_s = total_s / num_steps * usual
    return int(min(usual * max(1, math.ceil(least_s / usual_s)), num_steps))


_LEAST_COARSE_S = 20.0  # a clock of whole seconds is good enough for a file of so long


class StepCurve:
    """Takes readings in their order."""

    def __init__(self) -> None:
        self.last_arrival_s = 0.0
        self.unsure_steps = 0
        self.began_anew_s: list[float] = []  # when the numbers of steps did
        self._last_step: int | None = None
        self._steps_before = 0
        self._begin()

    def _begin(self) -> None:
        self.points = Points()
        self.num_steps = 0

    @property
    def has_steps(self) -> bool:
        """Return whether the program numbers its steps: readings without one are passed over."""
        return self._last_step is not None

    def add(
        self,
        reading: Reading,
        arrival_s: float,
        loss: float | None,
        mean: float | None = None,
    ) -> bool:
        """Take a reading with a step or a rate, which is of all replicas, as is `mean`, in items
        per second over all steps so far; return whether it tells of something new.

        A step that is not above the one before takes back what was counted from it on.
        """
        num_steps = self._num_new(reading.step)
        if num_steps is None:
            return False
        self.last_arrival_s = arrival_s
        self.unsure_steps = reading.unsure_steps
        if reading.steps_before != self._steps_before:
            self._steps_before = reading.steps_before
            self.began_anew_s.append(arrival_s)
        self.num_steps += num_steps
        self.points.add(
            steps=self.num_steps,
            epoch_began=reading.epoch_began,
            arrivals=arrival_s,
            own_s=reading.time_s,
            rates=reading.throughput or None,
            step_s=reading.step_s or None,
            losses=loss,
            means=mean,
        )
        return True

    def place(self, epoch_s: float, started_s: float, ended_s: float) -> None:
        """Take the program's own times for the arrivals of what came at once, as from a file.

        A clock that counts from 1970, which began at `epoch_s` of the monotonic clock, tells when
        it was; any other is taken to end with the program.
        """
        own_s = self.points["own_s"]
        if not _goes_on(own_s):
            return
        if own_s[-1] - own_s[0] < (_LEAST_COARSE_S if _is_whole(own_s) else LEAST_BETWEEN_S):
            return
        at_s = own_s + epoch_s
        if at_s[0] < started_s or at_s[-1] > ended_s + 1:
            at_s = own_s - own_s[-1] + ended_s
        self.points.move(at_s)

    @property
    def mean_rate(self) -> float | None:
        """Return the items per second of all that was rated; None without a rate."""
        steps, per_rate = self.points.total(self.points.per_rate)
        if steps and per_rate:
            return steps / per_rate
        return None

    def calls(
        self, items_per_step: float | None, *, run_s: float = 0.0, by_lines: bool = False
    ) -> Calls:
        """Cut the curve. `by_lines`: what the program says of time is passed over.

        Rates of lines that came at once are spread over `run_s`. Raises CurveError.
        """
        points = self.points
        arrivals = points["arrivals"]
        by_arrival = Readings(points["steps"], arrivals, arrivals, points["losses"])
        if by_lines:
            return cut(Clock.ARRIVAL, by_arrival, items_per_step)
        for column, is_rate in ((points.seconds, False), (points.per_rate, True)):
            known = np.isfinite(column)
            if known.sum() * 2 <= len(column):
                continue
            readings, items = by_arrival._replace(times=column).where(known), items_per_step
            if is_rate:
                items = items or _items(readings.arrivals, readings.times, run_s)
                readings = readings._replace(times=readings.times * items)
            elif items is None:
                items = self.items_by_rates
            calls = cut(Clock.RATE, readings, items)
            return replace(calls, is_fitted=is_rate and items_per_step is None)
        if _goes_on(points["own_s"]) and not _is_whole(points["own_s"]):
            return cut(Clock.OWN, by_arrival._replace(times=points["own_s"]), items_per_step)
        return cut(Clock.ARRIVAL, by_arrival, items_per_step)

    @property
    def items_by_rates(self) -> float | None:
        """Return the items per step of a program that tells both items/s and the time of a step."""
        _, seconds = self.points.total(self.points.seconds)
        _, per_rate = self.points.total(self.points.per_rate)
        if seconds and per_rate:
            return seconds / per_rate
        return None

    def items_by_means(self, begin_s: float) -> Fit | None:
        """Return the items per step by the means of lines that came from `begin_s` on, or of all
        where these are few.
        """
        points = self.points
        known = np.isfinite(points["means"])
        columns = [points[name][known] for name in ("steps", "epoch_began", "arrivals", "means")]
        steps, epoch_began, arrivals, means = columns
        of_window = fitted(steps, epoch_began, arrivals, means, begin_s)
        return of_window or fitted(steps, epoch_began, arrivals, means, -math.inf)

    @property
    def are_rates_mixed(self) -> bool:
        """Return whether rates go up and down as the time between lines does not: some are of
        another phase, or of batches of another size. By either way of counting, a mean over the
        time or over equal batches, the rates of equal batches are the same.
        """
        num_steps, of_rates, between_s = self._between_lines()
        if not len(between_s):
            return False
        by_time = np.average(num_steps / of_rates, weights=between_s)
        return bool(by_time > (1 + TOLERANCE) * num_steps.sum() / of_rates.sum())

    @property
    def items_between_pauses(self) -> float | None:
        """Return the items per step by the rates and the time between those lines that come soon
        after each other; None without pauses between others.
        """
        _, of_rates, between_s = self._between_lines()
        if not len(between_s) or self.are_rates_mixed:
            return None
        items = between_s / of_rates
        is_soon = items <= _JUMP * np.quantile(items, 0.25)
        usual, all_s = between_s[is_soon].sum() / of_rates[is_soon].sum(), between_s.sum()
        pauses_s = all_s - usual * of_rates.sum()
        return float(usual) if pauses_s > max(TOLERANCE * all_s, RESOLUTION_S) else None

    def _between_lines(self) -> Column:
        """Return the steps between lines with rates, the seconds by these if a step had one item,
        and those that passed; nothing of too few lines, or of close ones.
        """
        points = self.points
        lines = np.array([points["steps"], points.per_rate, points["arrivals"]])
        lines = lines[:, np.isfinite(lines[1])]
        # smoothed ones may hold a slow begin for long
        between = np.diff(lines[:, lines.shape[1] // 3 :])
        if between.shape[1] < _FEWEST or np.quantile(between[2], 0.25) < _LEAST_APART_S:
            return np.empty((3, 0))  # so close, their clock is that of the watcher
        return between

    def _num_new(self, step: int | None) -> int | None:
        """Return how many steps a reading adds; None for one that tells of no new ones."""
        if step is None:
            return None if self.has_steps else 1
        if not self.has_steps:
            self._begin()  # these are better than what was read so far
        if self._last_step is not None and step <= self._last_step:
            # it was an evaluation, and training goes on
            self._last_step = self.num_steps = self.points.drop(step)
        last = self._last_step or 0
        self._last_step = step
        return max(0, step - last)


def _items(arrivals: Column, per_rate: Column, run_s: float) -> float:
    """Return the items per step by which the rates fill the time between the lines, or of lines
    that came at once `run_s`.

    Raises CurveError.
    """
    between_s, of_rates = arrivals[-1] - arrivals[0], per_rate[-1] - per_rate[0]
    if between_s < LEAST_BETWEEN_S:
        between_s = run_s
    if between_s <= 0 or of_rates <= 0:
        raise CurveError(TOO_CLOSE)
    return float(between_s / of_rates)


def _goes_on(own_s: Column) -> bool:
    return len(own_s) > 1 and bool(np.isfinite(own_s).all() and (np.diff(own_s) >= 0).all())


def _is_whole(own_s: Column) -> bool:
    return bool((own_s == np.floor(own_s)).all())


MOST_UNSURE = 0.01  # of all steps
_JUMP = 1.5  # between the speeds of training and of an evaluation
_FEWEST_CALLS = 2  # by which a speed is known


def doubts(curve: StepCurve, calls: Calls) -> Iterator[str]:
    """Doubt the number of steps."""
    if calls.clock is not Clock.RATE and curve.unsure_steps > MOST_UNSURE * curve.num_steps:
        yield (
            f"{curve.num_steps} steps are counted, which may be wrong by {curve.unsure_steps}, as "
            "no line says how many steps an epoch has; print it, and read it as epoch_steps"
        )


def doubt_of_phases(curve: StepCurve, calls: Calls, usual_s: float) -> tuple[str, bool]:
    """Doubt that all steps were training where their time jumps as their numbers begin anew; and
    say whether `usual_s`, that of those measured, may be the time of an evaluation.
    """
    step_s = np.array(calls.durations_s) / calls.steps_per_call
    sections = np.searchsorted(curve.began_anew_s, calls.arrivals_s[1:])
    parts = [step_s[sections == number] for number in range(len(curve.began_anew_s) + 1)]
    times = [float(np.median(part)) for part in parts if len(part) >= _FEWEST_CALLS]
    jumps = [pair for pair in pairwise(times) if _is_jump(*pair)]
    if not jumps or (len(jumps) == 1 and not _is_jump(*times[-2:])):
        return "", False  # the first epoch is slow
    before_s, after_s = jumps[-1]
    doubt = (
        f"a step took {before_s:.3g} s, and {after_s:.3g} s after its number had begun anew: "
        "is that an evaluation? Leave it out of the run, or print the number of the epoch"
    )
    return doubt, len(jumps) > 1 or _is_jump(jumps[0][0], usual_s)


def _is_jump(time_s: float, other_s: float) -> bool:
    return max(time_s, other_s) > _JUMP * min(time_s, other_s)


LOSS = "loss"
MOST_METRICS = 50
MOST_SINCE = 100  # lines that are kept
MOST_LOSSES = 1000  # that are kept
MOST_RATED = 2000  # lines whose words are kept
_LONGEST_NAME = 60
_WORD = re.compile(r"[a-z]+")


class PrintedNumbers:
    """The numbers that a program has printed so far, by its reader. Rates are of all replicas."""

    def __init__(self, spec: TrialSpec, reader: Reader) -> None:
        self.curve = StepCurve()
        self.summary = RunSummary(spec.item)
        # words and rates of lines that a pattern takes: perhaps of an evaluation as well
        self.rated: list[tuple[frozenset[str], float]] = []
        # the last value of each, but the loss; none of what is not finite at the end
        self.metrics: dict[str, float] = {}
        self.first_loss: float | None = None
        self._losses: deque[float] = deque(maxlen=MOST_LOSSES)
        self._num_losses = 0
        self.steps_fall = False  # their numbers are of steps that are left
        self.is_file = False  # it was read after the end: nothing is known of when it was written
        self.first_arrival_s: float | None = None  # of a line that tells of steps
        self.unusable: list[str] = []  # what stood where rates were expected
        self.num_unfinite_losses = self.num_lines_since = self._num_read = 0
        self.num_evaluated = 0  # lines of steps before which others tell of an evaluation
        # the last line that says that memory ran out: since a number was read, and before one
        self.ran_out = self.went_on_after = ""
        self.lines_since = deque[str](maxlen=MOST_SINCE)  # since a number was read
        self._spec, self._reader = spec, reader

    @property
    def last_loss(self) -> float | None:
        """Return the median of the last tenth of the losses; None where one is not finite.

        Lines count and not when they came, so that equal programs have equal losses.
        """
        num = min(math.ceil(self._num_losses / 10), MOST_LOSSES)
        last = list(self._losses)[-num:]
        if not last or not all(map(math.isfinite, last)):
            return None
        return statistics.median(last)

    @property
    def rated_by(self) -> str:
        """Say that several ranks print a rate, which may be of their own items; empty of one."""
        if (num := len(self._reader.rated_ranks)) > 1:
            return f"{num} ranks print a rate"
        if (num := 1 + self._reader.num_repeated // max(1, self._num_read)) > 1:
            return f"each step is printed {num} times, as by {num} ranks"
        return ""

    def take_line(self, line: str, arrival_s: float) -> None:
        """Read a line. Raises ReadError where that takes too long."""
        self.num_lines_since += 1
        self.lines_since.append(line)
        if says_memory_ran_out(line):
            self.ran_out = line
        if reading := self._reader.read_line(line):
            self._num_read += not reading.is_of_metrics
            self._take(reading, arrival_s)

    def read_files(self, folder: Path, started_s: float, ended_s: float, epoch_s: float) -> None:
        """Take what its last lines said, and where no lines reported steps, what the program left
        in its run folder.

        1970 began at `epoch_s` of the monotonic clock. Raises ReadError.
        """
        for reading in self._reader.at_end():
            self._take_metrics(reading)
        if self.curve.points:
            return
        self.is_file = True
        for reading in self._reader.read_files(folder):
            self._take(reading, ended_s)
        self.curve.place(epoch_s, started_s, ended_s)

    def _take(self, reading: Reading, arrival_s: float) -> None:
        if reading.steps_fall or reading.step is not None:
            self.steps_fall = reading.steps_fall
        self._take_metrics(reading)
        if reading.unusable:
            self.unusable.append(reading.unusable)
            del self.unusable[1000:]
        reading = self._of_all_replicas(reading)
        rate = reading.throughput or (1 / reading.step_s if reading.step_s else None)
        if rate and reading.line_words and reading.step is None and len(self.rated) < MOST_RATED:
            self.rated.append((reading.line_words, rate))
        self.summary.take(reading)
        mean: float | None = None
        if reading.is_total and reading.step is None:
            if reading.has_rate and self.summary.take_total(reading):
                self._take_mean(reading)
            return
        if reading.is_mean:
            self._take_mean(reading)
            mean, reading = reading.throughput, replace(reading, throughput=None, step_s=None)
        elif self._spec.items_per_step and self.summary.is_other(reading):
            reading = replace(reading, throughput=None)  # these would be no items of these steps
        elif reading.throughput:
            mean = reading.throughput  # a mean may have a plain name: its times will tell
        if reading.step is None and not reading.has_rate and mean is None:
            return
        if self.curve.add(reading, arrival_s, reading.metrics.get(LOSS), mean):
            between = " ".join(list(self.lines_since)[:-1]).lower()
            self.num_evaluated += not EVALUATION.isdisjoint(_WORD.findall(between))
            self.num_lines_since = 0
            self.lines_since.clear()
            self.went_on_after, self.ran_out = self.ran_out or self.went_on_after, ""
            if self.first_arrival_s is None and not self.is_file:
                self.first_arrival_s = arrival_s

    def _take_mean(self, reading: Reading) -> None:
        if reading.throughput and reading.step is None and self.curve.has_steps:
            self.curve.points.add_mean(reading.throughput)

    def _of_all_replicas(self, reading: Reading) -> Reading:
        is_per_gpu = reading.per_gpu
        if reading.per_gpu is None:
            is_per_gpu = self._spec.per_gpu
        if not is_per_gpu:
            return reading
        of_all = self._spec.num_gpus
        throughput, items = reading.throughput, reading.items_per_step
        return replace(
            reading,
            throughput=None if throughput is None else throughput * of_all,
            items_per_step=None if items is None else items * of_all,
        )

    def _take_metrics(self, reading: Reading) -> None:
        for name, value in reading.metrics.items():
            if name == LOSS:
                if not math.isfinite(value):
                    self.num_unfinite_losses += 1
                elif self.first_loss is None:
                    self.first_loss = value
                self._losses.append(value)
                self._num_losses += 1
                continue
            name = name[:_LONGEST_NAME]
            has_room = name in self.metrics or len(self.metrics) < MOST_METRICS
            if not math.isfinite(value):
                self.metrics.pop(name, None)  # an earlier value is not the last one
            elif has_room:
                self.metrics[name] = float(value)
