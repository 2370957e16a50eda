"""Adds up the time of a step: compute, launches, communication that nothing hides, input.

A step is an update: its passes go through all of its micro-batches, the rest is done once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from costs.beside_products import BesideProducts
from costs.communication import Exchange, exchange
from costs.hardware import Hardware
from costs.memory import is_half, memory_bytes
from costs.networks import Network
from costs.optimizers import update_passes
from costs.overlap import Floats, Values, exposed_after, exposed_before
from costs.topology import BETWEEN_CLIQUES, Traffic
from costs.work import Work
from scalemark.abilities import PRECISIONS, precision_of, trains_apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Rates that data sheets leave out. Defaults are guesses.

    `analysis.calibration` learns them from rows, and tries many at once: then each is an array
    (D,) of as many values.
    """

    # share of the peak that convolutions and matmuls reach, once fast algorithms have shortened
    # them
    compute: Values = 0.5
    memory: Values = 0.7  # share of the GPU's memory bandwidth that element-wise work reaches
    # times launch_us that each kernel takes whatever the batch: its blocks do not fill the GPU at
    # its end
    start: Values = 0.7
    link: Values = 0.8  # share of the bandwidth of PCIe and NVLink that communication reaches
    # of the link between CPU sockets; profiles tell what peers reach over it, not its raw speed
    sockets: Values = 0.9
    latency: Values = 1.0  # times what small messages take by the profile
    # share of NVLink's bandwidth that is left to a ring through more than one clique
    across: Values = 0.4
    overlap: Values = 0.7  # share of communication that is free to run beside the passes
    board: Values = 0.0  # share that compute slows down as soon as GPUs of one board work together
    host_s: Values = 0.0  # per step and GPU more than one: the host launches for all of them
    # standard deviation of replicas' step times, over their mean: all wait for the slowest
    sync: Values = 0.005
    input: Values = 1.0  # times the profile's rate of decoding
    # share of the time to make batches that slows steps, though batches are ready: cores are taken
    feed: Values = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds:
    """The parts of a step: numbers, or (D,) of as many rates."""

    compute_s: Values  # forward and backward on one GPU, with N working
    launch_s: Values  # GPUs idle, because kernels come too slowly
    communication_s: Values  # of gradients and variables, as if nothing hid it
    # part of communication_s that nothing hides, and what the hidden part takes from computing
    exposed_s: Values
    update_s: Values  # of the variables
    host_s: Values
    sync_s: Values  # waiting for the slowest replica
    # per step, to make the next batches: hidden unless it is the longest; 0 of synthetic data
    input_s: Values

    @property
    def busy_s(self) -> Values:
        """The step without waiting for its batches."""
        passes_s = self.compute_s + self.launch_s + self.exposed_s
        return passes_s + self.update_s + self.host_s + self.sync_s

    @property
    def step_s(self) -> Values:
        longest: Values = np.maximum(self.input_s, self.busy_s)
        return longest


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """One step, seconds: step_s is the longer of input_s and all parts but communication_s."""

    step_s: float
    compute_s: float  # as `Seconds` has these
    launch_s: float
    communication_s: float
    exposed_s: float
    update_s: float
    host_s: float
    sync_s: float
    input_s: float
    # which link communication_s is of, as "pcie", "switch", "sockets", "host memory", "host sum",
    # "nvlink", "latency"
    bottleneck: str
    memory_bytes: float  # that one GPU needs
    items: int  # of all GPUs: images or tokens

    @property
    def busy_s(self) -> float:
        """The step without waiting for its batches."""
        passes_s = self.compute_s + self.launch_s + self.exposed_s
        return passes_s + self.update_s + self.host_s + self.sync_s

    @property
    def throughput(self) -> float:
        return self.items / self.step_s


def costs(work: Work, hardware: Hardware, rates: Rates | None = None) -> Costs:
    """Work out a step.

    Raises costs.hardware.MissingLinkError, and ValueError for what the hardware cannot do.
    """
    return Step.of(work, hardware).costs(rates or Rates())


FAST = 3.0
"""Times fewer multiplications of Winograd's algorithms than of a direct 3x3 convolution: F(2x2,
3x3) has 2.25 times fewer, F(4x4, 3x3) 4 times (Lavin and Gray, arXiv 1509.09308).
"""

# GPUs by the first number of their compute capability for which cuDNN has fast kernels of these
# algorithms. They are machine code, which no later number runs: profiles of Ampere show
# `ampere_scudnn_winograd_*`, nothing has a kernel so named after Hopper, and of an H200 (cuDNN
# 9.19) other algorithms took 13.5 of 13.6 ms of convolutions. cuDNN refuses the algorithm on
# Blackwell (forums.developer.nvidia.com/t/332718).
_SHORTENING = ("3", "5", "6", "7", "8")

# of the share of the peak that ordinary cores reach: their peak is too high for convolutions to
# feed them. Products of matrices do: transformers reach 44 to 52 % of A100's (Narayanan et al.
# 2021, arXiv 2104.04473, table 1)
TENSOR_CORES = 0.4
# Times the half of ordinary cores' peak that convolutions reach: large products in FP32 reach 84 %
# of V100's (DeepBench at da81ba7, DeepBench_NV_V100.xlsx, median of the 30 GEMMs with 5481 columns
# or more, but for those of 1024 rows, some of which exceed the peak). Tensor cores are fed as well
# by such, and idle sooner with less: with 128 columns the medians are 71 and 28 %.
_PRODUCTS = 1.68
_BACKWARD = 2.0  # times the flops of the forward pass: gradients of inputs and of weights
_CALL_S = 0.4e-3  # of a call of the training function, before its first kernel
_LAUNCH_CONTENTION = 0.1  # of launching, per GPU more that one process launches for
_COPIES_AT_ONCE = 2.0  # that the host has in hand
_STOLEN = 0.1  # of the time of NCCL's kernels, which take multiprocessors
# of the latency of messages: issuing them is the host's work, whose threads launch kernels, too;
# assumed
_ISSUED = 1 / 3
_WEIGHT_PASSES = 3.0  # read forward, backward, and their gradients written
# of each gradient tensor: momentum updates it by two, and there is weight decay or a cast
_TENSOR_KERNELS = 3.0
# the same where XLA compiles all updates into one program: 161 of ResNet-50's 161 (a profile)
_COMPILED_TENSOR_KERNELS = 1.0
_SUM_PASSES = 3.0  # of each micro-batch: gradients and their sum read, and the sum written
_H2D_BYTES = 4.0  # of a color of a pixel, as batches are copied to GPUs
_UNDISTORTED = 1.5  # times as many images are decoded per second without distortions
OWN_PROCESSES = ("horovod", "ddp")  # a process per GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """All of a step that does not depend on the rates: worked out once for many rates."""

    work: Work
    hardware: Hardware
    exchange: Exchange
    flops_s: float  # at the peak
    beside: BesideProducts
    kernels_s: float  # launches of all kernels of one GPU
    weights_s: float
    packing_s: float
    update_s: float
    busy_pull: list[tuple[str, float]]  # seconds of each kind of link, at the profile's bandwidths
    busy_push: list[tuple[str, float]]
    backward: Floats  # (M,) shares of the bytes, in the order in which gradients are ready
    ready: Floats  # (M,) share of the backward pass
    wanted: Floats  # (T,) share of the forward pass, in the order of the layers
    slowest: float  # how many standard deviations the slowest of n replicas is behind

    @classmethod
    def of(cls, work: Work, hardware: Hardware) -> Step:
        if work.num_gpus > hardware.num_gpus:
            raise ValueError(f"num_gpus={work.num_gpus}: {hardware.name} has {hardware.num_gpus}")
        sent = exchange(work, hardware)
        network, batch = work.network, work.batch_size
        activation_share = 0.5 if is_half(work.precision) else 1.0
        num_batches = work.gradient_accumulation
        again = _passes(work) / (1 + _BACKWARD)
        flops = _passes(work) * network.forward_flops * batch * num_batches
        peak = peak_tflops(hardware, work.precision)
        if has_tensor_cores(hardware, work.precision):
            flops *= network.product_share + (1 - network.product_share) / TENSOR_CORES
        else:
            products = network.product_share
            flops *= _computed_share(network, hardware) - products * (1 - 1 / _PRODUCTS)
        memory = hardware.memory_gb_per_s * 1e9
        launch_s = hardware.launch_us * 1e-6
        parameters = 4.0 * network.num_parameters
        launched = (network.fused if work.xla else network.op_by_op).num_kernels
        of_tensor = _COMPILED_TENSOR_KERNELS if _compiles_updates(work, sent) else _TENSOR_KERNELS
        kernels = launched * num_batches * again + of_tensor * len(network.tensors)
        weight_passes = (_WEIGHT_PASSES + work.recompute) * activation_share
        if num_batches > 1:
            weight_passes += _SUM_PASSES
        packing_s = 0.0
        if sent.num_casts:
            packing_s = sent.num_casts * launch_s + 2 * parameters / memory
        update_memory = hardware.host_memory_gb_per_s * 1e9 if sent.updates_on_host else memory
        backward, ready = _readiness(work, sent)
        return cls(
            work=work,
            hardware=hardware,
            exchange=sent,
            flops_s=flops / (peak * 1e12),
            beside=BesideProducts.of(work, hardware, num_batches * again),
            kernels_s=kernels * launch_s,
            weights_s=weight_passes * num_batches * parameters / memory,
            packing_s=packing_s,
            update_s=update_passes(work.optimizer) * sent.updated_bytes / update_memory,
            busy_pull=list(sent.pull.by_kind()),
            busy_push=list(sent.push.by_kind()),
            backward=backward,
            ready=ready,
            wanted=_wanted(work),
            slowest=0.0 if trains_apart(work.variable_update) else expected_maximum(work.num_gpus),
        )

    def costs(self, rates: Rates) -> Costs:
        """Work out a step by one value of each rate."""
        seconds = self.seconds(rates)
        parts = {field.name: _number(getattr(seconds, field.name)) for field in fields(Seconds)}
        return Costs(
            **parts,
            step_s=_number(seconds.step_s),
            bottleneck=self._bottleneck(rates),
            memory_bytes=memory_bytes(self.work),
            items=self.work.num_items(self.work.network.item),
        )

    def seconds(self, rates: Rates) -> Seconds:
        """Work out the parts of a step by one value of each rate, or by many at once."""
        compute_s = self._compute_s(rates)
        launch_s = self._launch_s(compute_s)
        one_batch_s = (compute_s + launch_s) / self.work.gradient_accumulation
        communication_s, exposed_s = self._communication(one_batch_s, rates)
        input_s = self._input_s(rates)
        host_s = rates.feed * input_s
        update_s: Values = self.update_s
        if not self.exchange.updates_on_host:
            update_s = self.update_s / rates.memory
        if self.work.variable_update not in OWN_PROCESSES:
            host_s = host_s + rates.host_s * (self.work.num_gpus - 1)
        return Seconds(
            compute_s=compute_s,
            launch_s=launch_s,
            communication_s=communication_s,
            exposed_s=exposed_s,
            update_s=update_s,
            host_s=host_s,
            sync_s=rates.sync * self.slowest * compute_s,
            input_s=input_s,
        )

    def _compute_s(self, rates: Rates) -> Values:
        alone = (
            self.flops_s / rates.compute
            + self.beside.seconds(rates.memory)
            + self.weights_s / rates.memory
            + rates.start * self.kernels_s
        )
        shares_board = self.hardware.gpus_per_board > 1 and self.work.num_gpus > 1
        return alone * (1 + rates.board) if shares_board else alone

    def _launch_s(self, compute_s: Values) -> Values:
        """Return by how much kernels come too late, and what each call begins with."""
        num_gpus = 1 if self.work.variable_update in OWN_PROCESSES else self.work.num_gpus
        launching = self.kernels_s * (1 + _LAUNCH_CONTENTION * (num_gpus - 1))
        late: Values = np.maximum(0.0, launching - compute_s)
        return late + _CALL_S / self.work.steps_per_execution

    def _communication(self, passes_s: Values, rates: Rates) -> tuple[Values, Values]:
        """Return communication as if nothing hid it, and what nothing hides, behind the passes of
        one micro-batch: variables come before the first, gradients go after the last. Staged
        variables come beside the passes of all.
        """
        if not (
            self.busy_pull
            or self.busy_push
            or self.exchange.pull.latency_s
            or self.exchange.push.latency_s
        ):
            return 0.0, 0.0
        pull_s, pull_latency_s = self._phase(self.exchange.pull, self.busy_pull, rates)
        push_s, push_latency_s = self._phase(self.exchange.push, self.busy_push, rates)
        total = pull_s + pull_latency_s + push_s + push_latency_s
        forward_s = passes_s / _passes(self.work)
        pull = exposed_before(self.wanted, pull_s, pull_latency_s, forward_s)
        push = exposed_after(
            self.backward, self.ready, push_s, push_latency_s, passes_s - forward_s
        )
        if self.work.staged_vars:
            update_s = passes_s * self.work.gradient_accumulation
            pull = np.maximum(0.0, pull_s + pull_latency_s - update_s)
        hidden = rates.overlap * (total - pull - push)
        exposed = total - hidden + _ISSUED * np.minimum(hidden, pull_latency_s + push_latency_s)
        if self.exchange.push.uses_nccl:
            exposed = exposed + _STOLEN * (total - exposed)
        return total + self.packing_s, exposed + self.packing_s

    def _phase(
        self, traffic: Traffic, busy: list[tuple[str, float]], rates: Rates
    ) -> tuple[Values, Values]:
        """Return seconds of the busiest link, and of all latencies."""
        transfer_s: Values = 0.0
        for _, busy_s in self._reached(busy, rates):
            transfer_s = np.maximum(transfer_s, busy_s)
        latency_s = (
            traffic.latency_s + traffic.num_copies * self.hardware.copy_us * 1e-6 / _COPIES_AT_ONCE
        )
        return transfer_s, latency_s * rates.latency

    def _reached(self, busy: list[tuple[str, float]], rates: Rates) -> Iterator[tuple[str, Values]]:
        """Yield seconds of each kind of link, at the share of its bandwidth that is reached."""
        reached = {
            "sockets": rates.sockets,
            "host memory": 1.0,
            "host sum": 1.0,
            BETWEEN_CLIQUES: rates.link * rates.across,
        }
        for kind, busy_s in busy:
            yield kind, busy_s / reached.get(kind, rates.link)

    def _bottleneck(self, rates: Rates) -> str:
        """Return which link communication is of, for one value of each rate."""
        longest_s, transfer_s, latency_s = -1.0, 0.0, 0.0
        busiest: list[tuple[str, float]] = []
        for traffic, busy in (
            (self.exchange.pull, self.busy_pull),
            (self.exchange.push, self.busy_push),
        ):
            of_links, of_latencies = self._phase(traffic, busy, rates)
            transfer_s += _number(of_links)
            latency_s += _number(of_latencies)
            if _number(of_links) > longest_s:
                longest_s, busiest = _number(of_links), busy
        if transfer_s <= latency_s:
            return "latency" if latency_s else "none"
        reached = {kind: _number(seconds) for kind, seconds in self._reached(busiest, rates)}
        return max(reached, key=reached.__getitem__)

    def _input_s(self, rates: Rates) -> Values:
        """Return what CPUs decode for all GPUs, or the copies of batches to each GPU, if longer."""
        if not self.work.decodes:
            return 0.0
        per_core = self.hardware.decode_images_per_s_per_core * rates.input
        if not self.work.distortions:
            per_core = per_core * _UNDISTORTED
        num_examples = self.work.num_examples
        decode_s = num_examples / (self.hardware.num_cores * per_core)
        num_pixels = self.work.network.image_px**2 * num_examples / self.work.num_gpus
        batch_bytes = _H2D_BYTES * 3 * num_pixels
        sharing = min(self.work.num_gpus, self.hardware.gpus_per_switch)
        copy_s = sharing * batch_bytes / (self.hardware.pcie_gb_per_s * 1e9 * rates.link)
        longest: Values = np.maximum(decode_s, copy_s)
        return longest


def _number(values: Values) -> float:
    """Return the value for the one rate there is."""
    return float(np.ravel(values)[0])


def peak_tflops(hardware: Hardware, precision: str) -> float:
    """Return the peak of a precision; `mixed` is fp16 with fp32 where it must be.

    Raises ValueError where hardware does not have it, and where nobody knows the bytes of its
    activations, though it be fast.
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


def most_mfu(work: Work, hardware: Hardware) -> float:
    """Return the model FLOPs utilization of a GPU that computes at its peak: more than 1 where fast
    algorithms compute less than is counted.
    """
    if has_tensor_cores(hardware, work.precision):
        return 1.0
    return 1 / _computed_share(work.network, hardware)


def has_tensor_cores(hardware: Hardware, precision: str) -> bool:
    """Return whether a precision computes on tensor cores, whose peak is far above the others'."""
    peak = peak_tflops(hardware, precision)
    return peak > 3 * hardware.tflops.get("fp32", peak)


def _computed_share(network: Network, hardware: Hardware) -> float:
    """Return the share of a network's FLOPs that ordinary cores compute."""
    if hardware.compute_capability.partition(".")[0] not in _SHORTENING:
        return 1.0
    return 1 - network.winograd_share * (1 - 1 / FAST)


def expected_maximum(num: int) -> float:
    """Return the mean of the largest of so many independent standard normal numbers."""
    if num == 1:
        return 0.0
    points = np.linspace(-8, 8, 8001)
    density = np.exp(-(points**2) / 2) / np.sqrt(2 * np.pi)
    below = np.cumsum(density) * (points[1] - points[0])
    return float(np.sum(num * points * density * below ** (num - 1)) * (points[1] - points[0]))


def _passes(work: Work) -> float:
    """Return the flops of a step over those of one forward pass."""
    return 1 + _BACKWARD + work.recompute


def _compiles_updates(work: Work, sent: Exchange) -> bool:
    """Return whether the trainer has XLA compile updates: of gradients that wait for no others."""
    is_alone = work.num_gpus == 1 or trains_apart(work.variable_update)
    return work.xla and work.is_of_trainer and is_alone and not sent.updates_on_host


def num_operations(network: Network, num_batches: int, *, recompute: bool) -> float:
    """Return the operations of layers in the passes of all micro-batches of an update."""
    return network.num_operations * num_batches * (1 + recompute / (1 + _BACKWARD))


def _readiness(work: Work, sent: Exchange) -> tuple[Floats, Floats]:
    """Return the messages' shares of the bytes, and of the backward pass when they are ready.

    They are in the order in which their gradients are ready. Every tensor is taken to be as much
    work as any other; a message is ready with the last tensor that it has a part of.
    """
    messages = np.array(sent.message_bytes[::-1], float)
    shares = messages / messages.sum()
    if sent.waits_for_all:
        return shares, np.ones(len(shares))
    sizes = np.array(work.network.tensors[::-1], float)
    done = np.arange(1, len(sizes) + 1) / len(sizes)
    covered = np.cumsum(sizes) / sizes.sum()
    last = np.minimum(np.searchsorted(covered, np.cumsum(shares) - _ROUNDING), len(sizes) - 1)
    return shares, done[last]


def _wanted(work: Work) -> Floats:
    """Return the share of the forward pass at which each variable is wanted, in the order of the
    layers, however gradients are sent: they are fetched whole or in shards, and never in packs.
    """
    num = len(work.network.tensors)
    return np.arange(num) / num


_ROUNDING = 1e-12  # of sums of shares; less than any tensor's share
