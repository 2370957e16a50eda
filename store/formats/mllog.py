"""The lines of MLPerf logs, in the three forms that the rounds have used, as events; and one line
of the newest form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from scalemark.records.references import Rejected
from store.formats.log_lines import numbered

_TOKEN = re.compile(r":::ML(?=LOG\b|L\s|Pv\d)")
# since 0.7: `:::MLLOG {"time_ms": ..., "key": ..., "value": ..., "metadata": ...}`
_JSON = re.compile(r"LOG\s*(?=\{)")
# `:::MLL 1560881700.827 seed: {"value": ...}`
_V06 = re.compile(r"L\s+(\d{1,12}(?:\.\d{1,9})?)\s+(\w+)\s*:\s*(?=\{)", re.ASCII)
# `:::MLPv0.5.0 resnet 1543785259.59 (benchmark_cnn.py:1271) input_batch_size: 2048`
_V05 = re.compile(
    r"Pv[\d.]+\s+(\S+)\s+(\d{1,12}(?:\.\d{1,9})?)\s+\([^)]{0,400}\)\s+(\w+)\s*(?::\s*(\S.*))?$",
    re.ASCII,
)
_MOST_BROKEN = 8  # events in one line; the rest of it is no log
_LATEST_MS = 1e15  # the year 33658: what is later is no time


class EventType(StrEnum):
    """As mlperf_logging names them."""

    POINT = "POINT_IN_TIME"
    START = "INTERVAL_START"
    END = "INTERVAL_END"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line."""

    line: int  # its number, from 1
    time_s: float  # since 1970
    key: str
    value: object
    metadata: Mapping[str, object] = field(default_factory=dict)
    benchmark: str = ""  # told in each line of the first round only


def read(lines: Iterable[str], *, source: str) -> tuple[list[Event], list[Rejected]]:
    """All events of a log, in its order, and the lines that begin like one but are none. Never
    raises, whatever the text.
    """
    events: list[Event] = []
    rejected: list[Rejected] = []
    for number, line in numbered(lines):
        end = num_broken = 0
        while num_broken < _MOST_BROKEN and (token := _TOKEN.search(line, end)):
            end = token.end()
            try:
                event, end = _event(number, line, end)
                events.append(event)
            except (ValueError, RecursionError) as error:
                num_broken += 1
                rejected.append(
                    Rejected(
                        where=f"{source} line {number}", reason=f"no line of an MLPerf log: {error}"
                    )
                )
    return events, rejected


def written(
    time_s: float, event_type: EventType, key: str, value: object, metadata: Mapping[str, object]
) -> str:
    """As mlperf_logging.mllog writes it."""
    told = {
        "namespace": "",
        "time_ms": round(time_s * 1000),
        "event_type": event_type.value,
        "key": key,
        "value": value,
    }
    return f":::MLLOG {json.dumps(told | {'metadata': dict(metadata)}, allow_nan=False)}"


def _event(number: int, text: str, start: int) -> tuple[Event, int]:
    """What begins here, and where it ends: other processes may print behind it."""
    if found := _V05.match(text, start):
        benchmark, seconds, key, value = found.groups()
        return Event(
            line=number, time_s=float(seconds), key=key, value=_value(value), benchmark=benchmark
        ), found.end()
    if found := _V06.match(text, start):
        told, end = _object(text, found.end())
        return _made(number, float(found[1]), found[2], told), end
    if found := _JSON.match(text, start):
        told, end = _object(text, found.end())
        time_ms = told.get("time_ms")
        if not isinstance(time_ms, int | float) or not 0 <= time_ms < _LATEST_MS:
            raise ValueError(f"time_ms {str(time_ms)[:40]}: wanted milliseconds since 1970")
        return _made(number, time_ms / 1000, told.get("key"), told), end
    raise ValueError(f"found {text[start : start + 40]!r}, wanted a time, a key and a value")


def _made(number: int, time_s: float, key: object, told: Mapping[str, object]) -> Event:
    if not isinstance(key, str):
        raise ValueError(f"key {str(key)[:40]}: wanted a name")
    metadata = told.get("metadata")
    return Event(
        line=number,
        time_s=time_s,
        key=key,
        value=told.get("value"),
        metadata=metadata if isinstance(metadata, dict) else {},
    )


def _object(text: str, start: int) -> tuple[dict[str, object], int]:
    found, end = json.JSONDecoder().raw_decode(text, start)
    if not isinstance(found, dict):
        raise ValueError(f"found {text[start : start + 40]!r}, wanted an object")
    return found, end


def _value(text: str | None) -> object:
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text  # the first round wrote words without quotes
