"""Reads back from TensorFlow what really ran where, and how long each replica computed.

One client's partition graphs are those of all devices that it drives, of other hosts, too; devices
are named by their task there. Clusters that XLA chose itself (xla=auto) hide their ops there, and
TensorFlow reports no bodies of them. A cluster is of one device, and soft placement is off, so what
such a device runs is read from the graph before it was optimized.

Times each replica's own compute after the measurement: in a step all wait for the slowest.

```
  GPUs, each from its own thread          CPU devices, which share the cores, in an order that
  GPU 0  forward, backward |  ...         is drawn anew in each round
  GPU 1  forward, backw|      ...         CPU 1 |-----|       CPU 2 |-----|  CPU 1       |-----|
         ----- a round -----
```
Nothing is reduced or updated. GPUs work at once, as in training, because heat and power that they
share slow them then.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.framework.types_pb2 import DataType
from tensorflow.python.eager import context

from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import ReplicaTimes
from trainer.devices import Devices, short_name
from trainer.model_tower import Batch
from trainer.towers import Towers, Trained

# as TensorFlow and oneDNN rename them when they fuse
_CONVOLUTION = re.compile(r"(_|_Mkl|_MklNative)?(Fused)?Conv2D")
_PRODUCT = re.compile(r"(_|_Mkl|_MklNative)?(Fused)?(Conv2D|MatMul)")
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_BODIES = {  # op -> attributes that name the functions it calls, where it is not inlined
    **dict.fromkeys(_CALLS, ("f",)),
    **dict.fromkeys(("While", "StatelessWhile"), ("body",)),
    **dict.fromkeys(("If", "StatelessIf"), ("then_branch", "else_branch")),
}
_SPECIALIZED = "_specialized_for_"  # behind the name of the function it was made of
_CLUSTER = "_XlaRun"
_XLA = (_CLUSTER, "XlaLaunch")
_REDUCE_SCOPE = re.compile(r"(^|/)reduce(_\d+)?/")
_REDUCTIONS = ("AddN", "NcclAllReduce", "CollectiveReduceV2", "CollectiveReduceScatterV2")
_UPDATES = re.compile("ResourceApply")
Counts = dict[str, Counter[tuple[str, str]]]
_ROLES = ("convolution", "reduction", "update", "xla", "data_format", "compute_type")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The placement that the trial requires."""

    devices: Devices
    update: Trained
    data_format: str  # NHWC or NCHW; empty: a model of the user's own says it
    compute_type: str  # of products, as graphs name it
    xla: str  # off, on, auto


@dataclass(slots=True)
class OpPlacement:
    """Counts of graph nodes: role -> (op type or property, device) -> count."""

    counts: Counts = field(default_factory=lambda: {role: Counter() for role in _ROLES})

    def devices(self, role: str) -> set[str]:
        return {device for _, device in self.counts[role]}

    def kinds(self, role: str) -> set[str]:
        return {kind for kind, _ in self.counts[role]}

    def summary(self) -> dict[str, dict[str, int]]:
        """Return role -> "AddN @ CPU:1" -> count, for `result.json`."""
        summary: dict[str, dict[str, int]] = {}
        for role, counter in self.counts.items():
            summary[role] = {}
            for (kind, device), count in sorted(counter.items()):
                summary[role][f"{kind} @ {short_name(device)}"] = count
        return summary

    def problem(self, wanted: Wanted) -> str | None:
        """Return where the ops are not what and where the trial says; None when all is right."""
        replicas, update = set(wanted.devices.replicas), wanted.update
        reductions = set(update.reduction_devices) if update.num_summed > 1 else set()
        return (
            self._misplaced("convolution", replicas, optional=True)
            or self._misplaced("update", set(update.update_devices))
            or self._misplaced("reduction", reductions, partial=True)
            or self._other("reduction", set(update.reduction_ops), "gradients were reduced by")
            or (
                wanted.data_format
                and self._other("data_format", {wanted.data_format}, "convolutions ran in")
            )
            or self._other("compute_type", {wanted.compute_type}, "products were computed in")
            or self._compiled_otherwise(wanted.xla, replicas)
        )

    def _misplaced(
        self, role: str, wanted: set[str], *, optional: bool = False, partial: bool = False
    ) -> str | None:
        """`optional`: there may be none. `partial`: few tensors need not reach every device."""
        seen = self.devices(role)
        if optional and not seen:
            return None
        if seen - wanted or (wanted and not seen) or (not partial and wanted - seen):
            return f"{role} ops ran on {_listed(seen)}, the variable update says {_listed(wanted)}"
        return None

    def _other(self, role: str, wanted: set[str], what: str) -> str | None:
        """Compare kinds; that none was found is another check's problem."""
        seen = self.kinds(role)
        if seen and seen != wanted:
            return f"{what} {', '.join(sorted(seen))}, not {' and '.join(sorted(wanted))}"
        return None

    def _compiled_otherwise(self, xla: str, replicas: set[str]) -> str | None:
        """Auto-clustering may find nothing worth compiling; on and off must be what they say."""
        seen = self.devices("xla")
        if xla == "on" and seen != replicas:
            return f"XLA compiled on {_listed(seen)}, not on every replica"
        if xla == "off" and seen:
            return "XLA compiled something, the trial says xla=off"
        return None


@contextmanager
def recorded() -> Iterator[OpPlacement]:
    """Record the functions first called inside the block; the placement is filled in at its end."""
    placement = OpPlacement()
    context.context().enable_graph_collection()
    try:
        context.context().export_run_metadata()  # drop what an earlier recording left
        yield placement
        metadata = context.context().export_run_metadata()
    finally:
        context.context().disable_graph_collection()
    for function in metadata.function_graphs:
        ran = _counted(function.partition_graphs)
        in_clusters = {device for kind, device in ran["xla"] if kind == _CLUSTER}
        if in_clusters:
            ran = _seen_through(ran, _counted([function.pre_optimization_graph]), in_clusters)
        for role, counter in ran.items():
            placement.counts[role] += counter


def _seen_through(ran: Counts, asked: Counts, in_clusters: set[str]) -> Counts:
    """Take the ops of devices that run clusters from the graph that was asked for."""
    seen: Counts = {"xla": ran["xla"]}
    for role in set(_ROLES) - {"xla"}:
        visible = {key: number for key, number in ran[role].items() if key[1] not in in_clusters}
        hidden = {key: number for key, number in asked[role].items() if key[1] in in_clusters}
        seen[role] = Counter(visible | hidden)
    return seen


def _counted(graphs: Iterable[GraphDef]) -> Counts:
    """Count the nodes of graphs that make up a function."""
    bodies = {
        called.signature.name: called.node_def
        for graph in graphs
        for called in graph.library.function
    }

    def body_of(name: str) -> Iterable[NodeDef]:
        """Find the body; that of a call specialized by its constants may be left out of graphs."""
        return bodies.get(name) or bodies.get(name.partition(_SPECIALIZED)[0], ())

    def visit(nodes: Iterable[NodeDef], caller_device: str) -> None:
        for node in nodes:
            # a called function's ops run where its call is placed
            device = node.device or caller_device
            for body in _BODIES.get(node.op, ()):
                visit(body_of(node.attr[body].func.name), device)
            if _CONVOLUTION.fullmatch(node.op):
                counts["convolution"][node.op, device] += 1
                counts["data_format"][node.attr["data_format"].s.decode(), device] += 1
            if _PRODUCT.fullmatch(node.op):
                name = DataType.Name(node.attr["T"].type)  # as DT_BFLOAT16
                counts["compute_type"][name.removeprefix("DT_").lower(), device] += 1
            if node.op in _REDUCTIONS and _REDUCE_SCOPE.search(node.name):
                counts["reduction"][node.op, device] += 1
            if _UPDATES.match(node.op):
                counts["update"][node.op, device] += 1
            if node.op in _XLA or (node.op in _CALLS and node.attr["_XlaMustCompile"].b):
                counts["xla"][node.op, device] += 1

    counts: Counts = {role: Counter() for role in _ROLES}
    for graph in graphs:
        visit(graph.node, "")
    return counts


def _listed(devices: set[str]) -> str:
    return ", ".join(sorted(map(short_name, devices))) or "no device"


WARM_UP_ROUNDS = 3  # the first compiles
LEAST_ROUNDS, MOST_ROUNDS = 24, 128
LONG_S = 10.0  # after so long the least number of rounds is enough
DIGITS = 5  # of a time
LEAST_S = 1e-6


def time_replicas(
    towers: Towers,
    weights: Sequence[tf.Tensor],
    batches: Sequence[Batch],
    devices: Devices,
    clock: Callable[[], float] = time.perf_counter,
) -> ReplicaTimes:
    """Return the times of all replicas that this process drives, given the weights and the batch of
    each for one step. Raises what TensorFlow raises, as for a device without room for its copy of
    the weights.
    """
    calls = [_call(towers, number, batch, weights) for number, batch in enumerate(batches)]
    at_once = devices.kind is DeviceKind.GPU and not devices.shared
    draw = np.random.default_rng(len(calls))
    rounds: list[list[float]] = []
    with ThreadPoolExecutor(len(calls) if at_once else 1) as threads:

        def take_round() -> list[float]:
            order = draw.permutation(len(calls)).tolist()
            took_s = threads.map(lambda place: calls[place](), order)
            of_place = dict(zip(order, took_s, strict=True))
            # more than 0, as the host's clock may be set back
            times = [max(of_place[place], LEAST_S) for place in range(len(calls))]
            return [float(f"{seconds:.{DIGITS}g}") for seconds in times]

        for _ in range(WARM_UP_ROUNDS):
            take_round()
        begin = clock()
        while len(rounds) < MOST_ROUNDS and (
            len(rounds) < LEAST_ROUNDS or clock() - begin <= LONG_S
        ):
            rounds.append(take_round())
    names = map(short_name, devices.replicas)
    return ReplicaTimes(
        at_once=at_once, seconds=dict(zip(names, zip(*rounds, strict=True), strict=True))
    )


def _call(
    towers: Towers, replica: int, batch: Batch, weights: Sequence[tf.Tensor]
) -> Callable[[], float]:
    compute = towers.own_compute(replica)
    with tf.device(batch[0].device):
        own = [tf.identity(weight) for weight in weights]
    return lambda: float(compute(own, batch)[0])
