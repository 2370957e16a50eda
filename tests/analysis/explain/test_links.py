"""Links between hosts: what trials over several hosts and over one differ by."""

import pytest

from analysis.explain.ablations import Ablation, AblationFinder
from analysis.explain.waterfall import Cause, waterfall
from tests.analysis.explain.explained import (
    CPU_DEVICES,
    INDEPENDENT,
    PHOTOS,
    explained,
    result,
)

MODEL = {"model": "trivial_of_tests"}  # nobody knows its layers: half of them on each of two hosts
DISTRIBUTED = {
    "variable_update": "distributed_parameter_server",
    "local_parameter_device": "cpu",
    **MODEL,
}
HERE = {"num_gpus": 2, "environment": CPU_DEVICES}
TWO_HOSTS = {**HERE, **DISTRIBUTED, "hosts": 2}

FAST = result(105, **TWO_HOSTS)
INDEPENDENTS = result(100, **HERE, **MODEL, **INDEPENDENT)

OVER = {**DISTRIBUTED, "num_gpus": 8, "hosts": 2}
TARGET = result(300, **OVER)
INDEPENDENTS_OF_A_HOST = result(110, num_gpus=4, **MODEL, **INDEPENDENT)


def test_input_over_several_hosts_is_distinguished_from_communication():
    reading = result(400, **OVER, **PHOTOS)
    results = [reading, TARGET, INDEPENDENTS_OF_A_HOST]
    fall = waterfall(AblationFinder(results).around(reading))
    assert [part.causes for part in fall.parts][-2:] == [(Cause.COMMUNICATION,), (Cause.INPUT,)]


def test_hosts_that_are_one_machine_share_its_independent_replicas():
    ablations = AblationFinder([FAST, INDEPENDENTS]).around(FAST)
    assert [part.causes for part in waterfall(ablations).parts] == [(Cause.COMMUNICATION,)]


def test_gpus_of_several_hosts_are_held_against_those_of_one():
    ablations = AblationFinder([TARGET, INDEPENDENTS_OF_A_HOST]).around(TARGET)
    assert ablations.results[Ablation.INDEPENDENT] == INDEPENDENTS_OF_A_HOST
    fall = waterfall(ablations)
    assert [part.causes for part in fall.parts] == [(Cause.COMMUNICATION,)]
    assert [part.seconds.value for part in fall.parts] == pytest.approx([0.190], rel=1e-3)
    missing = explained(TARGET).missing
    assert "hosts=1" in missing[Ablation.ALONE]
