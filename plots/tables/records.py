"""Results as flat records with unrounded numbers, for spreadsheets and scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analysis.results import Origin
from analysis.tables.axes import axes_of
from analysis.tables.table import Cell
from plots.tables.document import Document
from scalemark.records import trial


def records(documents: Sequence[Document]) -> list[dict[str, Any]]:
    """Return a record for each cell that has a result, table by table. All have the same fields:
    axes that no trial of ours has are none.
    """
    tables = [layout.table for document in documents for layout in document.tables]
    is_compared = any(result.against for table in tables for result in table.results)
    found = []
    for table in tables:
        for row in table.rows:
            for column in table.columns:
                cell = table.cells.get((row, column))
                if cell is not None:
                    found.append(_record(cell) | (_against(cell) if is_compared else {}))
    lacked = [name for name in trial.AXES if all(one.get(name) is None for one in found)]
    if not all(one["origin"] == Origin.PUBLISHED for one in found):
        for one in found:
            for name in lacked:
                one.pop(name, None)
    return found


def _record(cell: Cell) -> dict[str, Any]:
    result = cell.result
    environment, baseline = result.environment, result.baseline
    return {
        "origin": str(environment.origin),
        "environment": environment.key,
        "host": environment.host,
        "machine": environment.machine,
        "versions": environment.versions,
        "environment_device_kind": str(environment.device_kind),
        "shares_host": environment.shares_host,
        **{axis: result.axes[axis] for axis in axes_of([result])},
        "trial_id": result.trial_id,
        "outcome": str(result.outcome),
        "is_valid": result.is_valid,
        "failed_repeats": list(result.failed),
        "rank": str(cell.rank),
        "num_repeats": len(result.repeats),
        "repeats": list(result.repeats),
        "item": result.item,
        "is_reported": result.is_reported,
        "throughput": result.throughput,
        "throughput_low": result.low,
        "throughput_high": result.high,
        "speed_up": result.speed_up,
        "efficiency": result.efficiency,
        "mfu": result.usage.mfu,
        "memory_bytes": result.usage.memory_bytes,
        "variable_bytes": result.usage.variable_bytes,
        "optimizer_state_bytes": result.usage.optimizer_state_bytes,
        "attempt_ids": list(result.attempt_ids),
        "baseline_trial_id": baseline and baseline.trial_id,
        "baseline_strategy": baseline and baseline.strategy,
        "baseline_num_gpus": baseline and baseline.num_gpus,
        "baseline_hosts": baseline and baseline.hosts,
        "baseline_throughput": baseline and baseline.throughput,
    }


def _against(cell: Cell) -> dict[str, Any]:
    against = cell.result.against
    return {
        "against_host": against and against.other.environment.host,
        "against_versions": against and against.other.environment.versions,
        "against_trial_id": against and against.other.trial_id,
        "against_strategy": against and against.other.strategy,
        "against_throughput": against and against.other.throughput,
        "ratio": against and against.ratio,
        "ratio_low": against and against.low,
        "ratio_high": against and against.high,
    }
