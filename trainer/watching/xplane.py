"""Reads TensorFlow's profile: which op, kernel or copy ran when, and on which device.

```
  plane /host:CPU, a line per thread             plane /device:GPU:0, a line per stream
    train {step_num}                               sm80_xmma_fprop... {tf_op: "tower_0/a:Conv2D"}
    FunctionRun {_p: c}                            MemcpyD2H {tf_op: "x/_1:_Send", from, to}
      ExecutorState::Process {_c: c}   c = one device's part of one run of a function
        tower_0/a:Conv2D
```

Seen in TensorFlow 2.21. Ops are recorded with name and type but without their device, and cheap
ones (Identity, Const, Reshape) not at all. The device is learned from what each part sends (`key`)
and receives; a called function runs where its call runs. What was not over when the profiler
stopped is missing, so the last step may lack ops, or the part they belong to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tensorflow.tsl.profiler.protobuf import xplane_pb2

from trainer.devices import short_name

STEP_NAME = "train"  # TensorBoard and xprof find steps by such an event with `step_num`
HOST = "CPU:0"

_HOST_PLANE = "/host:CPU"
_GPU_PLANE = re.compile(r"/device:(GPU:\d+)$")
# as TensorFlow's tf_op_utils.cc has it
_OP = re.compile(r"([A-Za-z0-9.][A-Za-z0-9_.\\/>-]*):(_?[A-Z][A-Za-z0-9_]*)$")
_SENT = re.compile(r"(.*/_)(\d+)$")  # the receiving half of an edge has the next number
# events of tf.data, around the functions it maps
_INPUT = ("Iterator", "InstantiatedCapturedFunction")
_INPUT_THREAD = "tf_data_"
_RECEIVING = ("_Recv", "_HostRecv")
_MEMORY_STATS = {"memalloc_details", "memfree_details", "memory_residency_details"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One op on a thread of the host, or one kernel or copy on a stream of a GPU."""

    name: str  # of the node; empty where a kernel does not say
    op: str  # type of the op; empty likewise
    device: str  # as "CPU:1"; empty where unknown
    start_ps: int
    end_ps: int
    kernel: str = ""  # on a GPU: name of the kernel or copy
    ends: tuple[str, ...] = ()  # of a copy: the node it comes from, the node it goes to
    is_input: bool = False  # part of the input pipeline

    @property
    def is_launch(self) -> bool:
        """It runs on the host for a GPU: its work appears as a kernel again."""
        return self.device.startswith("GPU") and not self.kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The content of a profile."""

    # beginning and end of each step on its thread; GPUs may work on for a while
    steps_ps: list[tuple[int, int]]
    events: list[Event]
    problems: str  # what TensorFlow could not record; empty when nothing


def read_trace(path: Path) -> Trace:
    """Read everything recorded, on one time axis."""
    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    host = _Host()
    events: list[Event] = []
    for plane in space.planes:
        if plane.name == _HOST_PLANE:
            host.add(_Plane(plane))
        elif gpu := _GPU_PLANE.search(plane.name):
            events += _gpu_events(_Plane(plane), gpu.group(1))
    return Trace(
        steps_ps=sorted(host.steps_ps),
        events=events + host.events(),
        problems="; ".join([*space.errors, *space.warnings]),
    )


@dataclass(slots=True)
class _Span:
    """An event as it was recorded."""

    name: str
    start_ps: int
    end_ps: int
    raw: Any
    part: int | None = None  # that runs inside


class _Plane:
    """A plane of the proto with its names looked up."""

    def __init__(self, plane: Any) -> None:
        self.lines = plane.lines
        self._names = {number: metadata.name for number, metadata in plane.event_metadata.items()}
        stats = plane.stat_metadata.items()
        self._stat_names = {number: metadata.name for number, metadata in stats}

    def spans(self, line: Any) -> Iterator[tuple[_Span, list[_Span]]]:
        """Yield all events that take time, in order, with those around them, outermost first."""
        begin_ps = line.timestamp_ns * 1000
        around: list[_Span] = []
        for event in sorted(line.events, key=lambda event: (event.offset_ps, -event.duration_ps)):
            if not event.duration_ps:
                continue  # thread pools mark moments
            start_ps = begin_ps + event.offset_ps
            while around and around[-1].end_ps <= start_ps:
                around.pop()
            end_ps = start_ps + event.duration_ps
            span = _Span(self._names[event.metadata_id], start_ps, end_ps, event)
            yield span, around
            around.append(span)

    def stats(self, span: _Span) -> dict[str, Any]:
        return {self._stat_names[stat.metadata_id]: self._value(stat) for stat in span.raw.stats}

    def _value(self, stat: Any) -> Any:
        which = stat.WhichOneof("value")
        value = getattr(stat, which)
        return self._stat_names[value] if which == "ref_value" else value


@dataclass(slots=True)
class _Part:
    """One device's part of one run of a function."""

    run: int = 0  # the same for the parts on all devices
    caller: int | None = None
    is_input: bool = False
    device: str = ""  # known from what it sends
    received: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _HostOp:
    name: str
    op: str
    part: int | None
    span: _Span
    ends: tuple[str, ...]
    is_input: bool


class _Host:
    """The threads of the host: which ops ran in which part of which function."""

    def __init__(self) -> None:
        self.steps_ps: list[tuple[int, int]] = []
        self._ops: list[_HostOp] = []
        self._parts: dict[int, _Part] = {}
        self._receivers: dict[tuple[int, str], str] = {}  # run and receiving node -> its device

    def add(self, plane: _Plane) -> None:
        for line in plane.lines:
            is_input_thread = line.name.startswith(_INPUT_THREAD)
            for span, around in plane.spans(line):
                if span.name == STEP_NAME:
                    if "step_num" in plane.stats(span):
                        self.steps_ps.append((span.start_ps, span.end_ps))
                elif span.name == "FunctionRun":
                    part = self._parts.setdefault(plane.stats(span)["_p"], _Part())
                    part.caller, part.is_input = _innermost_part(around), _is_input(around)
                elif span.name == "ExecutorState::Process":
                    stats = plane.stats(span)
                    span.part = stats.get("_c")
                    if span.part is not None:
                        self._parts.setdefault(span.part, _Part()).run = stats["id"]
                elif span.name == "ExecutorState::ProcessAsync::Start":
                    stats = plane.stats(span)
                    is_input = is_input_thread or _is_input(around)
                    self._add_op(stats["name"], stats["kernel_type"], span, around, stats, is_input)
                elif match := _OP.match(span.name):
                    name, op = match.groups()
                    stats = plane.stats(span) if op == "_Send" else {}
                    is_input = is_input_thread or _is_input(around)
                    self._add_op(name, op, span, around, stats, is_input)

    def _add_op(
        self,
        name: str,
        op: str,
        span: _Span,
        around: list[_Span],
        stats: dict[str, Any],
        is_input: bool,
    ) -> None:
        number = _innermost_part(around)
        ends = (stats["from"], stats["to"]) if "from" in stats and "to" in stats else ()
        self._ops.append(_HostOp(name, op, number, span, ends, is_input))
        if number is not None:
            self._learn_device(self._parts[number], name, op, stats)

    def _learn_device(self, part: _Part, name: str, op: str, stats: dict[str, Any]) -> None:
        if op in _RECEIVING:
            part.received.append(name)
        elif "key" in stats:
            sender, _, receiver, *_ = stats["key"].split(";")
            part.device = short_name(sender)
            if numbered := _SENT.match(name):
                receiving = f"{numbered.group(1)}{int(numbered.group(2)) + 1}"
                self._receivers[part.run, receiving] = short_name(receiver)

    def events(self) -> list[Event]:
        placed = {number: self._place(number) for number in self._parts}
        events = []
        for op in self._ops:
            device, is_input = ("", False) if op.part is None else placed[op.part]
            events.append(self._event(op, device, is_input or op.is_input))
        return events

    def _event(self, op: _HostOp, device: str, is_input: bool) -> Event:
        return Event(
            name=op.name,
            op=op.op,
            device=device or (HOST if is_input else ""),  # tf.data runs on the host
            start_ps=op.span.start_ps,
            end_ps=op.span.end_ps,
            ends=op.ends,
            is_input=is_input,
        )

    def _place(self, number: int) -> tuple[str, bool]:
        """Return a part's device, empty where nothing says, and whether it is input."""
        device = ""
        seen: set[int] = set()
        current: int | None = number
        while current is not None and current in self._parts and current not in seen:
            seen.add(current)
            part = self._parts[current]
            device = device or part.device or self._receiving_device(part)
            if part.is_input:
                return device, True
            current = part.caller
        return device, False

    def _receiving_device(self, part: _Part) -> str:
        for name in part.received:
            if (part.run, name) in self._receivers:
                return self._receivers[part.run, name]
        return ""


def _innermost_part(around: list[_Span]) -> int | None:
    for span in reversed(around):
        if span.part is not None:
            return span.part
    return None


def _is_input(around: list[_Span]) -> bool:
    return any(span.name.startswith(_INPUT) for span in around)


def _gpu_events(plane: _Plane, device: str) -> Iterator[Event]:
    """Yield kernels and copies of all streams, without what CUPTI costs and memory takes."""
    for line in plane.lines:
        if not line.name.startswith("Stream"):
            continue
        for span, _ in plane.spans(line):
            stats = plane.stats(span)
            if _MEMORY_STATS & stats.keys():
                continue
            tf_op = str(stats.get("tf_op", ""))
            named = _OP.match(tf_op)
            yield Event(
                name=named.group(1) if named else tf_op,
                op=named.group(2) if named else "",
                device=device,
                start_ps=span.start_ps,
                end_ps=span.end_ps,
                kernel=span.name,
                ends=tuple(str(stats[name]) for name in ("from", "to") if name in stats),
            )
