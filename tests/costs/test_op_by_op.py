"""A model works beside products, with a kernel per operation or fused."""

import pytest

from costs.networks import network

MODELS = ("resnet50", "vgg16", "inception3", "mobilenet_v1", "gpt2", "bert_base", "vit_tiny")


def test_passes_and_kernels_are_counted_from_the_layers():
    """Three affine layers: bias three passes, two ReLUs five, the loss nine of 1001 numbers."""
    of_trivial = network("trivial").op_by_op
    assert of_trivial.elementwise == (3 + 5) * (1 + 4096) + 3 * 1001
    assert (of_trivial.float32, of_trivial.casts) == (9 * 1001, 2 * 1001)
    assert of_trivial.num_kernels == 3 * (3 + 2) + 2 * 2 + 10


def test_casts_are_there_in_half_precision_alone():
    of_trivial = network("trivial").op_by_op
    elements = of_trivial.elementwise + of_trivial.float32
    assert of_trivial.num_bytes(4.0) == 4 * elements
    half = 2 * of_trivial.elementwise + 4 * of_trivial.float32 + 6 * of_trivial.casts
    assert of_trivial.num_bytes(2.0) == half


def test_gradients_of_what_is_used_twice_are_summed():
    """A shortcut reads two, and writes one."""
    once, twice = network("resnet20_cifar"), network("resnet32_cifar")
    num_blocks = (32 - 20) // 2
    per_block = (twice.op_by_op.num_kernels - once.op_by_op.num_kernels) / num_blocks
    assert per_block == 2 * (3 + 3 + 8 + 2) + 1 + 1


@pytest.mark.parametrize("model", MODELS)
def test_fused_less_goes_through_memory(model):
    of = network(model)
    for element_bytes in (2.0, 4.0):
        assert of.fused.num_bytes(element_bytes) < of.op_by_op.num_bytes(element_bytes)


def test_kernels_of_resnet50_are_those_of_profiles():
    """A bug: with XLA half of them were counted."""
    of = network("resnet50")
    num_ran, num_updates = 1374, 3 * 161
    assert of.op_by_op.num_kernels == pytest.approx(num_ran - num_updates, rel=0.01)
    num_ran, num_updates, num_of_joined_gradients = 1175, 161, 106
    passes = num_ran - num_updates - num_of_joined_gradients
    assert of.fused.num_kernels == pytest.approx(passes, rel=0.01)


def test_each_dropout_of_gpt2_draws_by_eight_kernels_with_xla():
    """A bug: two were counted. Without dropouts 558 are counted, of which 37 have 10 each."""
    assert network("gpt2").fused.num_kernels == 558 + 37 * 10


def test_xla_saves_kernels_of_transformers_alone():
    """Batch normalization is one kernel of cuDNN each way, and five with XLA."""
    for model in ("gpt2", "bert_base", "vit_tiny"):
        assert network(model).fused.num_kernels < network(model).op_by_op.num_kernels / 2


def test_xla_saves_transformers_more_than_networks_of_batch_normalization():
    """It reads each tensor twice for its statistics, and softmax and GELU take many operations."""
    saved = {
        model: network(model).op_by_op.num_bytes(2.0) / network(model).fused.num_bytes(2.0)
        for model in ("resnet50", "gpt2")
    }
    assert saved["resnet50"] < 1.5 < 2.5 < saved["gpt2"]
