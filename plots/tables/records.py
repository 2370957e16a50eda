"""Results as flat records, all numbers as they are: for spreadsheets and scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from analysis.pivot import Cell, axes_of
from plots.tables.document import Document


def names(documents: Sequence[Document]) -> list[str]:
    """Of the fields of every record."""
    first = documents[0].tables[0].table.results[0]
    return [
        *_PLACE,
        *axes_of([first]),
        *_NUMBERS,
        *_BASELINE,
        *(_AGAINST if _compared(documents) else ()),
    ]


def records(documents: Sequence[Document]) -> Iterator[dict[str, Any]]:
    """One for each cell that has a result, table by table."""
    compared = _compared(documents)
    for document in documents:
        for layout in document.tables:
            table = layout.table
            for row in table.rows:
                for column in table.columns:
                    cell = table.cells.get((row, column))
                    if cell is not None:
                        yield _record(cell, compared)


def _compared(documents: Sequence[Document]) -> bool:
    return any(
        result.against
        for document in documents
        for layout in document.tables
        for result in layout.table.results
    )


_PLACE = ("origin", "place", "host", "machine", "versions", "device_kind_of_place", "shares_host")
_NUMBERS = (
    *(
        "trial_id",
        "outcome",
        "is_valid",
        "failed_repeats",
        "rank",
        "num_repeats",
        "repeats",
        "throughput",
    ),
    *("throughput_low", "throughput_high", "speed_up", "efficiency", "attempt_ids"),
)
_BASELINE = (
    "baseline_trial_id",
    "baseline_strategy",
    "baseline_num_gpus",
    "baseline_hosts",
    "baseline_throughput",
)
_AGAINST = (
    *(
        "against_host",
        "against_versions",
        "against_trial_id",
        "against_strategy",
        "against_throughput",
    ),
    *("ratio", "ratio_low", "ratio_high"),
)


def _record(cell: Cell, compared: bool) -> dict[str, Any]:
    result = cell.result
    place, baseline, against = result.place, result.baseline, result.against
    found = {
        "origin": str(place.origin),
        "place": place.key,
        "host": place.host,
        "machine": place.machine,
        "versions": place.versions,
        "device_kind_of_place": str(place.device_kind),
        "shares_host": place.shares_host,
        **{axis: result.axes[axis] for axis in axes_of([result])},
        "trial_id": result.trial_id,
        "outcome": str(result.outcome),
        "is_valid": result.is_valid,
        "failed_repeats": list(result.failed),
        "rank": str(cell.rank),
        "num_repeats": len(result.repeats),
        "repeats": list(result.repeats),
        "throughput": result.throughput,
        "throughput_low": result.low,
        "throughput_high": result.high,
        "speed_up": result.speed_up,
        "efficiency": result.efficiency,
        "attempt_ids": list(result.attempt_ids),
        "baseline_trial_id": baseline and baseline.trial_id,
        "baseline_strategy": baseline and baseline.strategy,
        "baseline_num_gpus": baseline and baseline.num_gpus,
        "baseline_hosts": baseline and baseline.hosts,
        "baseline_throughput": baseline and baseline.throughput,
    }
    if compared:
        found |= {
            "against_host": against and against.other.place.host,
            "against_versions": against and against.other.place.versions,
            "against_trial_id": against and against.other.trial_id,
            "against_strategy": against and against.other.strategy,
            "against_throughput": against and against.other.throughput,
            "ratio": against and against.ratio,
            "ratio_low": against and against.low,
            "ratio_high": against and against.high,
        }
    return found
