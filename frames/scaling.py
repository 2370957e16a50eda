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
    points = [
        (point.result, _record(curve, point))
        for one in scalings(results)
        for curve in one.curves
        for point in curve.points
    ]
    points.sort(key=lambda found: trials.order(found[0]))
    return frame([row for _, row in points], dtypes([result for result, _ in points]))


def _record(curve: Curve, point: Point) -> dict[str, Any]:
    added, baseline = point.added, point.result.baseline
    return trials.record(point.result) | {
        "speed_up_low": point.speed_up_low,
        "speed_up_high": point.speed_up_high,
        "marginal_efficiency": added and added.share,
        "marginal_efficiency_low": added and added.low,
        "marginal_efficiency_high": added and added.high,
        "stops_paying_at": curve.stop and curve.stop.num_gpus,
        "baseline_strategy": baseline and baseline.strategy,
        "baseline_num_gpus": baseline and baseline.num_gpus,
    }
