"""Counts the FLOPs of a training step as TensorFlow's traced graph has it: of every matrix product
and convolution, forward and backward.
"""

from collections.abc import Iterator
from math import prod

import tensorflow as tf
from tensorflow.python.framework import ops
from tensorflow.python.profiler.internal import flops_registry

from trainer.run import Training

assert flops_registry  # its import registers what TensorFlow itself counts

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_HOLD_GRAPHS = ("While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase")
_BY_TENSORFLOW = ("MatMul", "BatchMatMulV2", "BatchMatMulV3", "Conv2D", "DepthwiseConv2dNative")


def traced_flops(training: Training, batch_size: int) -> int:
    """Trace the step of all replicas on batches of zeros, and count the products in it."""
    example = training.template.example
    inputs = tf.zeros((batch_size, *example.input_shape), example.input_dtype)
    label_type = tf.int64 if example.num_classes else tf.float32
    labels = tf.zeros((batch_size, *example.label_shape), label_type)
    batches = [(inputs, labels)] * len(training.devices.replicas)
    return graph_flops(training.towers.step.trace(batches))


def graph_flops(graph: tf.Graph) -> int:
    """Count what runs: TensorFlow's gradients make products that nothing takes."""
    return sum(_flops(op) for op in _needed(graph))


def _needed(graph: tf.Graph) -> Iterator[tf.Operation]:
    to_visit = [*(tensor.op for tensor in graph.outputs), *graph.control_outputs]
    met = set()
    while to_visit:
        op = to_visit.pop()
        if op not in met:
            met.add(op)
            yield op
            to_visit += [*(tensor.op for tensor in op.inputs), *op.control_inputs]


def _flops(op: tf.Operation) -> int:
    assert op.type not in _HOLD_GRAPHS, f"{op.name}: how often it runs is not counted here"
    if op.type in _CALLS:
        return graph_flops(op.graph._get_function(op.get_attr("f").name).graph)
    if op.type in _BY_TENSORFLOW:
        return ops.get_stats_for_node_def(op.graph, op.node_def, "flops").value
    return _OTHERS[op.type](op) if op.type in _OTHERS else 0


def _einsum(op: tf.Operation) -> int:
    """Multiply the sizes of all letters of the equation."""
    sizes: dict[str, int] = {}
    operands = op.get_attr("equation").decode().partition("->")[0].split(",")
    assert len(operands) == 2, f"{op.name}: wanted a product of two"
    for letters, tensor in zip(operands, op.inputs, strict=True):
        sizes |= zip(letters, tensor.shape, strict=True)
    return 2 * prod(sizes.values())


def _convolution_backward(op: tf.Operation) -> int:
    """Each number of the output's gradient meets the kernel of its channel. (TensorFlow's own count
    divides the image by the strides: too many at edges.)
    """
    _, _, gradient = op.inputs  # before it images and the kernel, of one of them the sizes
    kernel = op.outputs[0] if op.type.endswith("Filter") else op.inputs[1]
    height, width, channels, _ = kernel.shape
    if op.type.startswith("Depthwise"):
        channels = 1
    return 2 * height * width * channels * gradient.shape.num_elements()


_OTHERS = {
    "Einsum": _einsum,
    "Conv2DBackpropInput": _convolution_backward,
    "Conv2DBackpropFilter": _convolution_backward,
    "DepthwiseConv2dNativeBackpropInput": _convolution_backward,
    "DepthwiseConv2dNativeBackpropFilter": _convolution_backward,
}
