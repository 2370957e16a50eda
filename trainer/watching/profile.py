"""Profiles a few steps with TensorFlow's own profiler, and says where their time went."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path

import tensorflow as tf

from scalemark.records.measurement import Profile
from trainer.watching.xplane import STEP_NAME, Event, read_trace

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


def is_copy(event: Event) -> bool:
    """Return whether it takes something from device to device."""
    return bool(_COPY_OP.match(event.op) or _COPY_KERNEL.search(event.kernel))


def is_reduction(event: Event) -> bool:
    """Return whether it reduces gradients; helpers of a reduction, as a division, belong to it."""
    if is_copy(event):
        return False
    is_one = _REDUCTION_OP.match(event.op) or _REDUCTION_KERNEL.search(event.kernel)
    return bool(is_one) or in_reduce_scope(event.name)


def in_reduce_scope(name: str) -> bool:
    """Say whether a node is in the name scope `reduce`."""
    return bool(_REDUCE_SCOPE.search(name))


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
    reducing: list[Interval] = []
    computing: list[Interval] = []
    kernels: dict[str, list[Interval]] = defaultdict(list)  # by GPU
    for event in trace.events:
        if not begin_ps <= event.start_ps < end_ps or event.is_launch:
            continue
        interval = event.start_ps, min(event.end_ps, end_ps)
        if event.kernel:
            kernels[event.device].append(interval)
        if is_reduction(event) or any(map(in_reduce_scope, event.ends)):
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


def _files(folder: Path) -> list[Path]:
    return list(folder.glob("plugins/profile/*/*.xplane.pb"))
