"""Reads MLPerf training logs, from round 0.7 on, as references."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from scalemark.records.references import Origin, Reference, Rejected
from store.formats.log_lines import numbered

IMAGE_BENCHMARKS = {
    "resnet": "resnet50_v1.5",
    "ssd": "ssd",
    "maskrcnn": "maskrcnn",
    "retinanet": "retinanet",
}
"""MLPerf's name -> model. The samples of its other benchmarks are no images."""

# `:::MLLOG {"time_ms": ..., "key": ..., "value": ..., "metadata": ...}`
_BEGIN = re.compile(r":::MLLOG\s*(?=\{)")
_MOST_BROKEN = 8  # events in one line; the rest of it is no log
_LATEST_MS = 1e15  # the year 33658: what is later is no time
_MOST = 10**9  # accelerators, or images in a batch
_ACCELERATOR = (
    r"(?:(?:NVIDIA|AMD|Intel|Google|Tesla|GeForce)[\s-]*)*"
    r"(?:[APVTKLBH]\d{2,3}S?\b|[TL]4\b|GH200|GB\d00|MI\d{3}|RTX|TITAN|Gaudi|HL-)"
)
# "8xNVIDIA H200", but not the nodes of "8xDGX H200"
_PLATFORM = re.compile(rf"(\d{{1,6}})\s*x\s*{_ACCELERATOR}", re.ASCII)
_THROUGHPUTS = ("throughput", "imgs_sec")  # in tracked_stats


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of a log."""

    line: int  # from 1
    time_s: float  # since 1970
    key: str
    value: object
    metadata: Mapping[str, object]


class _UnusableError(Exception):
    """The run gives no figure. The text says why."""


def parse(
    lines: Iterable[str], *, source: str, citation: str, hardware: str, num_gpus: int | None = None
) -> tuple[list[Reference], list[Rejected]]:
    """Return one figure per run of the log, and what was left out with its reason. Never raises.

    Throughput is the median of what the log says of it; else of its epochs or blocks, without the
    evaluations in them. `num_gpus` is for logs that do not say it.
    """
    references: list[Reference] = []
    events, rejected = _events(lines, source)
    for run in _runs(events):
        try:
            found = _reference(run, num_gpus, source=source, citation=citation, hardware=hardware)
            references.append(found)
        except (_UnusableError, ValueError, RecursionError) as error:
            rejected.append(Rejected(where=f"{source} line {run[0].line}", reason=str(error)))
    if not events and not rejected:
        reason = "no line of an MLPerf log in it: wanted ':::MLLOG {...}'"
        rejected.append(Rejected(where=source, reason=reason))
    return references, rejected


def _events(lines: Iterable[str], source: str) -> tuple[list[Event], list[Rejected]]:
    events: list[Event] = []
    rejected: list[Rejected] = []
    for number, line in numbered(lines):
        end = num_broken = 0
        # processes may print their events behind each other's
        while num_broken < _MOST_BROKEN and (begin := _BEGIN.search(line, end)):
            end = begin.end()
            try:
                found, end = json.JSONDecoder().raw_decode(line, end)
                events.append(_event(number, found))
            except (ValueError, RecursionError) as error:
                num_broken += 1
                reason = f"no line of an MLPerf log: {error}"
                rejected.append(Rejected(where=f"{source} line {number}", reason=reason))
    return events, rejected


def _event(number: int, found: dict[str, object]) -> Event:
    time_ms = found.get("time_ms")
    if not isinstance(time_ms, int | float) or not 0 <= time_ms < _LATEST_MS:
        raise ValueError(f"time_ms {_short(time_ms)}: wanted milliseconds since 1970")
    key = found.get("key")
    if not isinstance(key, str):
        raise ValueError(f"key {_short(key)}: wanted a name")
    metadata = found.get("metadata")
    return Event(
        line=number,
        time_s=time_ms / 1000,
        key=key,
        value=found.get("value"),
        metadata=metadata if isinstance(metadata, dict) else {},
    )


def _runs(events: Sequence[Event]) -> list[list[Event]]:
    """Split the runs of one file; processes of one run may repeat each other's lines."""
    runs: list[list[Event]] = []
    has_begun = has_stopped = True
    for event in events:
        announces = event.key == "submission_benchmark"
        begins = event.key in ("init_start", "run_start")
        if (has_begun and announces) or (has_stopped and begins) or not runs:
            runs.append([])
            has_begun = has_stopped = False
        has_begun = has_begun or begins
        has_stopped = has_stopped or event.key == "run_stop"
        runs[-1].append(event)
    return runs


def _reference(
    run: Sequence[Event], given_num_gpus: int | None, *, source: str, citation: str, hardware: str
) -> Reference:
    stop = next((event for event in run if event.key == "run_stop"), None)
    if stop is None:
        raise _UnusableError(
            f"interrupted: no run_stop; the last line is of {run[-1].key} (line {run[-1].line})"
        )
    model = _model(run)
    num_gpus = _num_gpus(run, given_num_gpus)
    batch_size = _count(run, "global_batch_size")
    if batch_size is not None and batch_size % num_gpus:
        raise _UnusableError(
            f"contradictory: a batch of {batch_size} cannot be shared evenly by {num_gpus} "
            "accelerators"
        )
    throughput, evidence = _throughput(run)
    return Reference(
        origin=Origin.MLPERF,
        source=source,
        citation=citation,
        hardware=hardware,
        model=model,
        batch_size=None if batch_size is None else batch_size // num_gpus,
        data="real",  # by MLPerf's rules
        variable_update="",
        all_reduce="",
        local_parameter_device="",
        precision="",
        num_gpus=num_gpus,
        throughput=throughput,
        evidence=evidence,
        note=_note(run, stop),
    )


def _model(run: Sequence[Event]) -> str:
    benchmark = _value(run, "submission_benchmark")
    if benchmark is None:
        raise _UnusableError("no submission_benchmark: the log does not say what was trained")
    if not isinstance(benchmark, str) or benchmark not in IMAGE_BENCHMARKS:
        raise _UnusableError(
            f"benchmark {_short(benchmark)}: its samples are no images; wanted one of "
            f"{', '.join(IMAGE_BENCHMARKS)}"
        )
    return IMAGE_BENCHMARKS[benchmark]


def _value(run: Sequence[Event], key: str) -> object:
    """Return the value of a key, or None. Raises _UnusableError when the run has two."""
    found = [event for event in run if event.key == key and event.value is not None]
    for event in found[1:]:
        if event.value != found[0].value:
            raise _UnusableError(
                f"contradictory: {key} {_short(found[0].value)} in line {found[0].line}, "
                f"{_short(event.value)} in line {event.line}"
            )
    return found[0].value if found else None


def _count(run: Sequence[Event], key: str) -> int | None:
    value = _value(run, key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST:
        raise _UnusableError(f"{key}: {_short(value)}: wanted a whole number, 1 or more")
    return value


def _num_gpus(run: Sequence[Event], given: int | None) -> int:
    nodes = _count(run, "number_of_nodes")
    per_node = _count(run, "accelerators_per_node")
    platform = _value(run, "submission_platform")
    found = None
    if nodes and per_node:
        found = nodes * per_node
    elif isinstance(platform, str):
        match = _PLATFORM.match(platform)
        found = int(match[1]) if match else None
    if found and given and found != given:
        raise _UnusableError(
            f"contradictory: {found} accelerators in the log, {given} by --num-gpus"
        )
    num_gpus = found or given
    if not num_gpus:
        raise _UnusableError(
            f"the log does not say how many accelerators (submission_platform: {_short(platform)}):"
            " say it with --num-gpus"
        )
    return num_gpus


def _note(run: Sequence[Event], stop: Event) -> str:
    platform = _value(run, "submission_platform")
    optimizer = _value(run, "opt_name")
    status = stop.metadata.get("status", "success")
    notes = [
        _short(platform) if platform else "",
        f"optimizer {_short(optimizer)}" if optimizer else "",
        f"run_stop: {_short(status)}" if status != "success" else "",
    ]
    return "; ".join(note for note in notes if note)


def _throughput(run: Sequence[Event]) -> tuple[float, str]:
    """Return images/s and the evidence for it. Raises _UnusableError."""
    logged = _logged(run)
    for line, figure in logged:
        if not 0 < figure < math.inf:
            raise _UnusableError(
                f"line {line}: throughput {figure}: wanted a finite number greater than 0"
            )
    if logged:
        figures = [figure for _, figure in logged]
        return median(figures), f"log: throughput, median of {len(figures)}"
    for name in ("epoch", "block"):
        rates = _rates(run, name)
        if rates:
            return median(rates), f"log, derived: {name}s, median of {len(rates)}"
    raise _UnusableError("no throughput, and no epochs or blocks with samples and times")


def _logged(run: Sequence[Event]) -> list[tuple[int, float]]:
    """Return line and figure. `tracked_stats` are preferred, for some logs have each figure in both
    forms.
    """
    tracked = []
    alone = []
    for event in run:
        if event.key == "tracked_stats" and isinstance(event.value, dict):
            tracked += [(event.line, _number(event.value.get(name))) for name in _THROUGHPUTS]
        elif event.key == "throughput":
            alone.append((event.line, _number(event.value)))
    for found in (tracked, alone):
        known = [(line, figure) for line, figure in found if figure is not None]
        if known:
            return known
    return []


def _number(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _rates(run: Sequence[Event], name: str) -> list[float]:
    """Return images/s of each epoch or block whose samples and time are known."""
    evaluations = _intervals(run, "eval")
    per_epoch = _count(run, "train_samples") or 0
    rates = []
    for start, stop in _intervals(run, name):
        images: float = per_epoch
        if name == "block":
            counted = _metadata(stop, "samples_count") - _metadata(start, "samples_count")
            images = counted or _metadata(start, "epoch_count") * per_epoch
        seconds = stop.time_s - start.time_s
        for first, last in evaluations:
            overlap = min(stop.time_s, last.time_s) - max(start.time_s, first.time_s)
            seconds -= max(0.0, overlap)
        if images > 0 and seconds > 0:
            rates.append(images / seconds)
    return rates


def _metadata(event: Event, name: str) -> float:
    return _number(event.metadata.get(name)) or 0.0


def _intervals(run: Sequence[Event], name: str) -> list[tuple[Event, Event]]:
    """Pair starts with the stops that follow them; repeated lines of other processes are passed
    over.
    """
    pairs: list[tuple[Event, Event]] = []
    opened: Event | None = None
    for event in run:
        if event.key == f"{name}_start":
            opened = opened or event
        elif event.key == f"{name}_stop" and opened:
            pairs.append((opened, event))
            opened = None
    return pairs


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
