"""The frame of scaling: one row per number of GPUs on a strategy's curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from analysis.results import Result
from analysis.scaling.curves import Curve, Point, scalings
from frames import trials
from frames.empty import frame

_COLUMNS = {
    "speed_up_low": "float64",
    "speed_up_high": "float64",
    "marginal_efficiency": "float64",
    "marginal_efficiency_low": "float64",
    "marginal_efficiency_high": "float64",
    "stops_paying_at": "Int64",
    "baseline_strategy": "str",
    "baseline_num_gpus": "Int64",
}


def dtypes(results: Sequence[Result] = ()) -> dict[str, str]:
    return trials.dtypes(results, between=_COLUMNS)


def scaling_frame(results: Sequence[Result]) -> pd.DataFrame:
    by_key = {(result.environment.key, result.trial_id): result for result in results}
    points = []
    for one in scalings(results):
        for curve in one.curves:
            for point in curve.points:
                result = by_key[one.environment, point.trial_id]
                points.append((result, trials.record(result) | _record(curve, point)))
    points.sort(key=lambda row: trials.order(row[0]))
    return frame([row for _, row in points], dtypes([result for result, _ in points]))


def _record(curve: Curve, point: Point) -> dict[str, Any]:
    stop = curve.stops_paying
    return {
        "speed_up_low": point.speed_up_low,
        "speed_up_high": point.speed_up_high,
        "marginal_efficiency": point.added_share,
        "marginal_efficiency_low": point.added_share_low,
        "marginal_efficiency_high": point.added_share_high,
        "stops_paying_at": stop.num_gpus if stop else None,
        "baseline_strategy": point.baseline_strategy,
        "baseline_num_gpus": point.baseline_num_gpus,
    }
