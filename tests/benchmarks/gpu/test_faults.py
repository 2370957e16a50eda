"""The trial that no GPU has memory for fails for want of memory, and of nothing else."""

from benchmarks.gpu.stages.faults import TOO_LARGE_FOR_GPUS
from scalemark import models
from scalemark.layers import network_of
from simulator.costs.networks import network
from simulator.costs.step import replica_bytes

CUDNN_LIMIT = 2**31  # numbers of a tensor


def test_what_is_too_large_for_any_gpu_has_no_tensor_too_large_for_cudnn():
    """A bug: cuDNN refused a tensor, and ended the process, before memory was asked for."""
    asked = dict(one.split("=") for one in TOO_LARGE_FOR_GPUS)
    batch_size = int(asked["batch_size"])
    logits = models.define(asked["model"], image_px=224, seq_len=0, num_classes=1001)
    largest = max(tensor.num_elements for tensor in network_of(logits))
    assert batch_size * largest < CUDNN_LIMIT < 2 * batch_size * largest
    needed_bytes = replica_bytes(network(asked["model"]), batch_size, asked["precision"])
    assert needed_bytes > 1.2 * 288e9  # of the largest GPUs
