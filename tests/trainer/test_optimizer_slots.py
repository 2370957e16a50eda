"""The slots that an optimizer declares are those that it makes."""

import pytest
import tensorflow as tf

from scalemark.abilities import OPTIMIZERS
from tests.simulator.test_run import spec_of
from trainer import towers


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_makes_as_many_slots_as_it_declares(name):
    made = towers.load("optimizers", name).create(spec_of(f"optimizer={name}"))
    assert len(made.create_slots(tf.Variable([1.0, 2.0]))) == OPTIMIZERS[name].num_slots
