"""Finds the largest or the best batch of each cell, by rounds of short attempts that are sweeps of
their own, and prints the frontier. What the database knows is not tried again.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from statistics import median

from conf.schema import SweepConfig
from scalemark.cli.terminal import make_console, print_columns
from scalemark.records.axes import Engine, bare_name
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import WENT_ON, Outcome, unit_of
from scalemark.records.trial import TrialSpec
from scalemark.text.wording import as_typed, fixed
from store.database import open_existing
from store.reading.earlier import SEARCH, Where, ended, last_attempt
from store.reading.queries import Row
from store.writer import delete_of_searches
from sweeper.grid.plan import varying_axes
from sweeper.grid.search import (
    MOST_ATTEMPTS,
    SearchGoal,
    ValueSearch,
    largest,
    next_doubled,
    next_value,
)
from sweeper.report import Report

Measure = Callable[[Sequence[TrialSpec], SweepConfig], Report]
"""Runs trials as a sweep of these settings."""
_DOES_NOT_FIT = (Outcome.OUT_OF_MEMORY, Outcome.TIMED_OUT, Outcome.HUNG)
_FEW_STEPS = {"num_steps": 3, "min_warm_up_steps": 1, "min_warm_up_s": 0.0, "min_window_s": 0.0}


def _why_not(end: Row) -> str:
    """Say why a value does not fit, by the end of an attempt at it; empty where it tells no why."""
    if end["outcome"] in _DOES_NOT_FIT:
        return str(end["outcome"]).replace("_", " ")
    if any(reason.startswith(WENT_ON) for reason in end["verdict_reasons"] or ()):
        return "out of memory, and went on with less"
    return ""


class Searching:
    """Looks for a value in each of some cells, and knows what was found so far."""

    def __init__(
        self, searches: Sequence[ValueSearch], sweep: SweepConfig, url: str, where: Where
    ) -> None:
        self.searches, self._sweep, self._url, self._where = searches, sweep, url, where
        engine = open_existing(url)
        if engine and sweep.rerun:
            self._where = replace(where, after=last_attempt(engine))
        self._tried: set[str] = set()  # trials, by this process
        # of each search: value -> how attempts at it ended, and of these those that measured it
        self._ends: list[dict[int, list[Row]]] = [{} for _ in searches]
        self._full: list[dict[int, list[Row]]] = [{} for _ in searches]
        self._learn()

    def run(self, name: str, measure: Measure, known: Sequence[TrialSpec]) -> Report:
        """Look, then measure what was found together with `known` trials. Where a value runs out
        of memory only when it is measured, go on below it.
        """
        measured: list[TrialSpec] = []
        while True:
            while trials := self._next_trials():
                axis = self.searches[0].axis
                values = {f"{bare_name(axis)}={as_typed(spec.axes[axis])}" for spec in trials}
                print(f"sweep: search: tries {', '.join(sorted(values))}", file=sys.stderr)
                self._tried.update(spec.trial_id for spec in trials)
                report = measure(trials, self._settings(name))
                self._learn_and_hide()
                if report.ran.was_interrupted or report.ran.failure or report.ran.num_not_started:
                    return report
            chosen = {spec.trial_id: spec for spec in (*known, *self.chosen())}
            if list(chosen.values()) == measured:
                self._print_frontier()
                return report
            measured = list(chosen.values())
            report = measure(measured, self._sweep)
            self._learn_and_hide()
            if report.ran.was_interrupted or report.ran.failure:
                return report

    def chosen(self) -> list[TrialSpec]:
        """Return the trial of each search that is measured, as far as is known: the largest that
        ran, or the best; the least where none ran, and one that failed for another reason.
        """
        return [search.specs[self._chosen(number)] for number, search in enumerate(self.searches)]

    @property
    def is_over(self) -> bool:
        """Return whether the database knows already what is looked for."""
        return not self._next_trials()

    def _settings(self, name: str) -> SweepConfig:
        """Return the settings of a round."""
        looks_for_best = any(search.goal is SearchGoal.BEST for search in self.searches)
        return replace(
            self._sweep,
            name=f"{name[: 100 - len(SEARCH)]}{SEARCH}",
            repeats=self._sweep.repeats if looks_for_best else 1,
            rerun=False,
        )

    def _next_trials(self) -> list[TrialSpec]:
        trials = []
        for number, search in enumerate(self.searches):
            value = self._next_value(number)
            if value is not None:
                trials.append(_tried_as(search, value))
        return [spec for spec in trials if spec.trial_id not in self._tried]

    def _next_value(self, number: int) -> int | None:
        search, ran = self.searches[number], self._ran(number)
        if search.goal is SearchGoal.BEST:
            return next_doubled(search, ran, self._gains(number))
        tried = [
            ends for ends in self._ends[number].values() if any(end["is_of_search"] for end in ends)
        ]
        return next_value(search, ran, MOST_ATTEMPTS - len(tried))

    def _chosen(self, number: int) -> int:
        search, ran = self.searches[number], self._ran(number)
        value = self._next_value(number)
        has_failed = value is not None and _tried_as(search, value).trial_id in self._tried
        if value is not None and has_failed and self._ends[number].get(value):
            return value  # not for lack of memory; without an end a budget left it out
        least = min(search.specs)
        if search.goal is SearchGoal.BEST:
            speeds = {value: self._speeds(number, value) for value, does in ran.items() if does}
            return max(speeds, key=lambda value: median(speeds[value]), default=least)
        most = (largest(ran) or least) * (1 - self._sweep.margin)
        return max((value for value in search.specs if value <= most), default=least)

    def _gains(self, number: int) -> bool:
        """Return whether the last value that ran was faster than the one before, beyond the noise:
        no interval of one meets one of the other.
        """
        values = [value for value, does in sorted(self._ran(number).items()) if does]
        if len(values) < 2:
            return True
        before, last = (self._full[number][value] for value in values[-2:])
        lows = [end["throughput_low"] or end["throughput"] for end in last]
        highs = [end["throughput_high"] or end["throughput"] for end in before]
        return bool(min(filter(None, lows)) > max(filter(None, highs)))

    def _ran(self, number: int) -> dict[int, bool]:
        """Return of each value with an answer whether it runs: always, so far."""
        ran = {}
        for value, ends in self._ends[number].items():
            if any(map(_why_not, ends)):
                ran[value] = False
            elif Outcome.COMPLETED in [end["outcome"] for end in ends]:
                ran[value] = True
        return ran

    def _speeds(self, number: int, value: int) -> list[float]:
        ends = self._full[number][value]
        return [end["throughput"] for end in ends if end["throughput"]]

    def _learn(self) -> list[str]:
        """Read how attempts ended; return the trials among them that are of few steps."""
        engine = open_existing(self._url)
        if engine is None:
            return []
        tried, full = [], []
        for search in self.searches:
            tried += [_tried_as(search, value).trial_id for value in search.specs]
            full += [spec.trial_id for spec in search.specs.values()]
        found = ended(engine, [*dict.fromkeys([*tried, *full])], self._where)
        for number, search in enumerate(self.searches):
            for value, spec in search.specs.items():
                ids = dict.fromkeys((_tried_as(search, value).trial_id, spec.trial_id))
                self._ends[number][value] = [end for each in ids for end in found.get(each, ())]
                self._full[number][value] = found.get(spec.trial_id, [])
        return sorted(found.keys() & set(tried) - set(full))

    def _learn_and_hide(self) -> None:
        """Read how attempts ended, and have those of few steps count nowhere else."""
        delete_of_searches(self._url, self._learn(), datetime.now(UTC))

    def _print_frontier(self) -> None:
        """Print what was found in each cell: on stdout, as a result."""
        specs = self.chosen()
        axis, goal = self.searches[0].axis, self.searches[0].goal
        varying = varying_axes(specs) - {axis, "num_gpus", "hosts"}
        if specs[0].engine == Engine.command:  # its strategy is named by them
            varying = set()
        word = "largest" if goal is SearchGoal.MAX else "best"
        columns = ["model", "strategy", DeviceKind(specs[0].device_kind).plural]
        columns += [
            *map(bare_name, sorted(varying)),
            f"{word} {bare_name(axis)}",
            "peak memory",
            "throughput",
            "beyond it",
        ]
        rows = []
        for number, spec in enumerate(specs):
            strategy = self.searches[number].without_axis(spec).strategy
            row = [spec.model, strategy, str(spec.num_gpus)]
            row += [as_typed(spec.axes[name]) for name in sorted(varying)]
            rows.append([*row, *self._found(number)])
        print_columns(make_console(), columns, rows, right=columns[2:-1])

    def _found(self, number: int) -> list[str]:
        """Return of a cell the value, its peak memory, its throughput, and what ends it there."""
        search, ran, value = self.searches[number], self._ran(number), self._chosen(number)
        ends = self._ends[number]
        beyond = min((other for other, does in ran.items() if not does), default=None)
        why = "largest that was asked for"
        if beyond is not None:
            whys = list(filter(None, map(_why_not, ends[beyond])))
            why = f"{beyond} {whys[0]}"
        elif largest(ran) != max(search.specs):
            why = "no gain" if search.goal is SearchGoal.BEST else "not tried"
        if not ran.get(value):
            if beyond == min(search.specs):
                return ["none", "", "", why]
            why = "failed, not for lack of memory" if ends.get(value) else "not tried"
            return ["unknown", "", "", f"{value} {why}"]
        if beyond is not None and self._next_value(number) is not None:
            why += ", some between not tried"
        full = self._full[number][value]
        peaks = [end["peak_bytes"] for end in full if end["peak_bytes"]]
        peak = f"{fixed(max(peaks) / 2**30, 2)} GiB" if peaks else "unknown"
        throughput = "unknown"
        if speeds := self._speeds(number, value):
            item = next(end["item"] for end in full if end["item"])
            throughput = f"{fixed(median(speeds), 1)} {unit_of(item)}"
        return [str(value), peak, throughput, why]


def _tried_as(search: ValueSearch, value: int) -> TrialSpec:
    """Return the trial that says whether a value runs: of our own models in a few steps, of a
    program the whole of it, for it may print nothing before.
    """
    spec = search.specs[value]
    if search.goal is SearchGoal.BEST or spec.engine == Engine.command:
        return spec
    fewest = {name: min(getattr(spec, name), most) for name, most in _FEW_STEPS.items()}
    return replace(spec, **fewest)
