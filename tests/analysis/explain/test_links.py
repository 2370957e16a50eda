"""Slow links between hosts: what trials with and without them differ by."""

import pytest

from analysis.explain.ablations import Ablation, AblationFinder
from analysis.explain.causes import Bound
from analysis.explain.explanations import of_each_curve
from analysis.explain.verdicts import Confidence
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

SLOW = result(310, **TWO_HOSTS, injected="link_mbit=200")
FAST = result(105, **TWO_HOSTS)
INDEPENDENTS = result(100, **HERE, **MODEL, **INDEPENDENT)
ALONE = result(60, environment=CPU_DEVICES, **MODEL, **INDEPENDENT)
CALLS = result(309.9, **TWO_HOSTS, injected="link_mbit=200", steps_per_execution=10)
FLOOR = result(0.1, **HERE, model="trivial", **INDEPENDENT)
WHOLE = (SLOW, FAST, INDEPENDENTS, ALONE, CALLS, FLOOR)


def test_a_slow_link_is_what_a_step_takes_longer_than_without_it():
    fall = waterfall(AblationFinder(WHOLE).around(SLOW))
    assert [part.causes for part in fall.parts] == [
        (Cause.CORES,),
        (Cause.COMMUNICATION,),
        (Cause.NETWORK,),
    ]
    assert fall.parts[-1].seconds.value == pytest.approx(0.205, rel=1e-3)
    diagnosis = explained(*WHOLE).diagnosis
    assert (diagnosis.bound, diagnosis.confidence) == (Bound.COMMUNICATION, Confidence.SURE)


def test_input_over_several_hosts_is_distinguished_from_the_network():
    reading = result(400, **TWO_HOSTS, injected="link_mbit=200", **PHOTOS)
    fall = waterfall(AblationFinder([reading, *WHOLE]).around(reading))
    assert [part.causes for part in fall.parts][-2:] == [(Cause.NETWORK,), (Cause.INPUT,)]


def test_cpu_devices_have_no_network_but_the_injected_one():
    ablations = AblationFinder([FAST, INDEPENDENTS]).around(FAST)
    assert Ablation.FAST_LINKS not in (*ablations.results, *ablations.missing)
    assert [part.causes for part in waterfall(ablations).parts] == [(Cause.COMMUNICATION,)]


def test_gpus_of_several_hosts_are_held_against_those_of_one():
    over = {**DISTRIBUTED, "num_gpus": 8, "hosts": 2}
    target = result(300, **over)
    one_host = result(120, **over | {"num_gpus": 4, "hosts": 1})
    independents = result(110, num_gpus=4, **MODEL, **INDEPENDENT)
    ablations = AblationFinder([target, one_host, independents]).around(target)
    assert ablations.results[Ablation.FAST_LINKS] == one_host
    assert ablations.results[Ablation.INDEPENDENT] == independents
    fall = waterfall(ablations)
    assert [part.causes for part in fall.parts] == [(Cause.COMMUNICATION,), (Cause.NETWORK,)]
    assert [part.seconds.value for part in fall.parts] == pytest.approx([0.010, 0.180], rel=1e-3)
    missing = explained(target).missing
    assert missing[Ablation.FAST_LINKS].endswith(" num_gpus=4 hosts=1")
    assert "hosts=1" in missing[Ablation.ALONE]


def test_each_number_of_hosts_is_explained():
    one_host = result(100, **HERE, **DISTRIBUTED)
    results = [one_host, FAST]
    assert of_each_curve(results, AblationFinder(results)) == [one_host, FAST]
