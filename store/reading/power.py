"""What the GPUs of attempts drew, as NVML told during their measured windows."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from store.reading.queries import in_parts
from store.schema import MeasurementRow


def powers_w(engine: sa.Engine, attempt_ids: Sequence[int]) -> dict[int, float]:
    """Of these attempts, those all of whose GPUs told it: watts of all of them together, mean over
    the window.
    """
    statement = sa.select(MeasurementRow.attempt_id, MeasurementRow.gpu_telemetry)
    found = in_parts(engine, statement, MeasurementRow.attempt_id.expression, attempt_ids)
    told = {
        row["attempt_id"]: [gpu.get("power_w") for gpu in row["gpu_telemetry"] or ()]
        for row in found
    }
    return {attempt: sum(watts) for attempt, watts in told.items() if watts and None not in watts}
