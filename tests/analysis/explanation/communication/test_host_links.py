"""Links between hosts: what they take is found by subtraction, worked out from bytes and rate, and told."""

import pytest

from analysis.explanation import text
from analysis.explanation.ablations import Ablation, AblationFinder
from analysis.explanation.explanations import of_each_curve
from analysis.explanation.observed import Observed, observed
from analysis.explanation.suspects import Bound
from analysis.explanation.verdicts import Confidence
from analysis.explanation.waterfall import Cause, waterfall
from tests.analysis.explanation.explained import CPU_DEVICES, INDEPENDENT, PHOTOS, explained, result

MODEL = {
    "model": "trivial_of_tests"
}  # nobody knows its layers: 1,000,000 parameters, half of them on each of two hosts
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
ABLATION_ORDER = (SLOW, FAST, INDEPENDENTS, ALONE, CALLS, FLOOR)


def test_a_slow_link_is_what_a_step_takes_longer_than_without_it():
    fall = waterfall(AblationFinder(ABLATION_ORDER).around(SLOW))
    assert [part.causes for part in fall.parts] == [
        (Cause.CORES,),
        (Cause.COMMUNICATION,),
        (Cause.NETWORK,),
    ]
    assert fall.parts[-1].seconds.value == pytest.approx(0.205, rel=1e-3)


def test_a_trial_on_a_slow_link_is_communication_bound():
    found = explained(*ABLATION_ORDER, seen={SLOW.trial_id: SEEN})
    assert (found.diagnosis.bound, found.diagnosis.confidence) == (
        Bound.COMMUNICATION,
        Confidence.SURE,
    )
    assert (
        "communication and network between hosts: 210 ms more per step (68% of the step)"
        in text.verdict(found)
    )


def test_what_links_between_hosts_do_not_explain_is_not_laid_on_them():
    """Without the ablations that would tell."""
    fast = Observed(num_parameters=1_000_000, link_bytes_per_s=4e9)
    wide = {"num_gpus": 4, **DISTRIBUTED, "hosts": 2}
    target = result(456, **wide)
    found = explained(target, result(100, **MODEL, **INDEPENDENT), seen={target.trial_id: fast})
    assert found.diagnosis.bound is None
    assert "the links would take 1 ms of these 355 ms, and do not explain the rest" in text.verdict(
        found
    )
    assert Ablation.INDEPENDENT in [one.ablation for one in found.diagnosis.needed]


def test_links_and_the_step_over_fast_ones_make_the_expected_step():
    links = explained(*ABLATION_ORDER, seen={SLOW.trial_id: SEEN}).host_links
    assert links
    assert (
        links.link_bytes == 4e6
    )  # half of the weights to the other host, half of the gradients back
    assert links.seconds == pytest.approx(0.2)
    assert links.rest == FAST
    assert links.expected_step_s
    assert links.expected_step_s.value == pytest.approx(0.305, rel=1e-3)
    assert links.expected_step_s.is_conclusive


def test_what_fast_links_take_themselves_is_not_expected_twice():
    loopback = Observed(num_parameters=1_000_000, link_bytes_per_s=400e6)
    links = explained(
        *ABLATION_ORDER, seen={SLOW.trial_id: SEEN, FAST.trial_id: loopback}
    ).host_links
    assert links
    assert links.expected_step_s
    assert links.expected_step_s.value == pytest.approx(0.105 + 0.2 - 0.01, rel=1e-3)


def test_people_are_reported_what_was_expected():
    found = explained(*ABLATION_ORDER, seen={SLOW.trial_id: SEEN})
    (sentence,) = (one for one in text.sentences(found) if "host's link" in one)
    assert sentence == (
        "A step sends 2.00 MB and then 2.00 MB over the busiest host's link, 200 ms at the 20.0 MB/s "
        f"measured before the steps; with {FAST.trial_id[:8]} over fast links the expected step is "
        "305 ms (-2%)."
    )
    assert ["beside: 4 MB between hosts at 20 MB/s", "200"] in [row[:2] for row in text.rows(found)]


def test_without_a_trial_over_fast_links_bytes_and_rate_still_tell():
    found = explained(SLOW, seen={SLOW.trial_id: SEEN})
    assert (found.diagnosis.bound, found.diagnosis.confidence) == (
        Bound.COMMUNICATION,
        Confidence.LIKELY,
    )
    assert found.diagnosis.evidence == (
        "4 MB per step over links of 20 MB/s are 200 ms (65% of the step)",
    )
    assert found.host_links
    assert found.host_links.expected_step_s is None
    (missing,) = (one for one in found.diagnosis.needed if one.ablation is Ablation.FAST_LINKS)
    assert "hosts=1" not in missing.command
    assert "injected" not in missing.command


def test_links_are_distinguished_from_several_missing_ablations():
    found = explained(SLOW, ALONE, seen={SLOW.trial_id: SEEN})
    assert found.diagnosis.bound is Bound.COMMUNICATION


def test_a_link_that_nobody_measured_is_as_fast_as_injected():
    links = explained(
        *ABLATION_ORDER, seen={SLOW.trial_id: Observed(num_parameters=1_000_000)}
    ).host_links
    assert links
    assert links.bytes_per_s == pytest.approx(25e6 * 1448 / 1514)
    assert links.known_by == "injected, headers left out"


def test_a_link_of_which_nothing_is_known_tells_nothing():
    assert (
        explained(FAST, seen={FAST.trial_id: Observed(num_parameters=1_000_000)}).host_links is None
    )
    assert explained(INDEPENDENTS, seen={INDEPENDENTS.trial_id: SEEN}).host_links is None


def test_input_over_several_hosts_is_distinguished_from_the_network():
    reading = result(400, **TWO_HOSTS, injected="link_mbit=200", **PHOTOS)
    fall = waterfall(AblationFinder([reading, *ABLATION_ORDER]).around(reading))
    assert [part.causes for part in fall.parts][-2:] == [(Cause.NETWORK,), (Cause.INPUT,)]


def test_cpu_devices_have_no_network_but_the_injected_one():
    ablations = AblationFinder([FAST, INDEPENDENTS]).around(FAST)
    assert not ablations.has_meaning(Ablation.FAST_LINKS)
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
    missing = {one.ablation: one.command for one in AblationFinder([target]).around(target).missing}
    assert "num_gpus=4" in missing[Ablation.FAST_LINKS]
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
    found = explained(target, seen={target.trial_id: SEEN})
    changes = {one.change: one for one in found.remedies}
    assert list(changes) == [
        "batch_size=64",
        "gradient_accumulation=4",
        "variable_update=distributed_parameter_server local_parameter_device=cpu all_reduce=none",
    ]
    (_, _, fewer) = found.remedies
    assert fewer.why == "67% of the bytes go over each host's link"
    assert "strategy=distributed_ps" in fewer.command
    assert "hosts=1" not in fewer.command


def test_the_rate_of_the_links_is_the_median_of_the_attempts():
    row = {
        "data_wait_share": None, "cores_taken_by_others": None, "num_cores": 2, "num_parameters": 7, "verdict_reasons": ["injected: link_mbit=200"],
        "recorded_profile": None,
    }  # fmt: skip
    seen = observed([row | {"link_bytes_per_s": rate} for rate in (20e6, 24e6, 21e6)])
    assert seen.link_bytes_per_s == 21e6
    assert seen.doubts == ()
    assert observed([row | {"link_bytes_per_s": None}]).link_bytes_per_s is None
