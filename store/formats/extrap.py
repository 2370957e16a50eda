"""Writes scaling curves as JSON lines for Extra-P, which fits performance models to them.

A line is the repeats of one metric of one curve on one number of GPUs. Extra-P wants every curve of
a file on the same numbers of GPUs.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from scalemark.records.outcomes import Outcome, Verdict
from scalemark.records.references import Rejected
from scalemark.text.wording import counted, listed
from store.exchange.portable import PortableAttempt
from store.finished_attempt import environment_values

Curve = dict[int, dict[str, list[float]]]
"""By number of GPUs and metric the value of each process."""


def lines(attempts: Iterable[PortableAttempt], left_out: list[Rejected]) -> Iterator[str]:
    """Yield the lines of the curves on those numbers of GPUs that most curves have; the others, and
    what is on one number alone, are added to `left_out`.
    """
    curves: dict[str, Curve] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for attempt in attempts:
        for metric, value in _metrics(attempt):
            curves[_name(attempt)][attempt.spec.num_gpus][metric].append(value)
    counts = Counter(tuple(sorted(curve)) for curve in curves.values() if len(curve) > 1)
    chosen = max(counts, key=lambda nums: (counts[nums], len(nums)), default=())
    for name, curve in curves.items():
        if tuple(sorted(curve)) == chosen:
            yield from _lines(name, curve)
        else:
            left_out.append(Rejected(where=name, reason=_reason(sorted(curve), chosen)))


def _reason(nums: Sequence[int], chosen: Sequence[int]) -> str:
    """Return why a curve is left out of a file of other ones."""
    if len(nums) == 1:
        return f"on {counted(nums[0], 'GPU')} alone; a curve is on 2 numbers of GPUs or more"
    return f"on {_words(nums)}, and this file is of curves on {_words(chosen)}"


def _words(nums: Sequence[int]) -> str:
    return f"{listed([str(num) for num in nums])} GPUs"


def _name(attempt: PortableAttempt) -> str:
    """Name its curve, with whatever numbers are never mixed over."""
    spec = attempt.spec
    software = (
        environment_values(attempt.environment)["software_key"] if attempt.environment else ""
    )
    where = f"{attempt.machine.pool or attempt.machine.host} {attempt.machine.key[:6]}"
    shared = " shared host" if attempt.placement.shares_host else ""
    hosts = f" over {spec.hosts} hosts" if spec.hosts > 1 else ""
    return f"{spec.model} {spec.strategy}{hosts} {spec.curve[:8]} on {where} {software[:6]}{shared}"


def _metrics(attempt: PortableAttempt) -> Iterator[tuple[str, float]]:
    measured = attempt.measured
    if attempt.outcome != Outcome.COMPLETED or attempt.deleted_at or measured is None:
        return
    if measured.verdict == Verdict.INVALID or not measured.measurement["throughput"] > 0:
        return
    yield f"{measured.measurement['item']}_per_s", measured.measurement["throughput"]
    if measured.measurement["median_step_s"] is not None:
        yield "median_step_s", measured.measurement["median_step_s"]


def _lines(name: str, curve: Curve) -> Iterator[str]:
    """Leave out a metric that some number of GPUs lacks."""
    metrics = set.intersection(*(set(of_count) for of_count in curve.values()))
    for metric in sorted(metrics):
        for num_gpus in sorted(curve):
            line = {
                "params": {"num_gpus": num_gpus},
                "callpath": name,
                "metric": metric,
                "value": curve[num_gpus][metric],
            }
            yield json.dumps(line)
