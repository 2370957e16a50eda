"""The time of a step: compute, launches, communication that nothing hides, and input.

A step is an update: its passes go through all of its micro-batches, the rest is done once.
Constants without a source are guesses; predictions and advice rest on none of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

from scalemark.abilities import PRECISIONS, precision_of, trains_apart
from simulator.costs.box import Hardware
from simulator.costs.exchange import Exchange, LinkTraffic, exchange
from simulator.costs.memory import is_half, memory_bytes, num_slots
from simulator.costs.work import Work

# Shares of the peak that products and convolutions reach, and passes of a layer's output through
# memory, forward and backward: fitted to 332 published figures, which they miss by 33 % in the
# median. On ordinary cores fast algorithms compute less than is counted; tensor cores are too fast
# to be fed (transformers reach 44 to 52 % of A100's peak, arXiv 2104.04473).
_COMPUTE = 0.8
_TENSOR_CORES = 0.4
_OUTPUT_PASSES = 10.0
_FUSED = 0.5  # of these passes, where XLA fuses layers
_MEMORY = 0.7  # share of the GPU's memory bandwidth
_BACKWARD = 2.0  # times the FLOPs of the forward pass
_KERNELS = 2.0  # per operation of a layer: profiles of ResNet-50 on an H200 show 2.2
_TENSOR_KERNELS = 3.0  # of each gradient tensor: momentum, and weight decay or a cast
_CALL_S = 0.4e-3  # of a call of the training function, before its first kernel
_LAUNCH_CONTENTION = 0.1  # of launching, per GPU more that one process launches for
_SUM_PASSES = 3.0  # of each micro-batch: gradients and their sum read, and the sum written
_OVERLAP = 0.7  # share of communication that may run beside the passes
_STOLEN = 0.1  # of the time of NCCL's kernels, which take multiprocessors
_ISSUED = 1 / 3  # of hidden latencies: issuing messages is the host's work, as launching is
_SYNC = 0.005  # standard deviation of replicas' step times: all wait for the slowest
_H2D_BYTES = 4.0  # of a color of a pixel, as batches are copied to GPUs
_UNDISTORTED = 1.5  # times as many images are decoded per second without distortions


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """One step, seconds: step_s is the longer of input_s and all parts but communication_s."""

    step_s: float
    compute_s: float  # forward and backward on one GPU
    launch_s: float  # GPUs idle, because kernels come too slowly
    communication_s: float  # of gradients and variables, as if nothing hid it
    # part of communication_s that nothing hides, and what the hidden part takes from computing
    exposed_s: float
    update_s: float  # of the variables
    sync_s: float  # waiting for the slowest replica
    # per step, to make the next batches: hidden unless it is the longest; 0 of synthetic data
    input_s: float
    # which link communication_s is of, as "pcie", "switch", "sockets", "host memory", "host sum",
    # "nvlink", "latency"
    bottleneck: str
    memory_bytes: float  # that one GPU needs
    items: int  # of all GPUs: images or tokens

    @property
    def busy_s(self) -> float:
        """The step without waiting for its batches."""
        return self.compute_s + self.launch_s + self.exposed_s + self.update_s + self.sync_s

    @property
    def throughput(self) -> float:
        return self.items / self.step_s


def costs(work: Work, hardware: Hardware) -> Costs:
    """Work out a step.

    Raises MissingLinkError, and ValueError for what the hardware cannot do.
    """
    if work.num_gpus > hardware.num_gpus:
        raise ValueError(f"num_gpus={work.num_gpus}: {hardware.name} has {hardware.num_gpus}")
    sent = exchange(work, hardware)
    kernels_s = _kernels_s(work, hardware)
    compute_s = _compute_s(work, hardware)
    launch_s = _launch_s(work, compute_s, kernels_s)
    communication_s, exposed_s = _communication_s(work, hardware, sent, compute_s + launch_s)
    update_s = _update_s(work, hardware, sent)
    input_s = _input_s(work, hardware)
    slowest = 0.0 if trains_apart(work.variable_update) else expected_maximum(work.num_gpus)
    sync_s = _SYNC * slowest * compute_s
    busy_s = compute_s + launch_s + exposed_s + update_s + sync_s
    return Costs(
        step_s=max(input_s, busy_s),
        compute_s=compute_s,
        launch_s=launch_s,
        communication_s=communication_s,
        exposed_s=exposed_s,
        update_s=update_s,
        sync_s=sync_s,
        input_s=input_s,
        bottleneck=_bottleneck(sent),
        memory_bytes=memory_bytes(work),
        items=work.num_items(work.network.item),
    )


def _passes(work: Work) -> float:
    """Return the FLOPs of a step over those of one forward pass."""
    return 1 + _BACKWARD + work.recompute


def _kernels_s(work: Work, hardware: Hardware) -> float:
    """Return the launches of all kernels of one GPU."""
    again = _passes(work) / (1 + _BACKWARD)
    of_layers = _KERNELS * work.network.num_operations * work.gradient_accumulation * again
    of_updates = _TENSOR_KERNELS * len(work.network.tensors)
    return (of_layers + of_updates) * hardware.launch_us * 1e-6


def _compute_s(work: Work, hardware: Hardware) -> float:
    """Return products at the share of the peak that they reach, and outputs at the memory's."""
    network, num_batches = work.network, work.gradient_accumulation
    examples = work.batch_size * num_batches
    peak = peak_tflops(hardware, work.precision)
    # of tensor cores the peak is far above that of the others
    share = _TENSOR_CORES if peak > 3 * hardware.tflops.get("fp32", peak) else _COMPUTE
    products_s = _passes(work) * network.forward_flops * examples / (share * peak * 1e12)
    passes = _OUTPUT_PASSES * _passes(work) / (1 + _BACKWARD)
    if work.xla:
        passes *= _FUSED
    element_bytes = 2.0 if is_half(work.precision) else 4.0
    moved_bytes = passes * network.num_outputs * element_bytes * examples
    if num_batches > 1:
        moved_bytes += _SUM_PASSES * 4.0 * network.num_parameters * num_batches
    return products_s + moved_bytes / _memory_rate(hardware)


def _launch_s(work: Work, compute_s: float, kernels_s: float) -> float:
    """Return by how much kernels come too late, and what each call begins with."""
    launching_s = kernels_s * (1 + _LAUNCH_CONTENTION * (work.num_gpus - 1))
    return max(0.0, launching_s - compute_s) + _CALL_S / work.steps_per_execution


def _communication_s(
    work: Work, hardware: Hardware, sent: Exchange, passes_s: float
) -> tuple[float, float]:
    """Return communication as if nothing hid it, and what nothing hides.

    Variables hide behind the first forward pass, and gradients behind the last backward pass, but
    for the share that has to wait for the last of them. Staged variables hide behind all passes.
    """
    pull_s, push_s = _phase_s(sent.pull), _phase_s(sent.push)
    packing_s = 0.0
    if sent.num_casts:
        moved_s = 2 * 4.0 * work.network.num_parameters / _memory_rate(hardware)
        packing_s = sent.num_casts * hardware.launch_us * 1e-6 + moved_s
    total_s = pull_s + push_s
    forward_s = passes_s / work.gradient_accumulation / _passes(work)
    backward_s = (_passes(work) - 1) * forward_s
    pull_room_s = passes_s if work.staged_vars else forward_s
    push_room_s = 0.0 if sent.waits_for_all else backward_s
    hidden_s = _OVERLAP * (min(pull_s, pull_room_s) + min(push_s, push_room_s))
    if work.staged_vars:
        hidden_s = min(pull_s, pull_room_s) + _OVERLAP * min(push_s, push_room_s)
    exposed_s = total_s - hidden_s
    exposed_s += _ISSUED * min(hidden_s, sent.pull.latency_s + sent.push.latency_s)
    if sent.push.uses_nccl:
        exposed_s += _STOLEN * hidden_s
    return total_s + packing_s, exposed_s + packing_s


def _phase_s(traffic: LinkTraffic) -> float:
    return traffic.busiest()[1] + traffic.latency_s


def _bottleneck(sent: Exchange) -> str:
    """Return which link communication is of."""
    links_s = sent.pull.busiest()[1] + sent.push.busiest()[1]
    latency_s = sent.pull.latency_s + sent.push.latency_s
    if links_s <= latency_s:
        return "latency" if latency_s else "none"
    return max(sent.pull.busiest(), sent.push.busiest(), key=lambda link: link[1])[0]


def _update_s(work: Work, hardware: Hardware, sent: Exchange) -> float:
    """Return the update: it reads the gradient, and reads and writes the variable and each slot."""
    updated_bytes = 4.0 * work.network.num_parameters * sent.updated_share
    passes = 3.0 + 2.0 * num_slots(work.optimizer)
    if sent.updates_on_host:
        return passes * updated_bytes / (hardware.host_memory_gb_per_s * 1e9)
    return passes * updated_bytes / _memory_rate(hardware)


def _memory_rate(hardware: Hardware) -> float:
    """Return the bytes per second of a GPU's memory that are reached."""
    return _MEMORY * hardware.memory_gb_per_s * 1e9


def _input_s(work: Work, hardware: Hardware) -> float:
    """Return what CPUs decode for all GPUs, or the copies of batches to each GPU, if longer."""
    if not work.decodes:
        return 0.0
    per_core = hardware.decode_images_per_s_per_core
    if not work.distortions:
        per_core *= _UNDISTORTED
    decode_s = work.num_examples / (hardware.num_cores * per_core)
    num_pixels = work.network.image_px**2 * work.num_examples / work.num_gpus
    sharing = min(work.num_gpus, hardware.gpus_per_switch)
    copy_s = sharing * _H2D_BYTES * 3 * num_pixels / (hardware.pcie_gb_per_s * 1e9)
    return max(decode_s, copy_s)


def peak_tflops(hardware: Hardware, precision: str) -> float:
    """Return the peak of a precision; `mixed` is fp16 with fp32 where it must be.

    Raises ValueError where hardware does not have it, and where the bytes of its activations are
    unknown.
    """
    if precision_of(precision) is None:
        raise ValueError(
            f"precision={precision}: the cost model does not know it; it knows "
            f"{', '.join(PRECISIONS)}"
        )
    named = "fp16" if precision == "mixed" else precision
    if named not in hardware.tflops:
        raise ValueError(
            f"precision={precision}: {hardware.name} does not have it; it has "
            f"{', '.join(hardware.tflops)}. If it does, add its peak to tflops in the profile"
        )
    return hardware.tflops[named]


@cache
def expected_maximum(num: int) -> float:
    """Return the mean of the largest of so many independent standard normal numbers."""
    if num == 1:
        return 0.0
    normal, width = NormalDist(), 0.01
    points = [width * place for place in range(-800, 801)]
    return math.fsum(
        width * num * at * normal.pdf(at) * normal.cdf(at) ** (num - 1) for at in points
    )
