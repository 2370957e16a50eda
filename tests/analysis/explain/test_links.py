"""Links: what bytes over a rate explain is laid on them, and what they cannot explain is not."""

from dataclasses import replace

import pytest

from analysis.explain.ablations import Ablation, AblationFinder
from analysis.explain.causes import Bound
from analysis.explain.explanations import of_each_curve
from analysis.explain.observed import NOTHING, Bandwidth, Observed, links_of, of_box, of_probe
from analysis.explain.verdicts import Confidence
from analysis.explain.waterfall import Cause, waterfall
from scalemark.records.machine import DeviceKind, Figure, Probe, Probed
from scalemark.records.references import Origin
from simulator.costs.box import profile
from tests.analysis.explain.explained import (
    CPU_DEVICES,
    DGX_1,
    GPUS,
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
SLOW_GB_PER_S = Bandwidth(gb_per_s=10, known_by="--gb-per-s")


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
    missing = {trial.ablation: trial.command for trial in explained(target).missing}
    assert missing[Ablation.FAST_LINKS].endswith(" num_gpus=4 hosts=1")
    assert "hosts=1" in missing[Ablation.ALONE]


def test_each_number_of_hosts_is_explained():
    one_host = result(100, **HERE, **DISTRIBUTED)
    results = [one_host, FAST]
    assert of_each_curve(results, AblationFinder(results)) == [one_host, FAST]


def test_the_quick_check_is_parameters_times_4_bytes_over_the_bandwidth():
    two = result(100, num_gpus=2)
    vgg16 = Observed(num_parameters=138_000_000)
    assert links_of(two, vgg16, SLOW_GB_PER_S).check_s == pytest.approx(0.0552)
    counted = links_of(result(100, num_gpus=2, num_classes=1001), NOTHING, SLOW_GB_PER_S)
    assert counted.sent_bytes == pytest.approx(4 * 25.56e6, rel=1e-3)
    assert links_of(result(100), vgg16, SLOW_GB_PER_S) is None
    assert links_of(two, vgg16, None) is None


def simulated_on(name):
    return replace(
        GPUS,
        key=name,
        origin=Origin.SIMULATED,
        device_kind=DeviceKind.SIMULATED_GPU,
        hardware_profile=profile(name).to_json(),
    )


@pytest.mark.parametrize(
    ("place", "gb_per_s"),
    [
        (DGX_1, profile("dgx1_v100").nvlink_gb_per_s),
        (simulated_on("dgx_a100"), profile("dgx_a100").nvlink_gb_per_s),
        (simulated_on("p100_pcie_8"), profile("p100_pcie_8").pcie_gb_per_s),
    ],
)
def test_the_bandwidth_of_a_known_box_is_that_of_its_profile(place, gb_per_s):
    assert of_box(result(100, place, num_gpus=2)).gb_per_s == gb_per_s
    assert of_box(result(100, GPUS, num_gpus=2)) is None


def test_what_links_explain_in_the_worst_box_is_not_denied():
    """Parameter servers on a DGX-1 lost up to 146 times the quick check."""
    vgg16 = Observed(num_parameters=138_000_000)
    links = links_of(result(100, num_gpus=2), vgg16, SLOW_GB_PER_S)
    assert links.deny(146 * links.check_s) == ""
    assert "do not explain the rest" in links.deny(200 * links.check_s)


PROBE = Probe(
    machine="0123456789abcdef",
    host="box",
    device_kind="gpu",
    devices=("NVIDIA L4",) * 4,
    uuids=("GPU-a", "GPU-b", "GPU-c", "GPU-d"),
    measured_at="2026-11-25T12:00:00.000000+00:00",
    is_quick=False,
    all_reduce="nccl",
    figures=(
        Figure(what=Probed.PAIR, value=24e9, source=0, target=1),
        Figure(what=Probed.ALL_REDUCE, value=2e9, num_bytes=2**16),
        Figure(what=Probed.ALL_REDUCE, value=9.4567e9, num_bytes=2**28),
    ),
)


def test_the_largest_bandwidth_that_was_probed_is_taken_for_as_many_gpus():
    known = Bandwidth(gb_per_s=9.46, known_by="measured by scalemark probe, 2026-11-25")
    assert of_probe(PROBE, 4) == of_probe(PROBE, 2) == known
    assert of_probe(PROBE, 8) is None
    assert of_probe(replace(PROBE, doubts=("others",)), 2) is None
    assert of_probe(replace(PROBE, figures=PROBE.figures[:1]), 2) is None
    assert of_probe(None, 2) is None
