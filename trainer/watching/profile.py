"""Profiles a few steps with TensorFlow's own profiler, and says where their time went."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from itertools import pairwise
from pathlib import Path

import tensorflow as tf

from scalemark.records.measurement import Profile
from trainer.watching.xplane import STEP_NAME, Event, Trace, read_trace

CONVOLUTION = "convolution"
MATMUL = "matmul"
REDUCTION = "reduction"
UPDATE = "update"
COPY = "copy"
INPUT = "input"
OTHER = "other"

# class -> op types, after `_base` has taken off what oneDNN and fusing put around the name
_TYPES = {
    REDUCTION: r"Nccl.*|Collective(Reduce|Gather|Bcast|AllToAll).*",
    UPDATE: r"ResourceApply.*|ResourceScatter.*",
    COPY: r"Send|Recv|HostSend|HostRecv|Copy|CopyHost",
    INPUT: r"Iterator.*|Decode.*|Parse.*Example.*|ExtractJpegShape"
    r"|SampleDistortedBoundingBox|MultiDeviceIterator.*",
    CONVOLUTION: r"(Fused|Depthwise|FusedDepthwise)?Conv[23][Dd].*",
    MATMUL: r"(Fused|Batch|Sparse|FusedBatch)?MatMul|Einsum",
    "normalization": r"FusedBatchNorm.*|LRN|LRNGrad",
    "pooling": r"(Max|Avg)Pool.*|FractionalMaxPool.*",
    "loss": r".*SoftmaxCrossEntropyWithLogits|(Log)?Softmax",
    "random": r".*Random.*|RngReadAndSkip|RngSkip|TruncatedNormal|StatelessTruncatedNormal",
    "layout": r"Transpose|Pad|MirrorPad.*|Slice.*|StridedSlice.*|Concat|Split|SplitV|Pack|Unpack"
    r"|Tile|Gather.*|Scatter.*|Resize.*|Reshape|ExpandDims|Squeeze|BroadcastTo|Reverse|OneHot"
    r"|Fill|ZerosLike|OnesLike|Range|ConjugateTranspose",
    "variable": r"ReadVariableOp|Assign.*VariableOp|VarHandleOp|Variable.*",
    "fusion": r"Xla.*|FusedEltwise.*",  # a cluster compiled as one
    # sums over axes among them
    "elementwise": r"Add.*|Sub|Mul|MulNoNan|RealDiv|Div|DivNoNan|FloorDiv|FloorMod|Neg|Abs|Sign"
    r"|Square|SquaredDifference|Sqrt|Rsqrt.*|Reciprocal.*|Pow|Exp|Expm1|Log|Log1p|Erf.*|Tanh.*"
    r"|Sigmoid.*|Softplus.*|(Leaky)?Relu.*|Relu6.*|Elu.*|Selu.*|Cast|Maximum|Minimum|ClipByValue"
    r"|Select|Less.*|Greater.*|Equal|NotEqual|Logical.*|Is(Finite|Nan|Inf)|BiasAdd.*|Sum|Mean|Max"
    r"|Min|Prod|All|Any|ArgMax|ArgMin|L2Loss|CheckNumerics.*",
}
# class -> what the name of a GPU kernel holds, for kernels whose op says nothing: NCCL's threads,
# XLA
_KERNELS = {
    REDUCTION: r"nccl",
    COPY: r"memcpy",
    CONVOLUTION: r"conv(?!ert)|fprop|dgrad|wgrad|winograd|implicit_gemm",
    MATMUL: r"gemm|gemv|nvjet|cublas|dot_general",
    "normalization": r"bn_fw|bn_bw|batch_?norm",
    "pooling": r"pool",
    "fusion": r"fusion|wrapped_",
}
_TYPE_PATTERNS = {name: re.compile(rf"^({types})$") for name, types in _TYPES.items()}
_KERNEL_PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _KERNELS.items()}
_REDUCE_SCOPE = re.compile(r"(^|/)reduce(_\d+)?/")
_UPDATE_SCOPE = re.compile(r"(^|/)update(_\d+)?/")
# What xprof takes for tensor core kernels, and the names newer than its list.
_TENSOR_CORES = re.compile(
    r"884|1688|16816|16832|8816|hmma|xmma|tensorop|wgmma|gmma|nvjet|tf32", re.IGNORECASE
)
_NO_TENSOR_CORES = re.compile(r"ffma|simt|sgemm", re.IGNORECASE)


@cache
def classify(op: str, name: str, kernel: str = "") -> str:
    """Return the class of an op; `kernel` is what ran of it on a GPU.

    Helpers of a reduction and of an update (a division, a read) belong to it; what goes from device
    to device is a copy.
    """
    by_type = _first_match(_TYPE_PATTERNS, _base(op))
    by_kernel = _first_match(_KERNEL_PATTERNS, kernel)
    if COPY in (by_type, by_kernel):
        return COPY
    if in_reduce_scope(name):
        return REDUCTION
    if _UPDATE_SCOPE.search(name):
        return UPDATE
    if by_type in (OTHER, "fusion") and by_kernel != OTHER:
        return by_kernel
    return by_type


def in_reduce_scope(name: str) -> bool:
    """Say whether a node is in the name scope `reduce`."""
    return bool(_REDUCE_SCOPE.search(name))


def uses_tensor_cores(kernel: str) -> bool:
    """Judge by the name of the GPU kernel, as xprof does."""
    return bool(_TENSOR_CORES.search(kernel)) and not _NO_TENSOR_CORES.search(kernel)


def _first_match(patterns: dict[str, re.Pattern[str]], text: str) -> str:
    for name, pattern in patterns.items():
        if pattern.search(text):
            return name
    return OTHER


def _base(op: str) -> str:
    """Reduce `_MklNativeFusedBatchNormEx` to `FusedBatchNormEx`, `AddV2` to `Add`."""
    return re.sub(r"(V\d)?$", "", re.sub(r"^_?(Mkl(Native)?)?", "", op))


_PS = 1e-12
_TENSOR_CORE_CLASSES = (CONVOLUTION, MATMUL)

Interval = tuple[int, int]


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
    begin_ps, end_ps = steps[0][0], steps[-1][1]
    events = [event for event in trace.events if begin_ps <= event.start_ps < end_ps]
    return _add_up(events, steps, input_wait_s, trace, path.parents[3].name)


def _add_up(
    events: list[Event], steps: list[Interval], input_wait_s: float, trace: Trace, folder: str
) -> Profile:
    num_steps = len(steps)
    begin_ps, end_ps = steps[0][0], steps[-1][1]
    class_ps: dict[str, int] = defaultdict(int)
    busy: dict[str, list[Interval]] = defaultdict(list)
    reducing: list[Interval] = []
    computing: list[Interval] = []
    num_ops: dict[str, int] = defaultdict(int)
    num_copies = 0
    for event in events:
        name = _class(event)
        interval = event.start_ps, min(event.end_ps, end_ps)
        device = event.device or "unknown"
        num_copies += event.op == "_Send" and not event.kernel
        if not event.kernel and name != COPY:
            num_ops[device] += 1
        if event.is_launch:
            continue
        class_ps[name] += min(event.self_ps, end_ps - event.start_ps)
        busy[device].append(interval)
        if name == REDUCTION or any(map(in_reduce_scope, event.ends)):
            reducing.append(interval)
        elif name not in (COPY, INPUT):
            computing.append(interval)
    merged_reducing, merged_computing = _merge(reducing), _merge(computing)
    reduction_ps = _length(merged_reducing)
    either_ps = _length(_merge([*merged_reducing, *merged_computing]))
    kernels = [event for event in events if event.kernel]
    copied_bytes = sum(kernel.num_bytes for kernel in kernels)
    within, between = _gap_shares(kernels, steps)
    return Profile(
        num_steps=num_steps,
        step_s=(end_ps - begin_ps) * _PS / num_steps,
        op_class_s={name: ps * _PS / num_steps for name, ps in class_ps.items()},
        reduction_s=reduction_ps * _PS / num_steps,
        exposed_reduction_s=(either_ps - _length(merged_computing)) * _PS / num_steps,
        num_copies=round(num_copies / num_steps),
        copied_bytes=round(copied_bytes / num_steps) if kernels else None,
        num_ops={device: round(num / num_steps) for device, num in num_ops.items()},
        busy_share={
            device: _length(_merge(intervals)) / (end_ps - begin_ps)
            for device, intervals in busy.items()
        },
        launch_gap_share=within,
        step_gap_share=between,
        tensor_core_share=_tensor_core_share(kernels),
        input_wait_s=input_wait_s,
        problems=trace.problems,
        folder=folder,
    )


def _class(event: Event) -> str:
    if event.is_input:
        return INPUT
    return classify(event.op, event.name, event.kernel)


def _gap_shares(
    kernels: list[Event], steps: list[Interval]
) -> tuple[float, float] | tuple[None, None]:
    """Return the idle time within steps, and between them, as shares: means over the GPUs."""
    begin_ps, end_ps = steps[0][0], steps[-1][1]
    by_gpu: dict[str, list[Interval]] = defaultdict(list)
    for kernel in kernels:
        by_gpu[kernel.device].append((kernel.start_ps, min(kernel.end_ps, end_ps)))
    if not by_gpu:
        return None, None
    within_ps = between_ps = 0
    for intervals in by_gpu.values():
        busy = _merge(intervals)
        # a step is from its first kernel to its last; one may work on while the next begins
        spans = [span for step in steps if (span := _span(intervals, step))]
        in_steps_ps = _length(_merge([*busy, *spans]))
        within_ps += in_steps_ps - _length(busy)
        between_ps += end_ps - begin_ps - in_steps_ps
    whole_ps = len(by_gpu) * (end_ps - begin_ps)
    return within_ps / whole_ps, between_ps / whole_ps


def _span(kernels: list[Interval], step: Interval) -> Interval | None:
    """Return the time from the first to the last of the kernels that start in a step."""
    begin_ps, end_ps = step
    own = [one for one in kernels if begin_ps <= one[0] < end_ps]
    return (min(own)[0], min(max(end for _, end in own), end_ps)) if own else None


def _tensor_core_share(kernels: list[Event]) -> float | None:
    eligible = [kernel for kernel in kernels if _class(kernel) in _TENSOR_CORE_CLASSES]
    total_ps = sum(kernel.self_ps for kernel in eligible)
    if not total_ps:
        return None
    on_cores = [kernel for kernel in eligible if uses_tensor_cores(kernel.kernel)]
    return sum(kernel.self_ps for kernel in on_cores) / total_ps


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
