"""Predictions against what was published: each source's rows on many GPUs from its own rows on
few.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, TypeVar

import numpy as np

from analysis.calibration.efficiency import Efficiency
from analysis.calibration.environments import guessed, unknown
from analysis.calibration.intervals import QUANTILES, Quantiles, quantile
from analysis.calibration.predicted import predicted
from analysis.calibration.predictive import Predictive
from analysis.calibration.priors import LEFT_OUT, LeftOut
from analysis.calibration.refusals import refusal
from analysis.calibration.row import Row
from analysis.calibration.rules import LINEAR, carried, log_times
from analysis.calibration.weights import CURVE, TYPICAL, Typical, typical_errors
from analysis.prediction.predictions import Learned, learned, most_gpus
from analysis.published import is_held_out, published
from analysis.results import Result
from benchmarks.sources import sources
from costs.work import Work
from store.errors import StoreError

References = Sequence[Mapping[str, Any]]

FEW = 4
"""GPUs: rows with so many or fewer are learned from, others are predicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One published figure on many GPUs."""

    source: str
    hardware: str
    row: Row
    num_rows: int  # it rests on; 0: on the physics and the profile alone
    predictive: Predictive | None
    refused: str = ""  # why there is no prediction
    gpu: str = ""  # of the profile
    # throughput that rules carry its own curve on to, by their names
    by_rule: Mapping[str, float] = field(default_factory=dict)

    @property
    def publisher(self) -> str:
        """Whose figure it is; of one publisher no source is left out without the others."""
        known = sources()
        return known[self.source].publisher if self.source in known else self.source

    @property
    def score(self) -> float:
        """How far it is off, in logs, over its scale (`analysis.calibration.intervals`)."""
        assert self.predictive is not None
        return abs(math.log(1 + self.error)) / self.predictive.scale

    @property
    def candidate_errors(self) -> dict[str, float]:
        """The errors of the candidates that it was weighed from, in logs of times."""
        assert self.predictive is not None
        assert self.predictive.weighing is not None
        assert self.row.throughput is not None
        reached = math.log(self.row.work.num_gpus / self.row.throughput)
        return {name: log - reached for name, log in self.predictive.weighing.logs.items()}

    def rule_error(self, name: str) -> float:
        """Relative, of a rule."""
        assert self.row.throughput is not None
        return self.by_rule[name] / self.row.throughput - 1

    @property
    def error(self) -> float:
        """Relative, of a row that was predicted."""
        assert self.predictive is not None
        assert self.row.throughput is not None
        return self.predictive.throughput / self.row.throughput - 1

    @property
    def is_inside(self) -> bool:
        """Its interval holds what was published."""
        assert self.predictive is not None
        assert self.row.throughput is not None
        return self.predictive.low <= self.row.throughput <= self.predictive.high

    @property
    def is_uncertain(self) -> bool:
        return self.predictive is not None and bool(self.predictive.uncertain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two cells of one source that differ in their way alone, of which one is clearly faster."""

    faster: Checked
    slower: Checked

    @property
    def rests(self) -> bool:
        """On rows of few GPUs; else on the physics and the profile alone."""
        return self.faster.num_rows > 0

    @property
    def is_right(self) -> bool:
        assert self.faster.predictive is not None
        assert self.slower.predictive is not None
        return self.faster.predictive.throughput > self.slower.predictive.throughput


def checked(
    references: Sequence[Mapping[str, Any]],
    left_out: LeftOut = LEFT_OUT,
    *,
    as_unknown: bool = False,
    few: int = FEW,
) -> list[Checked]:
    """All on more than `few` GPUs of one host, but for those kept to judge. Those without a row
    rest on the physics alone.

    `as_unknown`: as if nothing were reported of the boxes, not even their GPUs' names.
    """
    return [
        one
        for of in _by_environment(references)
        if not is_held_out(of[0][0])
        for one in _of_environment(of, left_out, as_unknown=as_unknown, few=few)
    ]


def calibrated(found: Sequence[Checked], others: Sequence[Checked]) -> list[Checked]:
    """Weigh predictions, and give them intervals, by constants that figures of other publishers
    alone decide.
    """
    by_publisher = {}
    for publisher in {one.publisher for one in weighed(found)}:
        by_publisher[publisher] = constants([of for of in others if of.publisher != publisher])
    return [
        _by_constants(one, *by_publisher.get(one.publisher, (TYPICAL, QUANTILES))) for one in found
    ]


def constants(found: Sequence[Checked]) -> tuple[Typical, Quantiles]:
    """Fit to weighed predictions the typical errors of candidates, then quantiles of classes."""
    typical = dict(TYPICAL)
    for kind, of in _by(weighed(found), _kind).items():
        errors = typical_errors([one.candidate_errors for one in of])
        typical[kind] = {name: errors.get(name, size) for name, size in TYPICAL[kind].items()}
    curves = [one for one in weighed(found) if _kind(one) == CURVE]
    again = [_by_constants(one, typical, QUANTILES) for one in curves]
    quantiles = dict(QUANTILES)
    for is_doubted, of in _by(again, _is_doubted).items():
        scores = [one.score for one in of if is_doubted or _is_near(one)]
        quantiles[is_doubted] = round(quantile(scores), 2)
    return typical, quantiles


def _kind(one: Checked) -> str:
    assert one.predictive is not None
    assert one.predictive.weighing is not None
    return one.predictive.weighing.kind


def _is_doubted(one: Checked) -> bool:
    assert one.predictive is not None
    return bool(one.predictive.reasons)


def _is_near(one: Checked) -> bool:
    """Return whether it is on up to twice the GPUs of its curve's rows. Further ones have a scale
    that is wide for their errors, and would make the intervals of near ones too narrow.
    """
    assert one.predictive is not None
    assert one.predictive.weighing is not None
    return one.predictive.weighing.num_gpus <= 2 * one.predictive.weighing.most_gpus


Key = TypeVar("Key")


def _by(found: Sequence[Checked], key: Callable[[Checked], Key]) -> dict[Key, list[Checked]]:
    grouped: dict[Key, list[Checked]] = defaultdict(list)
    for one in found:
        grouped[key(one)].append(one)
    return grouped


def _by_constants(one: Checked, typical: Typical, quantiles: Quantiles) -> Checked:
    if one.predictive is None or one.predictive.weighing is None:
        return one
    return replace(one, predictive=one.predictive.weighing.predictive(typical, quantiles))


def weighed(found: Sequence[Checked]) -> list[Checked]:
    """Return those that were weighed from several candidates."""
    return [
        one for one in found if one.predictive is not None and one.predictive.weighing is not None
    ]


_Figures = list[tuple[Result, Mapping[str, Any]]]


def _by_environment(references: Sequence[Mapping[str, Any]]) -> Iterable[_Figures]:
    found: dict[str, _Figures] = defaultdict(list)
    for result, reference in zip(published(references), references, strict=True):
        found[result.environment.key].append((result, reference))
    return found.values()


def known_boxes(references: References) -> Iterator[tuple[str, str, Learned]]:
    """Yield source, hardware and rows of each box that a profile describes, but for those kept to
    judge.
    """
    for of in _by_environment(references):
        results, hardware = [result for result, _ in of], of[0][1]["hardware"]
        guess = guessed(hardware, most_gpus(results))
        notes = {result.trial_id: reference["note"] for result, reference in of}
        if is_held_out(results[0]) or not guess.is_known:
            continue
        try:
            yield of[0][1]["source"], hardware, learned(results, guess, notes)
        except StoreError:
            continue


def without_rows(
    references: References, efficiency_without: Callable[[str], Efficiency]
) -> list[Checked]:
    """Predict all figures of boxes that a profile describes by the physics and the profile alone,
    with efficiencies that were fitted without the figure's source.
    """
    found = []
    for source, hardware, known in known_boxes(references):
        asked, box = known.rows, known.guess.hardware
        reported = predicted((), asked, known.guess, efficiency=efficiency_without(source))
        for row, one in zip(asked, reported, strict=True):
            found.append(
                Checked(
                    source=source,
                    hardware=hardware,
                    row=row,
                    num_rows=0,
                    predictive=one,
                    gpu=box.gpu,
                )
            )
    return found


def judged(references: Sequence[Mapping[str, Any]]) -> list[Checked]:
    """Return all figures that are kept to judge predictions, by the physics and the profile
    alone.
    """
    return [
        one
        for of in _by_environment(references)
        if is_held_out(of[0][0])
        for one in _of_environment(of, LEFT_OUT, as_unknown=False, few=FEW)
    ]


def rested(found: Sequence[Checked]) -> list[Checked]:
    """Those that rest on rows, and were not refused."""
    return [one for one in found if one.predictive is not None and one.num_rows]


def pairs(found: Sequence[Checked], more_than: float = 0.05) -> list[Pair]:
    """All whose published figures differ by more than this share, each pair of cells of one
    hardware once; of several figures of one cell the median counts.
    """
    grouped: dict[tuple[object, ...], dict[Work, list[Checked]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for one in found:
        work = one.row.work
        if one.predictive is not None:
            axes = (
                work.network,
                work.batch_size,
                work.num_gpus,
                work.precision,
                work.xla,
                work.real_data,
            )
            grouped[one.source, one.hardware, *axes][work].append(one)
    reported: dict[tuple[str, Work, Work], Pair] = {}
    for cells in grouped.values():
        for one, other in combinations([_median(of) for of in cells.values()], 2):
            slower, faster = sorted((one, other), key=_published)
            if _published(faster) > (1 + more_than) * _published(slower):
                reported.setdefault(
                    (one.hardware, faster.row.work, slower.row.work),
                    Pair(faster=faster, slower=slower),
                )
    return list(reported.values())


def _median(of: Sequence[Checked]) -> Checked:
    return sorted(of, key=_published)[(len(of) - 1) // 2]


def _published(one: Checked) -> float:
    assert one.row.throughput is not None
    return one.row.throughput


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The errors of predictions against what was published."""

    num: int
    median_error: float  # absolute
    p90_error: float  # absolute, that one of ten exceeds
    bias: float  # median of the errors with their signs; above 0: too fast
    num_far: int  # off by more than a quarter
    num_far_unflagged: int
    share_uncertain: float
    share_inside: float  # of their 95 % intervals
    half_width: float  # median half of the intervals, over the prediction


def summary(found: Sequence[Checked]) -> Summary:
    """Sum up those that rest on rows, one at least."""
    return summary_of(rested(found))


def summary_of(of: Sequence[Checked]) -> Summary:
    """Sum up predictions, of which one at least was not refused."""
    of = [one for one in of if one.predictive is not None]
    far = [one for one in of if abs(one.error) > FAR]
    errors = [abs(one.error) for one in of]
    return Summary(
        num=len(of),
        median_error=statistics.median(errors),
        p90_error=float(np.quantile(errors, 0.9)),
        bias=statistics.median(one.error for one in of),
        num_far=len(far),
        num_far_unflagged=sum(not one.is_uncertain for one in far),
        share_uncertain=sum(one.is_uncertain for one in of) / len(of),
        share_inside=sum(one.is_inside for one in of) / len(of),
        half_width=statistics.median(
            one.predictive.half_width for one in of if one.predictive is not None
        ),
    )


FAR = 0.25
"""A prediction whose error may be so large must say that it is uncertain."""


def _of_environment(
    of: Sequence[tuple[Result, Mapping[str, Any]]],
    left_out: LeftOut,
    *,
    as_unknown: bool,
    few: int,
) -> Iterator[Checked]:
    results = [result for result, _ in of]
    if max(result.num_gpus for result in results) <= few:
        return
    source, hardware = of[0][1]["source"], of[0][1]["hardware"]
    guess = (unknown if as_unknown else guessed)(hardware, most_gpus(results))
    notes = {result.trial_id: reference["note"] for result, reference in of}
    try:
        known = learned(results, guess, notes)
    except StoreError:
        return
    yield from _predicted(source, hardware, known, left_out, few)


def _predicted(
    source: str, hardware: str, known: Learned, left_out: LeftOut, few: int
) -> Iterator[Checked]:
    rows = [row for row in known.rows if row.work.num_gpus <= few and known.is_fitted]
    asked = [row for row in known.rows if row.work.num_gpus > few or not known.is_fitted]
    refused = [refusal(row, rows, known.guess.hardware) if rows else None for row in asked]
    possible = [row for row, no in zip(asked, refused, strict=True) if no is None]
    reported = iter(predicted(rows, possible, known.guess, left_out=left_out))
    for row, no in zip(asked, refused, strict=True):
        yield Checked(
            source=source,
            hardware=hardware,
            row=row,
            num_rows=len(rows),
            predictive=next(reported) if no is None else None,
            refused=no.reason if no else "",
            by_rule=_by_rule(row, rows),
        )


def _by_rule(row: Row, rows: Sequence[Row]) -> dict[str, float]:
    """Carry the curve on by each rule; one count of GPUs alone by the linear one."""
    num_gpus = row.work.num_gpus
    times = log_times(row, rows)
    logs = carried(times, num_gpus) if len(times) != 1 else {LINEAR: next(iter(times.values()))}
    return {name: num_gpus / math.exp(log) for name, log in logs.items()}
