"""Reads MLPerf training logs: `:::MLLOG {"time_ms": ..., "key": "tracked_stats", "value": {...}}`.

Throughput is what `tracked_stats` says (samples/s). Where a program logs none, it is counted from
the samples between `block_start` and `block_stop`, on the log's own clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scalemark.readers.fields import usable
from scalemark.readers.json_text import first_object
from scalemark.readers.numbers import number, usable_rate
from scalemark.readers.opening import refuse_argument
from scalemark.readers.reading import OutputReader, Reading

ABOUT = "mlperf reads :::MLLOG lines: throughput of tracked_stats, or samples per second of blocks"
_MARK = ":::MLLOG"
_EVENTS = ("block_start", "block_stop", "epoch_start", "epoch_stop")


def create(argument: str) -> MlperfReader:
    """Raises ReadError for an argument."""
    refuse_argument("mlperf", argument)
    return MlperfReader()


class MlperfReader(OutputReader):
    """Reads the events of a run."""

    def __init__(self) -> None:
        self._began_s: float | None = None  # when run_start was logged
        self._block: tuple[float, float] | None = None  # time in s, samples
        self._has_stats = False

    def read_line(self, line: str) -> Reading | None:
        event = _event_of(line)
        key, time_s = event.get("key"), _time_s(event)
        if key == "tracked_stats":
            return self._stats(event.get("value"), time_s)
        if time_s is None:
            return None
        if key == "run_start":
            self._began_s = time_s
        elif key == "run_stop" and self._began_s is not None:
            return Reading(time_s=time_s, metrics={"time_to_train_s": time_s - self._began_s})
        elif key in _EVENTS:
            return self._of_block(str(key), time_s, _samples(event))
        return None

    def _stats(self, value: object, time_s: float | None) -> Reading | None:
        if not isinstance(value, dict):
            return None
        values = {str(name): str(text) for name, text in value.items()}
        rate, doubt = usable(values["throughput"]) if "throughput" in values else (None, "")
        step_s = next((usable_rate(values[name]) for name in values if "step_tim" in name), None)
        self._has_stats = self._has_stats or rate is not None
        metrics = {
            name: amount
            for name, text in values.items()
            if name != "throughput" and (amount := number(text)) is not None
        }
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

    def _of_block(self, key: str, time_s: float, samples: float | None) -> Reading | None:
        if key in ("block_start", "epoch_start"):
            self._block = None if samples is None else (time_s, samples)
            return None
        if key not in ("block_stop", "epoch_stop") or self._block is None or samples is None:
            return None
        (began_s, before), self._block = self._block, None
        if self._has_stats or time_s <= began_s or samples <= before:
            return None
        rate = (samples - before) / (time_s - began_s)
        return Reading(throughput=rate, time_s=time_s, item="samples", per_gpu=False)


def _event_of(line: str) -> Mapping[str, Any]:
    content = first_object(line, line.find(_MARK)) if _MARK in line else None
    return content if isinstance(content, dict) else {}


def _time_s(event: Mapping[str, Any]) -> float | None:
    time_ms = event.get("time_ms")
    return time_ms / 1e3 if isinstance(time_ms, int | float) else None


def _samples(event: Mapping[str, Any]) -> float | None:
    metadata = event.get("metadata")
    if not isinstance(metadata, dict):
        return None
    count = metadata.get("samples_count")
    return float(count) if isinstance(count, int | float) else None
