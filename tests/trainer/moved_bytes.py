"""Adds up what the ops of a traced step read and write, if each is a kernel of its own."""

from collections import Counter
from collections.abc import Iterator

import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.python.framework.function_def_to_graph import function_def_to_graph

# they name or pass on what others wrote; the first part of a tensor may be one of them, too
_FREE = {"Bitcast", "Const", "ExpandDims", "Fill", "Identity", "IdentityN", "NoOp", "Placeholder"}
_FREE |= {"ReadVariableOp", "Reshape", "Shape", "ShapeN", "Size", "Squeeze", "StridedSlice"}
_FREE |= {"Unpack", "PartitionedCall", "StatefulPartitionedCall"}
_PRODUCTS = ("BatchMatMul", "Conv2D", "DepthwiseConv2d", "MatMul")
# how often the inputs that are as large as the output are read: statistics come first
_READS = {"FusedBatchNormV3": 2, "FusedBatchNormGradV3": 2, "Softmax": 3}


def moved_bytes(graph: GraphDef) -> Counter[str]:
    """Return the bytes beside products by type of op, of the whole graph with its functions."""
    found: Counter[str] = Counter()
    for op in _ops(graph):
        if op.type in _FREE or op.type.startswith(_PRODUCTS):
            continue
        reads = _READS.get(op.type, 1)
        largest = max((_num_bytes(one) for one in op.outputs), default=0)
        for one in op.inputs:
            num_bytes = _num_bytes(one)
            found[op.type] += num_bytes * (reads if num_bytes == largest else 1)
        found[op.type] += sum(map(_num_bytes, op.outputs))
    return found


def _ops(graph: GraphDef) -> Iterator[tf.Operation]:
    whole = tf.Graph()
    with whole.as_default():
        tf.import_graph_def(graph)
        yield from whole.get_operations()
        for function in graph.library.function:
            yield from function_def_to_graph(function).get_operations()


def _num_bytes(tensor: tf.Tensor) -> int:
    if tensor.dtype in (tf.resource, tf.variant, tf.string) or not tensor.shape.is_fully_defined():
        return 0
    return int(tensor.shape.num_elements()) * tensor.dtype.size
