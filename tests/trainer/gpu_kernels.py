"""Asks TensorFlow's own kernel registry which ops of a traced step no GPU could run.

TensorFlow's packages register their GPU kernels on every machine; a step that is traced over CPU
devices has the ops that it would have on GPUs.
"""

from collections.abc import Iterable, Iterator
from functools import cache

import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.kernel_def_pb2 import KernelDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.python.framework import kernels

from scalemark.records.trial import TrialSpec
from trainer.devices import Devices
from trainer.run import open_training

# the runtime takes these apart before anything runs
_CALLS = {
    **dict.fromkeys(("PartitionedCall", "StatefulPartitionedCall"), ("f",)),
    **dict.fromkeys(("If", "StatelessIf"), ("then_branch", "else_branch")),
    **dict.fromkeys(("While", "StatelessWhile"), ("body", "cond")),
}
_NO_KERNEL = ("NoOp", "Placeholder")


def lacking(spec: TrialSpec, devices: Devices) -> set[str]:
    """Return the ops of replicas, with their types, that no GPU kernel is registered for."""
    found = set()
    for node in step_nodes(step_graph(spec, devices), devices):
        if node.op not in _NO_KERNEL and not any(
            _takes(one, node) for one in _gpu_kernels(node.op)
        ):
            types = [tf.as_dtype(value.type).name for value in node.attr.values() if value.type]
            found.add(f"{node.op} {' '.join(types)}".strip())
    return found


def step_graph(spec: TrialSpec, devices: Devices) -> GraphDef:
    """Trace a step on the trial's own data."""
    training, data = open_training(spec, devices)
    return training.towers.step.trace(data.next()).as_graph_def()


def step_nodes(graph: GraphDef, devices: Devices) -> list[NodeDef]:
    """Return the nodes on replicas, of called functions, too."""
    bodies = {function.signature.name: function.node_def for function in graph.library.function}
    nodes = list(_on(graph.node, "", devices.replicas, bodies))
    assert len(nodes) > 100, "no step was found on the replicas"
    return nodes


def _on(
    nodes: Iterable[NodeDef],
    caller: str,
    replicas: Iterable[str],
    bodies: dict[str, Iterable[NodeDef]],
) -> Iterator[NodeDef]:
    for node in nodes:
        device = node.device or caller
        for name in _CALLS.get(node.op, ()):
            yield from _on(bodies[node.attr[name].func.name], device, replicas, bodies)
        if device in replicas and node.op not in _CALLS:
            yield node


@cache
def _gpu_kernels(op: str) -> list[KernelDef]:
    registered = kernels.get_registered_kernels_for_op(op).kernel
    return [kernel for kernel in registered if kernel.device_type in ("GPU", "DEFAULT")]


def _takes(kernel: KernelDef, node: NodeDef) -> bool:
    for constraint in kernel.constraint:
        value = node.attr[constraint.name]
        types = {value.type} if value.type else set(value.list.type)
        if not types <= set(constraint.allowed_values.list.type):
            return False
    return True
