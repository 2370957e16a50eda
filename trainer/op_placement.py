"""Reads back from TensorFlow which devices convolutions, reductions and updates really ran on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.python.eager import context

from trainer.devices import Devices, short_name
from trainer.towers import VariableUpdate

_CONVOLUTIONS = ("Conv2D", "_FusedConv2D", "_MklFusedConv2D", "_MklConv2D", "_MklNativeConv2D", "_MklNativeFusedConv2D")
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_REDUCE_SCOPE = re.compile(r"reduce(_\d+)?/")
_REDUCTIONS = ("AddN", "NcclAllReduce")
_UPDATES = ("ResourceApplyMomentum",)


@dataclass(slots=True)
class OpPlacement:
    """How many nodes of each role the partition graphs hold: role -> (op type, device) -> count."""

    counts: dict[str, Counter[tuple[str, str]]] = field(
        default_factory=lambda: {"convolution": Counter(), "reduction": Counter(), "update": Counter()}
    )

    def devices(self, role: str) -> set[str]:
        return {device for _, device in self.counts[role]}

    def summary(self) -> dict[str, dict[str, int]]:
        """For `result.json`: role -> "AddN @ CPU:1" -> count."""
        return {
            role: {f"{op} @ {short_name(device)}": count for (op, device), count in sorted(counter.items())}
            for role, counter in self.counts.items()
        }

    def problem(self, update: VariableUpdate, devices: Devices) -> str | None:
        """Where the ops are not what and where the variable update says they are; None when all is as it should be."""
        reductions = set(update.reduction_devices) if len(devices.replicas) > 1 else set()
        return (
            self._misplaced("convolution", set(devices.replicas), optional=True)
            or self._misplaced("update", set(update.update_devices))
            or self._misplaced("reduction", reductions, partial=True)
            or self._foreign_reduction(update.reduction_op)
        )

    def _misplaced(self, role: str, wanted: set[str], *, optional: bool = False, partial: bool = False) -> str | None:
        """`optional`: the model may have no such op. `partial`: few tensors need not reach every device."""
        found = self.devices(role)
        if optional and not found:
            return None
        if found - wanted or (wanted and not found) or (not partial and wanted - found):
            names = [", ".join(sorted(map(short_name, devices))) or "nowhere" for devices in (found, wanted)]
            return f"{role} ops ran on {names[0]}, the variable update says {names[1]}"
        return None

    def _foreign_reduction(self, wanted: str) -> str | None:
        found = {op for op, _ in self.counts["reduction"]}
        return f"gradients were reduced by {', '.join(sorted(found))}, not by {wanted}" if found - {wanted} else None


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
        for graph in function.partition_graphs:
            _count(graph, placement)


def _count(graph: GraphDef, placement: OpPlacement) -> None:
    bodies = {function.signature.name: function.node_def for function in graph.library.function}

    def visit(nodes: Iterable[NodeDef], caller_device: str) -> None:
        for node in nodes:
            device = node.device or caller_device  # a called function's ops run where its call is placed
            if node.op in _CALLS:
                visit(bodies.get(node.attr["f"].func.name, ()), device)
            elif node.op in _CONVOLUTIONS:
                placement.counts["convolution"][node.op, device] += 1
            elif node.op in _REDUCTIONS and _REDUCE_SCOPE.match(node.name):
                placement.counts["reduction"][node.op, device] += 1
            elif node.op in _UPDATES:
                placement.counts["update"][node.op, device] += 1

    visit(graph.node, "")
