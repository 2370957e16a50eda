"""`python -m benchmarks.step_ops resnet50 fp16`: counts the ops of one replica's training step.

Counted in the graph as it is traced, before TensorFlow optimizes it; on GPUs most start a kernel.
What the ops beside products read and write for an example stands beside what `costs/` counts.
With `--data photos` its inputs, whose bytes are counted too, come from the host in each step.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from dataclasses import replace

import tensorflow as tf

from costs.memory import is_half
from costs.networks import network
from scalemark.models import published_sizes
from scalemark.records.devices import DeviceKind
from tests.specs import small
from tests.trainer.gpu_kernels import step_graph, step_nodes
from tests.trainer.moved_bytes import moved_bytes
from trainer import devices

# these name or pass on values, and start no kernel
_FREE = ("Const", "Identity", "NoOp", "Placeholder", "ReadVariableOp", "Reshape", "Shape", "Size")
_NETWORK = ("Conv2D", "DepthwiseConv2d", "FusedBatchNorm", "Relu", "MatMul", "MaxPool", "AvgPool")
_NETWORK += ("BiasAdd", "SparseSoftmaxCrossEntropy", "Mean", "AddN")


def main(model: str, precision: str, data: str) -> None:
    sizes = published_sizes(model)
    spec = small(
        model=model,
        precision=precision,
        loss_scale="dynamic" if precision == "fp16" else "none",
        image_px=sizes.get("image_px", 0),
        seq_len=sizes.get("seq_len", 0),
        num_classes=sizes["num_classes"],
        data=data,
    )
    claimed = devices.claim(DeviceKind.CPU_DEVICE, 1)
    graph = step_graph(spec, claimed)
    larger = step_graph(replace(spec, batch_size=2 * spec.batch_size), claimed)
    moved = (moved_bytes(larger).total() - moved_bytes(graph).total()) / spec.batch_size
    counted = network(model).op_by_op.num_bytes(2.0 if is_half(precision) else 4.0)
    print(f"{moved / 1e6:,.1f} MB beside products of an example, {counted / 1e6:,.1f} counted")
    counts = Counter(node.op for node in step_nodes(graph, claimed) if node.op not in _FREE)
    of_network = Counter({op: num for op, num in counts.items() if op.startswith(_NETWORK)})
    others = counts - of_network
    print(f"{model} {precision}: {counts.total()} ops, {of_network.total()} of the network")
    for op, num in others.most_common(12):
        print(f"  {op} {num}")
    for node in graph.node:
        if node.op == "Placeholder" and tf.as_dtype(node.attr["dtype"].type) != tf.resource:
            shape = [size.size for size in node.attr["shape"].shape.dim]
            dtype = tf.as_dtype(node.attr["dtype"].type)
            print(f"{data}: {shape} {dtype.name}, {math.prod(shape) * dtype.size:,} bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", default="resnet50")
    parser.add_argument("precision", nargs="?", default="fp16", choices=("fp32", "fp16", "bf16"))
    parser.add_argument("--data", default="synthetic", choices=("synthetic", "photos", "text"))
    given = parser.parse_args()
    main(given.model, given.precision, given.data)
