"""Profiles a few steps with TensorFlow's own profiler, and says where their time went.

```
  plane /host:CPU, a line per thread             plane /device:GPU:0, a line per stream
    train {step_num}                               sm80_xmma_fprop... {tf_op: "tower_0/a:Conv2D"}
    FunctionRun {_p: c}                            MemcpyD2H {tf_op: "x/_1:_Send", from, to}
      ExecutorState::Process {_c: c}   c = one device's part of one run of a function
        tower_0/a:Conv2D
```

Seen in TensorFlow 2.21. Ops are recorded with name and type but without their device, and cheap
ones (Identity, Const, Reshape) not at all. What runs on a GPU appears twice, when the host launches
it and as its kernel. What was not over when the profiler stopped is missing, so the last step may
lack ops.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from scalemark.records.measurement import Profile

STEP_NAME = "train"  # TensorBoard and xprof find steps by such an event with `step_num`

_HOST_PLANE = "/host:CPU"
_GPU_PLANE = re.compile(r"/device:(GPU:\d+)$")
# as TensorFlow's tf_op_utils.cc has it
_OP = re.compile(r"([A-Za-z0-9.][A-Za-z0-9_.\\/>-]*):(_?[A-Z][A-Za-z0-9_]*)$")
# events of tf.data, around the functions it maps
_INPUT = ("Iterator", "InstantiatedCapturedFunction")
_INPUT_THREAD = "tf_data_"
_MEMORY_STATS = {"memalloc_details", "memfree_details", "memory_residency_details"}

_REDUCTION_OP = re.compile(r"Nccl|Collective(Reduce|Gather|Bcast|AllToAll)")
_COPY_OP = re.compile(r"_?(Send|Recv|HostSend|HostRecv|Copy|CopyHost)$")
_INPUT_OP = re.compile(
    r"Iterator|MultiDeviceIterator|Decode|Parse.*Example|ExtractJpegShape"
    r"|SampleDistortedBoundingBox"
)
# names of GPU kernels whose op says nothing: NCCL's threads
_REDUCTION_KERNEL = re.compile("nccl", re.IGNORECASE)
_COPY_KERNEL = re.compile("memcpy", re.IGNORECASE)
_REDUCE_SCOPE = re.compile(r"(^|/)reduce(_\d+)?/")
_PS = 1e-12

Interval = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One op on a thread of the host, or one kernel or copy on a stream of a GPU."""

    name: str  # of the node; empty where a kernel does not say
    op: str  # type of the op; empty likewise
    start_ps: int
    end_ps: int
    kernel: str = ""  # on a GPU: name of the kernel or copy
    gpu: str = ""  # as GPU:0, of a kernel or copy
    ends: tuple[str, ...] = ()  # of a copy: the node it comes from, the node it goes to
    is_input: bool = False  # part of the input pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The content of a profile."""

    # beginning and end of each step on its thread; GPUs may work on for a while
    steps_ps: list[Interval]
    events: list[Event]
    problems: str  # what TensorFlow could not record; empty when nothing


def capture(take_step: Callable[[], None], num_steps: int, folder: Path) -> Path:
    """Profile so many calls of `take_step`, and two more; return TensorFlow's file of it.

    The first pays for starting the profiler, and the last is not recorded whole: `read` leaves both
    out.
    """
    options = tf.profiler.experimental.ProfilerOptions(
        host_tracer_level=2, python_tracer_level=0, device_tracer_level=1
    )
    before = set(_files(folder))
    tf.profiler.experimental.start(str(folder), options)
    try:
        for step in range(num_steps + 2):
            with tf.profiler.experimental.Trace(STEP_NAME, step_num=step, _r=1):
                take_step()
    except BaseException:
        tf.profiler.experimental.stop(save=False)
        raise
    tf.profiler.experimental.stop()
    (path,) = set(_files(folder)) - before  # it has the time in its name
    return path


def _files(folder: Path) -> list[Path]:
    return list(folder.glob("plugins/profile/*/*.xplane.pb"))


def read(path: Path, input_wait_s: float) -> Profile:
    """Add up a captured file; `input_wait_s` is per step, and the caller's own measurement.

    Raises ValueError when there are less than three steps: the first and the last do not count.
    """
    trace = read_trace(path)
    if len(trace.steps_ps) < 3:
        raise ValueError(f"{path}: {len(trace.steps_ps)} steps were recorded; wanted 3 or more")
    begins = [begin for begin, _ in trace.steps_ps[1:]]
    # a step lasts until the next begins: GPUs may work on while the host has its loss
    steps = list(pairwise(begins))
    begin_ps, end_ps = begins[0], begins[-1]
    on_gpus = {event.name for event in trace.events if event.kernel}
    reducing: list[Interval] = []
    computing: list[Interval] = []
    kernels: dict[str, list[Interval]] = defaultdict(list)  # by GPU
    for event in trace.events:
        if not begin_ps <= event.start_ps < end_ps:
            continue
        interval = event.start_ps, min(event.end_ps, end_ps)
        reduces = is_reduction(event) or any(map(in_reduce_scope, event.ends))
        if event.kernel:
            kernels[event.gpu].append(interval)
        elif on_gpus and (event.name in on_gpus or _REDUCTION_OP.match(event.op) or not reduces):
            continue  # the host launches it, or gives a GPU what it needs
        if reduces:
            reducing.append(interval)
        elif not (is_copy(event) or event.is_input or _INPUT_OP.match(event.op)):
            computing.append(interval)
    merged_reducing, merged_computing = _merge(reducing), _merge(computing)
    either_ps = _length(_merge([*merged_reducing, *merged_computing]))
    within, between = _gap_shares(kernels, steps)
    per_step = _PS / len(steps)
    return Profile(
        num_steps=len(steps),
        step_s=(end_ps - begin_ps) * per_step,
        reduction_s=_length(merged_reducing) * per_step,
        exposed_reduction_s=(either_ps - _length(merged_computing)) * per_step,
        launch_gap_share=within,
        step_gap_share=between,
        input_wait_s=input_wait_s,
        problems=trace.problems,
        folder=path.parents[3].name,
    )


def is_copy(event: Event) -> bool:
    """Return whether it takes something from device to device."""
    return bool(_COPY_OP.match(event.op) or _COPY_KERNEL.search(event.kernel))


def is_reduction(event: Event) -> bool:
    """Return whether it reduces gradients; helpers of a reduction, as a division, belong to it."""
    if is_copy(event):
        return False
    if _REDUCTION_OP.match(event.op) or _REDUCTION_KERNEL.search(event.kernel):
        return True
    return in_reduce_scope(event.name)


def in_reduce_scope(name: str) -> bool:
    """Say whether a node is in the name scope `reduce`."""
    return bool(_REDUCE_SCOPE.search(name))


def _gap_shares(
    kernels: dict[str, list[Interval]], steps: list[Interval]
) -> tuple[float, float] | tuple[None, None]:
    """Return the idle time within steps, and between them, as shares: means over the GPUs."""
    if not kernels:
        return None, None
    whole_ps = steps[-1][1] - steps[0][0]
    within_ps = between_ps = 0
    for intervals in kernels.values():
        busy = _merge(intervals)
        # a step is from its first kernel to its last; one may work on while the next begins
        in_steps_ps = _length(_merge([*busy, *_spans(intervals, steps)]))
        within_ps += in_steps_ps - _length(busy)
        between_ps += whole_ps - in_steps_ps
    return within_ps / (len(kernels) * whole_ps), between_ps / (len(kernels) * whole_ps)


def _spans(kernels: list[Interval], steps: list[Interval]) -> list[Interval]:
    """Return the time from the first to the last of the kernels that start in each step."""
    spans = []
    for begin_ps, end_ps in steps:
        own = [kernel for kernel in kernels if begin_ps <= kernel[0] < end_ps]
        if own:
            last_ps = max(end for _, end in own)
            spans.append((min(own)[0], min(last_ps, end_ps)))
    return spans


def _merge(intervals: Iterable[Interval]) -> list[Interval]:
    """Join intervals that overlap or touch."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _length(merged: Iterable[Interval]) -> int:
    return sum(end - start for start, end in merged)


def read_trace(path: Path) -> Trace:
    """Read everything recorded, on one time axis."""
    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    host = _Host()
    events: list[Event] = []
    for plane in space.planes:
        gpu = _GPU_PLANE.search(plane.name)
        if plane.name == _HOST_PLANE:
            host.add(_Plane(plane))
        elif gpu:
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
        if which == "ref_value":
            return self._stat_names[value]
        return value


class _Host:
    """The threads of the host: which ops ran, and which of them in the input pipeline."""

    def __init__(self) -> None:
        self.steps_ps: list[Interval] = []
        self._ops: list[tuple[Event, int | None]] = []  # with the part that it ran in
        self._callers: dict[int, int | None] = {}  # of parts
        self._input_parts: set[int] = set()

    def add(self, plane: _Plane) -> None:
        for line in plane.lines:
            for span, around in plane.spans(line):
                is_input = line.name.startswith(_INPUT_THREAD)
                is_input = is_input or any(outer.name.startswith(_INPUT) for outer in around)
                if span.name == STEP_NAME:
                    if "step_num" in plane.stats(span):
                        self.steps_ps.append((span.start_ps, span.end_ps))
                elif span.name == "FunctionRun":
                    part = plane.stats(span)["_p"]
                    self._callers[part] = _innermost_part(around)
                    if is_input:
                        self._input_parts.add(part)
                elif span.name == "ExecutorState::Process":
                    span.part = plane.stats(span).get("_c")
                else:
                    op = _host_op(plane, span)
                    if op is not None:
                        event = replace(op, is_input=is_input)
                        self._ops.append((event, _innermost_part(around)))

    def events(self) -> list[Event]:
        """Return the ops; those of a called function are input where its call is."""
        events = []
        for event, part in self._ops:
            is_input = event.is_input
            seen: set[int] = set()
            while part is not None and part not in seen and not is_input:
                seen.add(part)
                is_input = part in self._input_parts
                part = self._callers.get(part)
            events.append(replace(event, is_input=is_input))
        return events


def _host_op(plane: _Plane, span: _Span) -> Event | None:
    """Return the op that an event of a thread is, if it is one."""
    if span.name == "ExecutorState::ProcessAsync::Start":
        stats = plane.stats(span)
        return _event(stats["name"], stats["kernel_type"], span, stats)
    match = _OP.match(span.name)
    if match is None:
        return None
    stats = plane.stats(span) if match[2] == "_Send" else {}
    return _event(match[1], match[2], span, stats)


def _event(name: str, op: str, span: _Span, stats: dict[str, Any]) -> Event:
    ends = tuple(str(stats[end]) for end in ("from", "to") if end in stats)
    return Event(name=name, op=op, start_ps=span.start_ps, end_ps=span.end_ps, ends=ends)


def _innermost_part(around: list[_Span]) -> int | None:
    for span in reversed(around):
        if span.part is not None:
            return span.part
    return None


def _gpu_events(plane: _Plane, gpu: str) -> Iterator[Event]:
    """Yield kernels and copies of all streams, without what CUPTI costs and memory takes."""
    for line in plane.lines:
        if not line.name.startswith("Stream"):
            continue
        for span, _ in plane.spans(line):
            stats = plane.stats(span)
            if _MEMORY_STATS & stats.keys():
                continue
            tf_op = str(stats.get("tf_op", ""))
            match = _OP.match(tf_op)
            name, op = match.groups() if match else (tf_op, "")
            yield replace(_event(name, op, span, stats), kernel=span.name, gpu=gpu)
