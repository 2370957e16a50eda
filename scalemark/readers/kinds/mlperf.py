"""Reads MLPerf training logs: `:::MLLOG {"time_ms": ..., "key": "tracked_stats", "value": {...}}`.

Throughput is what `tracked_stats` says (samples/s). Where a program logs none, it is counted from
the samples between `block_start` and `block_stop`, on the log's own clock.
"""

from scalemark.readers.fields import first_object, metrics_of, usable
from scalemark.readers.opening import Reader, Reading
from scalemark.readers.words import usable_rate

ABOUT = "mlperf reads :::MLLOG lines: throughput of tracked_stats, or samples per second of blocks"
_MARK = ":::MLLOG"


class MlperfReader(Reader):
    """Reads the events of a run."""

    def __init__(self) -> None:
        self._began_s: float | None = None  # when run_start was logged
        self._block: tuple[float, float] | None = None  # time in s, samples
        self._has_stats = False

    def read_line(self, line: str) -> Reading | None:
        event = None
        if _MARK in line:
            event = first_object(line, line.find(_MARK))
        if not isinstance(event, dict):
            return None
        key, time_ms = event.get("key"), event.get("time_ms")
        time_s = time_ms / 1e3 if isinstance(time_ms, int | float) else None
        if key == "tracked_stats":
            return self._stats(event.get("value"), time_s)
        if time_s is None:
            return None
        if key == "run_start":
            self._began_s = time_s
        elif key == "run_stop" and self._began_s is not None:
            return Reading(time_s=time_s, metrics={"time_to_train_s": time_s - self._began_s})
        metadata = event.get("metadata")
        count = None
        if isinstance(metadata, dict):
            count = metadata.get("samples_count")
        samples = float(count) if isinstance(count, int | float) else None
        if key in ("block_start", "epoch_start"):
            self._block = None if samples is None else (time_s, samples)
        elif key in ("block_stop", "epoch_stop") and samples is not None:
            if self._block is None:
                return None
            (began_s, before), self._block = self._block, None
            if self._has_stats or time_s <= began_s or samples <= before:
                return None
            rate = (samples - before) / (time_s - began_s)
            return Reading(throughput=rate, time_s=time_s, item="samples", per_gpu=False)
        return None

    def _stats(self, value: object, time_s: float | None) -> Reading | None:
        if not isinstance(value, dict):
            return None
        values = {str(name): str(text) for name, text in value.items()}
        rate, doubt = usable(values["throughput"]) if "throughput" in values else (None, "")
        step_s = next((usable_rate(values[name]) for name in values if "step_tim" in name), None)
        self._has_stats = self._has_stats or rate is not None
        metrics = metrics_of(values)
        if rate is None and step_s is None and not doubt and not metrics:
            return None
        return Reading(
            throughput=rate,
            unusable=doubt,
            step_s=step_s,
            time_s=time_s,
            item="samples",
            per_gpu=False,
            metrics=metrics,
        )


create = MlperfReader
