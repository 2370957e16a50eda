"""The time and the memory of a step: compute, launches, communication that nothing hides, input.

A step is an update: its passes go through all of its micro-batches, the rest is done once.
Constants without a source are guesses; predictions and advice rest on none of them.
"""

from dataclasses import dataclass
from statistics import NormalDist

from scalemark.abilities import OPTIMIZERS, PRECISIONS, VARIABLE_UPDATES, Sends, trains_apart
from scalemark.records.trial import TrialSpec
from simulator.costs.box import Hardware
from simulator.costs.exchange import Exchange, exchange, owners_of
from simulator.costs.networks import Network, network

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
    memory_bytes: float  # that one GPU needs
    items: int  # of all GPUs: images or tokens

    @property
    def busy_s(self) -> float:
        """The step without waiting for its batches."""
        return self.compute_s + self.launch_s + self.exposed_s + self.update_s + self.sync_s


def costs(spec: TrialSpec, hardware: Hardware) -> Costs:
    """Work out a step. Raises ValueError for what the hardware or the cost model does not know."""
    if spec.num_gpus > hardware.num_gpus:
        raise ValueError(f"num_gpus={spec.num_gpus}: {hardware.name} has {hardware.num_gpus}")
    counts = network_of(spec)
    sent = exchange(spec, counts, hardware)
    compute_s = _compute_s(spec, counts, hardware)
    launch_s = _launch_s(spec, counts, hardware, compute_s)
    communication_s, exposed_s = _communication_s(
        spec, counts, hardware, sent, compute_s + launch_s
    )
    update_s = _update_s(spec, counts, hardware, sent)
    input_s = _input_s(spec, hardware)
    sync_s = 0.0
    if not trains_apart(spec.variable_update):
        # the mean of the largest of so many independent standard normal numbers (Blom 1958)
        slowest = NormalDist().inv_cdf((spec.num_gpus - 0.375) / (spec.num_gpus + 0.25))
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
        memory_bytes=memory_bytes(spec, counts),
        items=spec.examples_per_step * (counts.seq_len or 1),
    )


def network_of(spec: TrialSpec) -> Network:
    """Return the counts of the model of a trial. Raises ValueError where nothing describes it."""
    return network(spec.model, spec.image_px, spec.num_classes, spec.seq_len)


def decodes(spec: TrialSpec) -> bool:
    """Return whether the host decodes images; tokens come as they are."""
    return spec.data != "synthetic" and not spec.seq_len


def peak_tflops(hardware: Hardware, precision: str) -> float:
    """Return the peak of a precision. Raises ValueError where hardware does not have it."""
    if precision not in hardware.tflops:
        raise ValueError(
            f"precision={precision}: {hardware.name} does not have it; it has "
            f"{', '.join(hardware.tflops)}. If it does, add its peak to tflops in the profile"
        )
    return hardware.tflops[precision]


def _passes(spec: TrialSpec) -> float:
    """Return the FLOPs of a step over those of one forward pass."""
    return 1 + _BACKWARD + spec.recompute


def _compute_s(spec: TrialSpec, counts: Network, hardware: Hardware) -> float:
    """Return products at the share of the peak that they reach, and outputs at the memory's."""
    num_batches, examples = spec.gradient_accumulation, spec.examples_per_replica
    peak = peak_tflops(hardware, spec.precision)
    # of tensor cores the peak is far above that of the others
    share = _COMPUTE
    if peak > 3 * hardware.tflops.get("fp32", peak):
        share = _TENSOR_CORES
    products_s = _passes(spec) * counts.forward_flops * examples / (share * peak * 1e12)
    passes = _OUTPUT_PASSES * _passes(spec) / (1 + _BACKWARD)
    if spec.xla != "off":
        passes *= _FUSED
    moved_bytes = passes * counts.num_outputs * activation_bytes(spec.precision) * examples
    if num_batches > 1:
        moved_bytes += _SUM_PASSES * 4.0 * counts.num_parameters * num_batches
    return products_s + moved_bytes / _memory_rate(hardware)


def _launch_s(spec: TrialSpec, counts: Network, hardware: Hardware, compute_s: float) -> float:
    """Return by how much kernels come too late, and what each call begins with."""
    again = _passes(spec) / (1 + _BACKWARD)
    num_kernels = _KERNELS * counts.num_operations * spec.gradient_accumulation * again
    num_kernels += _TENSOR_KERNELS * len(counts.tensors)
    launching_s = num_kernels * hardware.launch_us * 1e-6
    launching_s *= 1 + _LAUNCH_CONTENTION * (spec.num_gpus - 1)
    return max(0.0, launching_s - compute_s) + _CALL_S / spec.steps_per_execution


def _communication_s(
    spec: TrialSpec, counts: Network, hardware: Hardware, sent: Exchange, passes_s: float
) -> tuple[float, float]:
    """Return communication as if nothing hid it, and what nothing hides.

    Variables hide behind the first forward pass, and gradients behind the last backward pass, but
    for the share that has to wait for the last of them. Staged variables hide behind all passes.
    """
    pull_s, push_s = sent.pull.seconds, sent.push.seconds
    forward_s = passes_s / spec.gradient_accumulation / _passes(spec)
    hidden_pull_s = _OVERLAP * min(pull_s, forward_s)
    if spec.staged_vars:
        hidden_pull_s = min(pull_s, passes_s)
    hidden_push_s = 0.0
    if not spec.gradient_repacking and spec.gradient_accumulation == 1:
        hidden_push_s = _OVERLAP * min(push_s, (_passes(spec) - 1) * forward_s)
    hidden_s = hidden_pull_s + hidden_push_s
    exposed_s = pull_s + push_s - hidden_s
    exposed_s += _ISSUED * min(hidden_s, sent.pull.latency_s + sent.push.latency_s)
    if sent.push.uses_nccl:
        exposed_s += _STOLEN * hidden_s
    packing_s = _packing_s(spec, counts, hardware) if push_s else 0.0
    return pull_s + push_s + packing_s, exposed_s + packing_s


def _packing_s(spec: TrialSpec, counts: Network, hardware: Hardware) -> float:
    """Return how long GPUs pack, cut and cast gradients before they are summed, and after."""
    is_summed = VARIABLE_UPDATES[spec.variable_update].sends is not Sends.TO_OWNERS
    num_ways = bool(spec.gradient_repacking) + spec.compact_gradients
    if not num_ways or not is_summed:
        return 0.0
    num_messages = spec.gradient_repacking or len(counts.tensors)
    moved_s = 2 * 4.0 * counts.num_parameters / _memory_rate(hardware)
    return 2 * num_messages * num_ways * hardware.launch_us * 1e-6 + moved_s


def _update_s(spec: TrialSpec, counts: Network, hardware: Hardware, sent: Exchange) -> float:
    """Return the update: it reads the gradient, and reads and writes the variable and each slot."""
    passes = 3.0 + 2.0 * OPTIMIZERS[spec.optimizer].num_slots
    moved_bytes = passes * 4.0 * counts.num_parameters * sent.updated_share
    if _owns_on_host(spec):
        return moved_bytes / (hardware.host_memory_gb_per_s * 1e9)
    return moved_bytes / _memory_rate(hardware)


def _owns_on_host(spec: TrialSpec) -> bool:
    sends = VARIABLE_UPDATES[spec.variable_update].sends
    return sends is Sends.TO_OWNERS and spec.local_parameter_device == "cpu"


def _memory_rate(hardware: Hardware) -> float:
    """Return the bytes per second of a GPU's memory that are reached."""
    return _MEMORY * hardware.memory_gb_per_s * 1e9


def _input_s(spec: TrialSpec, hardware: Hardware) -> float:
    """Return what CPUs decode for all GPUs, or the copies of batches to each GPU, if longer."""
    if not decodes(spec):
        return 0.0
    per_core = hardware.decode_images_per_s_per_core
    if not spec.distortions:
        per_core *= _UNDISTORTED
    decode_s = spec.examples_per_step / (hardware.num_cores * per_core)
    sharing = min(spec.num_gpus, hardware.gpus_per_switch)
    batch_bytes = _H2D_BYTES * 3 * spec.image_px**2 * spec.examples_per_replica
    return max(decode_s, sharing * batch_bytes / (hardware.pcie_gb_per_s * 1e9))


_FRAMEWORK_BYTES = 0.6e9  # CUDA's context, cuDNN, cuBLAS
# Copies of a table that begins and ends a model, beside its gradient, when the backward pass ends
# and when it begins: each use has a gradient of its own, and products with it pack the table.
_TABLES_LAST, _TABLES_FIRST = 3.0, 2.0


def activation_bytes(precision: str) -> float:
    """Return the bytes of one value of an activation."""
    return float(PRECISIONS[precision].activation_bytes)


def memory_bytes(spec: TrialSpec, counts: Network) -> float:
    """Return what one GPU needs, by strategy: variables and slots are of each replica, of owners,
    or of shards, and what is not there is fetched in a step.
    """
    weights = 4.0 * counts.num_parameters
    num_slots = OPTIMIZERS[spec.optimizer].num_slots
    held, fetched = (1.0 + num_slots) * weights, 0.0
    sends = VARIABLE_UPDATES[spec.variable_update].sends
    if sends is Sends.TO_OWNERS:
        fetched = weights * (spec.num_gpus > 1 or _owns_on_host(spec))
        held = 0.0
        if not _owns_on_host(spec):
            largest = [0.0] * spec.num_gpus
            owners = owners_of(counts.tensors, spec.num_gpus)
            for size, owner in zip(counts.tensors, owners, strict=True):
                largest[owner] += 4.0 * (1.0 + num_slots) * size
            held = max(largest)
        if spec.staged_vars:
            held += weights
    if sends is Sends.REDUCE_SCATTER:
        held, fetched = held / spec.num_gpus, weights
    sums = weights if spec.gradient_accumulation > 1 else 0.0
    return (
        held
        + fetched
        + sums
        + replica_bytes(counts, spec.batch_size, spec.precision, recompute=spec.recompute)
    )


def replica_bytes(
    counts: Network, batch_size: int, precision: str, *, recompute: bool = False
) -> float:
    """Return what a step needs beside variables and slots: what waits for the backward pass of one
    micro-batch when that begins, or gradients when it ends, and copies in half precision.
    """
    element_bytes = activation_bytes(precision)
    weights = 4.0 * counts.num_parameters
    copies = 0.5 * weights if element_bytes == 2 else 0.0
    kept = counts.kept_again if recompute else counts.kept
    activations = kept.num_bytes(element_bytes) + element_bytes * counts.num_working
    table = 4.0 * counts.num_tied
    begins = activations * batch_size + _TABLES_FIRST * table
    ends = weights + _TABLES_LAST * table
    return _FRAMEWORK_BYTES + copies + max(begins, ends)
