"""The FLOPs of a model's definition are those of the graph that TensorFlow trains."""

import pytest

from scalemark import models
from simulator.costs.networks import network
from tests.specs import small
from tests.trainer.graph_flops import traced_flops
from trainer import run

WITHIN = 0.01
BATCH_SIZE = 2
SMALL = {
    "bert_tiny": {"seq_len": 16, "image_px": 0, "num_classes": 256},
    "gpt_mini": {"seq_len": 16, "image_px": 0, "num_classes": 256},
    "lenet5": {"image_px": 28},
    "mobilenet_v1": {"image_px": 32},
    "resnet18_cifar": {"image_px": 32},
    "trivial": {"image_px": 32},
    "vit_tiny": {"image_px": 16},
}


def check(make_devices, model, sizes, num_gpus=1, **axes):
    """Compare per example."""
    sizes = {"num_classes": 10} | sizes
    spec = small(model=model, num_gpus=num_gpus, batch_size=BATCH_SIZE, **sizes, **axes)
    traced = traced_flops(run.build(spec, make_devices(num_gpus)), BATCH_SIZE)
    defined = network(model, **sizes)
    assert traced == pytest.approx(
        BATCH_SIZE * num_gpus * defined.training_flops, rel=WITHIN, abs=0
    )


@pytest.mark.parametrize(("model", "sizes"), SMALL.items(), ids=SMALL)
def test_flops_are_those_of_the_traced_graph(make_devices, model, sizes):
    check(make_devices, model, sizes)


@pytest.mark.integration
@pytest.mark.parametrize(
    "axes",
    [{"num_gpus": 3}, {"precision": "bf16"}, {"xla": "on"}, {"variable_update": "mirrored"}],
    ids=str,
)
def test_a_way_of_training_changes_no_flops(make_devices, axes):
    check(make_devices, "resnet18_cifar", SMALL["resnet18_cifar"], **axes)


@pytest.mark.slow
@pytest.mark.parametrize("model", models.definitions())
def test_flops_of_the_published_size_are_those_of_the_traced_graph(make_devices, model):
    check(make_devices, model, models.published_sizes(model))
