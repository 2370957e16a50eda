"""Reads MLPerf training logs: `:::MLLOG {"time_ms": ..., "key": "tracked_stats", "value": {...}}`.

Throughput is what `tracked_stats` says (samples/s). Where a program logs none, it is counted from
the samples between `block_start` and `block_stop`, on the log's own clock.
"""

from dataclasses import replace

from scalemark.readers.fields import FieldReader, first_object
from scalemark.readers.opening import Reader, Reading
from scalemark.readers.words import usable_rate

ABOUT = "mlperf reads :::MLLOG lines: throughput of tracked_stats, or samples per second of blocks"
_MARK = ":::MLLOG"


class MlperfReader(Reader):
    """Reads the events of a run."""

    def __init__(self) -> None:
        self._began_s: float | None = None  # when run_start was logged
        self._block: tuple[float, float] | None = None  # time in s, samples
        self._fields = FieldReader()
        self._has_stats = False

    def read_line(self, line: str) -> Reading | None:
        event = first_object(line, line.find(_MARK)) if _MARK in line else None
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
        samples = metadata.get("samples_count") if isinstance(metadata, dict) else None
        if not isinstance(samples, int | float):
            return None
        if key in ("block_start", "epoch_start"):
            self._block = (time_s, samples)
        elif key in ("block_stop", "epoch_stop") and self._block:
            (began_s, before), self._block = self._block, None
            if not self._has_stats and time_s > began_s and samples > before:
                rate = (samples - before) / (time_s - began_s)
                return Reading(throughput=rate, time_s=time_s, item="samples", per_gpu=False)
        return None

    def _stats(self, value: object, time_s: float | None) -> Reading | None:
        if not isinstance(value, dict):
            return None
        values = {str(name): str(text) for name, text in value.items()}
        reading = self._fields.reading(values)
        if reading is None:
            return None
        self._has_stats = self._has_stats or reading.throughput is not None
        step_s = next((usable_rate(values[name]) for name in values if "step_tim" in name), None)
        return replace(reading, step_s=step_s, time_s=time_s, item="samples", per_gpu=False)


create = MlperfReader
