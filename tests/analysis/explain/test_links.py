"""Links: what bytes over a rate explain is laid on them, and what they cannot explain is not."""

from dataclasses import replace

import pytest

from analysis.explain import explain_words as words
from analysis.explain.ablations import Ablation, AblationFinder
from analysis.explain.explanations import of_each_curve
from analysis.explain.links import Bandwidth, links_of, of_box, of_probe
from analysis.explain.observed import NOTHING, Observed, observed
from analysis.explain.suspects import Bound
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
SEEN = Observed(num_parameters=1_000_000, link_bytes_per_s=20e6)

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
    found = explained(*WHOLE, seen={SLOW.trial_id: SEEN})
    assert (found.diagnosis.bound, found.diagnosis.confidence) == (
        Bound.COMMUNICATION,
        Confidence.SURE,
    )
    (sentence,) = (one for one in words.sentences(SLOW, found) if "link between hosts" in one)
    assert sentence == (
        "Over the busiest link between hosts 4.00 MB of gradients take 200 ms at 0.0200 GB/s "
        "(measured before the steps)."
    )


def test_what_links_between_hosts_do_not_explain_is_not_laid_on_them():
    """Without the ablations that would tell."""
    fast = Observed(num_parameters=1_000_000, link_bytes_per_s=4e9)
    target = result(456, num_gpus=4, **DISTRIBUTED, hosts=2)
    found = explained(target, result(100, **MODEL, **INDEPENDENT), seen={target.trial_id: fast})
    assert found.diagnosis.bound is None
    assert "do not explain the rest" in words.verdict(found)
    assert Ablation.INDEPENDENT in [one.ablation for one in found.missing]


def test_without_a_trial_over_fast_links_bytes_and_rate_still_tell():
    found = explained(SLOW, seen={SLOW.trial_id: SEEN})
    assert (found.diagnosis.bound, found.diagnosis.confidence) == (
        Bound.COMMUNICATION,
        Confidence.LIKELY,
    )
    assert found.diagnosis.evidence == (
        "4 MB per step over links of 20 MB/s are 200 ms (65% of the step)",
    )
    (missing,) = (one for one in found.missing if one.ablation is Ablation.FAST_LINKS)
    assert "hosts=1" not in missing.command
    assert "injected" not in missing.command
    several = explained(SLOW, ALONE, seen={SLOW.trial_id: SEEN})
    assert several.diagnosis.bound is Bound.COMMUNICATION


def test_a_link_that_nobody_measured_is_as_fast_as_injected():
    unmeasured = Observed(num_parameters=1_000_000)
    links = links_of(SLOW, unmeasured, None)
    assert links.bytes_per_s == pytest.approx(25e6 * 1448 / 1514)
    assert links.known_by == "injected, headers left out"
    assert links_of(FAST, unmeasured, None) is None
    assert links_of(INDEPENDENTS, SEEN, None) is None


def test_input_over_several_hosts_is_distinguished_from_the_network():
    reading = result(400, **TWO_HOSTS, injected="link_mbit=200", **PHOTOS)
    fall = waterfall(AblationFinder([reading, *WHOLE]).around(reading))
    assert [part.causes for part in fall.parts][-2:] == [(Cause.NETWORK,), (Cause.INPUT,)]


def test_cpu_devices_have_no_network_but_the_injected_one():
    ablations = AblationFinder([FAST, INDEPENDENTS]).around(FAST)
    assert Ablation.FAST_LINKS not in (*ablations.found, *ablations.missing)
    assert [part.causes for part in waterfall(ablations).parts] == [(Cause.COMMUNICATION,)]


def test_gpus_of_several_hosts_are_held_against_those_of_one():
    over = {**DISTRIBUTED, "num_gpus": 8, "hosts": 2}
    target = result(300, **over)
    one_host = result(120, **over | {"num_gpus": 4, "hosts": 1})
    independents = result(110, num_gpus=4, **MODEL, **INDEPENDENT)
    ablations = AblationFinder([target, one_host, independents]).around(target)
    assert ablations.found[Ablation.FAST_LINKS] == one_host
    assert ablations.found[Ablation.INDEPENDENT] == independents
    fall = waterfall(ablations)
    assert [part.causes for part in fall.parts] == [(Cause.COMMUNICATION,), (Cause.NETWORK,)]
    assert [part.seconds.value for part in fall.parts] == pytest.approx([0.010, 0.180], rel=1e-3)
    missing = {one.ablation: one.command for one in explained(target).missing}
    assert missing[Ablation.FAST_LINKS].endswith(" num_gpus=4 hosts=1")
    assert "hosts=1" in missing[Ablation.ALONE]


def test_each_number_of_hosts_is_explained():
    one_host = result(100, **HERE, **DISTRIBUTED)
    results = [one_host, FAST]
    assert of_each_curve(results, AblationFinder(results)) == [one_host, FAST]


def test_the_trivial_model_over_several_hosts_may_wait_for_the_network():
    target = result(105, **TWO_HOSTS | {"model": "trivial"})
    here = result(100, **HERE, model="trivial", **INDEPENDENT)
    alone = result(60, environment=CPU_DEVICES, model="trivial", **INDEPENDENT)
    assert explained(target).diagnosis.bound is None
    assert explained(target, here, alone).diagnosis.bound is Bound.LAUNCH


def test_remedies_of_a_slow_network_are_of_several_hosts_too():
    ring = {
        "variable_update": "distributed_all_reduce",
        "local_parameter_device": "gpu",
        "all_reduce": "ring",
        **MODEL,
    }
    target = result(
        500, num_gpus=4, environment=CPU_DEVICES, hosts=2, injected="link_mbit=200", **ring
    )
    remedies = explained(target, seen={target.trial_id: SEEN}).remedies
    assert [one.change for one in remedies] == [
        "batch_size=64",
        "gradient_accumulation=4",
        "variable_update=distributed_parameter_server local_parameter_device=cpu all_reduce=none",
    ]
    assert remedies[-1].why == "67% of the bytes go over each host's link"
    assert "strategy=distributed_ps" in remedies[-1].command
    assert "hosts=1" not in remedies[-1].command


def test_the_rate_of_the_links_is_the_median_of_the_attempts():
    columns = ("data_wait_share", "cores_taken_by_others", "recorded_profile")
    row = dict.fromkeys(columns) | {"num_cores": 2, "num_parameters": 7}
    row["verdict_reasons"] = ["injected: link_mbit=200"]
    seen = observed([row | {"link_bytes_per_s": rate} for rate in (20e6, 24e6, 21e6)])
    assert (seen.link_bytes_per_s, seen.doubts) == (21e6, ())
    assert observed([row | {"link_bytes_per_s": None}]).link_bytes_per_s is None


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


def test_a_parameter_server_in_a_box_with_nvlink_is_not_denied():
    """A bug: it was measured by one ring over NVLink, and 47 of 48 ms called unexplained."""
    place = simulated_on("dgx1_v100")
    box = of_box(result(100, place, num_gpus=2))
    way = {"num_gpus": 8, "image_px": 224, "local_parameter_device": "cpu"}
    server = result(100, place, variable_update="parameter_server", **way)
    links = links_of(server, NOTHING, box)
    assert links.seconds > 10 * links.check_s
    assert links.contradict(links.seconds, 0.1) == ""
    unnamed = replace(server, axes=server.axes | {"variable_update": ""})
    assert links_of(unnamed, NOTHING, box).seconds >= links.seconds


def test_of_words_that_the_cost_model_does_not_know_nothing_is_denied():
    odd = result(100, simulated_on("dgx1_v100"), num_gpus=8)
    seen = Observed(num_parameters=1000)
    for changes in ({"variable_update": "gossip SGD"}, {"model": "mymodel"}):
        links = links_of(replace(odd, axes=odd.axes | changes), seen, SLOW_GB_PER_S)
        assert (links.seconds, links.contradict(1.0, 1.0)) == (None, "")


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
