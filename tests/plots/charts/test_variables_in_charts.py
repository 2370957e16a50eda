"""Values of an environment variable stand side by side in charts of curves and bars."""

import pytest

from tests.filled import fill
from tests.plots.charts.charting import picture, resnet
from tests.programs import fill_programs, program

RING = "replicated_none, NCCL_ALGO=Ring"
TREE = "replicated_none, NCCL_ALGO=Tree"


def trials(num_gpus=1, **axes):
    """With Ring, with Tree, and with what the sweep inherited."""
    values = {"Ring": 100.0, "Tree": 130.0, "": 120.0}
    found = []
    for value, throughput in values.items():
        free = (("env.NCCL_ALGO", value),) if value else ()
        found.append((resnet(num_gpus=num_gpus, free=free, **axes), throughput * num_gpus**0.9))
    return found


def curves(figure):
    lines = [line for line in figure.axes[0].lines if str(line.get_label())[0] != "_"]
    return {str(line.get_label()): line for line in lines if line.get_label() != "ideal"}


@pytest.mark.parametrize("name", ["scaling", "efficiency"])
def test_each_value_of_a_variable_has_a_curve(name):
    """A bug: each had a picture of its own."""
    fill("results.db", [*trials(1), *trials(4)])
    found = curves(picture(name))
    assert set(found) == {"replicated_none", RING, TREE}
    assert len({line.get_color() for line in found.values()}) == 3


def test_each_value_of_a_variable_has_a_bar():
    fill("results.db", [*trials(1), *trials(4)])
    figure = picture("throughput")
    bars = {str(bars.get_label()): bars[0].get_height() for bars in figure.axes[0].containers}
    assert bars[f"{TREE} x 1"] == pytest.approx(130)
    assert bars[f"{RING} x 1"] == pytest.approx(100)
    names = [text.get_text().replace("\n", "") for text in figure.legends[0].texts]
    assert names == ["replicated_none", RING, TREE]


def test_each_value_of_a_variable_has_a_curve_of_batch_sizes():
    fill("results.db", [*trials(batch_size=8), *trials(batch_size=16)])
    assert set(curves(picture("batch_sizes"))) == {"replicated_none", RING, TREE}


def test_each_value_of_a_variable_of_a_program_has_a_bar():
    specs = [program(free={"zero": 0, **of}) for of in ({}, {"env.NCCL_ALGO": "Ring"})]
    fill_programs(list(zip(specs, (100.0, 130.0), strict=True)))
    bars = {
        str(bars.get_label()): bars[0].get_height()
        for bars in picture("throughput").axes[0].containers
    }
    assert bars == {"NCCL_ALGO=inherited x 1": 100.0, "NCCL_ALGO=Ring x 1": 130.0}


def test_a_value_over_several_hosts_has_the_color_of_it_over_one():
    over = {"variable_update": "distributed_all_reduce", "all_reduce": "ring"}
    fill("results.db", [*trials(2, **over), *trials(4, **over), *trials(4, hosts=2, **over)])
    found = curves(picture("scaling"))
    assert len(found) == 6
    one, two = (
        found[f"distributed_ring, NCCL_ALGO=Ring{hosts}"] for hosts in ("", " over 2 hosts")
    )
    assert one.get_color() == two.get_color()
    assert one.get_color() != found["distributed_ring, NCCL_ALGO=Tree"].get_color()
