"""What communication takes by the cost model is never denied, whatever the way, the network and the box."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from analysis.explanation.communication.inner_links import inner_links
from analysis.explanation.communication.quick_check import QuickCheck, of_profile, quick_check
from analysis.explanation.explanations import Explanation
from analysis.explanation.suspects import Bound
from analysis.results import Result
from scalemark.abilities import ALL_REDUCES
from scalemark.models import definitions
from scalemark.records.machine import DeviceKind
from scalemark.records.origin import Origin
from simulator.costs.box import Hardware, MissingLinkError, profile, profiles
from simulator.costs.exchange import updates
from simulator.costs.step import costs
from simulator.costs.work import Work
from tests.analysis.explanation.explained import CPU_DEVICES, GPUS, INDEPENDENT, explained, result

pytestmark = pytest.mark.integration

WAYS = [
    ("parameter_server", "cpu", "none"),
    ("parameter_server", "gpu", "none"),
    ("replicated", "cpu", "none"),
    *(
        ("replicated", "gpu", reduction)
        for reduction in (
            "none",
            "pscpu",
            "psgpu",
            "hierarchical_copy",
            "nccl",
            "ring",
            "collective",
        )
    ),
    ("mirrored", "gpu", "nccl"),
    ("sharded", "gpu", "none"),
    ("horovod", "gpu", "none"),
    ("ddp", "gpu", "none"),
]
SOUND = {name: profile(name) for name in profiles()}
BOXES = sorted(SOUND)
FEW = ("vgg16", "resnet110_cifar", "trivial")  # many bytes, many tensors, and few of both


def place_of(box: Hardware):
    simulated = {
        "origin": Origin.SIMULATED,
        "device_kind": DeviceKind.SIMULATED_GPU,
        "hardware_profile": box.to_json(),
    }
    return replace(GPUS, key=box.name, host=box.name, machine=box.name, **simulated)


def lost_s(axes: Mapping[str, object], box: Hardware) -> float:
    """Against as many replicas, each for itself; or all communication, if nothing of it were hidden."""
    work = Work.of(axes)
    found = costs(work, box)
    alone = costs(
        replace(
            work, variable_update="independent", local_parameter_device="gpu", all_reduce="none"
        ),
        box,
    )
    return max(found.step_s - alone.step_s, found.communication_s)


def communicating(
    box: Hardware, models: Iterator[str] | tuple[str, ...]
) -> Iterator[tuple[Result, float, QuickCheck]]:
    """Results on this box, what each loses, and the quick check by its own links."""
    target = result(100, place_of(box), num_gpus=2)
    for model in models:
        for num_gpus in (n for n in (2, 4, 8) if n <= box.num_gpus):
            for update, device, all_reduce in WAYS:
                way = {
                    "variable_update": update,
                    "local_parameter_device": device,
                    "all_reduce": all_reduce,
                }
                axes = (
                    target.axes
                    | way
                    | {"model": model, "num_gpus": num_gpus, "image_px": None, "num_classes": None}
                )
                one = replace(target, axes=axes)
                check = quick_check(one, None, of_profile(box.to_json()))
                assert check
                try:
                    yield one, lost_s(axes, box), check
                except MissingLinkError:  # nobody knows
                    assert inner_links(one, check) is None


def test_the_product_has_every_way_that_the_cost_model_knows():
    assert {update for update, _, _ in WAYS} == {*updates()} - {"independent"}
    assert {reduction for _, _, reduction in WAYS} >= {*ALL_REDUCES}


@pytest.mark.parametrize("name", BOXES)
def test_no_communication_of_the_cost_model_is_denied_in_a_known_box(name):
    found = [
        (one, lost, inner_links(one, check))
        for one, lost, check in communicating(SOUND[name], tuple(definitions()))
    ]
    denied = [
        (one.axes, lost, links)
        for one, lost, links in found
        if links is None or lost > links.at_most_s
    ]
    assert found
    assert denied == []


@pytest.mark.parametrize("name", BOXES)
def test_no_modeled_communication_is_denied_in_an_unknown_box(name):
    for one, lost, check in communicating(SOUND[name], FEW):
        unknown = replace(one, environment=GPUS)
        links = inner_links(unknown, check)
        assert links
        assert lost <= links.at_most_s, (one.axes, lost, links)


def by_the_model(box: Hardware, *, with_independents: bool, **way: object) -> Explanation:
    """The step of a way, one alone and as many independent ones take by the cost model."""
    environment = place_of(box)

    def step_ms(**axes: object) -> Result:
        blank = result(1, environment, **axes)
        return result(1e3 * costs(Work.of(blank.axes), box).step_s, environment, **axes)

    target, alone = step_ms(num_gpus=8, image_px=224, **way), step_ms(image_px=224, **INDEPENDENT)
    beside = [step_ms(num_gpus=8, image_px=224, **INDEPENDENT)] if with_independents else []
    beside += [step_ms(image_px=224, batch_size=64, **INDEPENDENT)] if with_independents else []
    beside += (
        [step_ms(num_gpus=8, image_px=224, steps_per_execution=10, **way)]
        if with_independents
        else []
    )
    return explained(target, alone, *beside, gb_per_s=of_profile(box.to_json()).gb_per_s)


@pytest.mark.parametrize("name", ["dgx1_v100", "dgx1_p100", "dgx_a100", "h100_8"])
@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_communication_of_a_parameter_server_in_a_box_with_nvlink_is_not_denied(name, device):
    """A bug: its PCIe and its host were measured by one ring over NVLink, and 47 of 48 ms called unexplained."""
    way = {"variable_update": "parameter_server", "local_parameter_device": device}
    found = by_the_model(profile(name), with_independents=False, **way)
    assert [one.contradicted for one in found.diagnosis.suspects] == [""]
    sure = by_the_model(profile(name), with_independents=True, **way).diagnosis
    assert sure.bound is Bound.COMMUNICATION


def test_a_way_that_nobody_gave_may_be_a_parameter_server():
    box = profile("dgx1_v100")
    reported = result(
        100,
        place_of(box),
        num_gpus=8,
        variable_update="parameter_server",
        local_parameter_device="gpu",
    )
    check = quick_check(reported, None, of_profile(box.to_json()))
    slowest, nccl = (
        inner_links(reported, check),
        inner_links(replace(reported, axes=reported.axes | {"variable_update": ""}), check),
    )
    assert slowest
    assert nccl == slowest


def test_of_words_that_the_cost_model_does_not_know_nothing_is_denied():
    box = profile("dgx1_v100")
    odd = result(100, place_of(box), num_gpus=8)
    check = quick_check(odd, 1000, of_profile(box.to_json()))
    assert (
        inner_links(replace(odd, axes=odd.axes | {"variable_update": "gossip SGD"}), check) is None
    )
    assert inner_links(replace(odd, axes=odd.axes | {"model": "mymodel"}), check) is None
    assert inner_links(odd, None) is None


def test_cpu_devices_with_known_links_have_the_slowest_possible_box():
    odd = result(100, CPU_DEVICES, num_gpus=2)
    check = quick_check(odd, 1000, of_profile(profile("dgx1_v100").to_json()))
    links = inner_links(odd, check)
    assert links
    assert links.at_most_s > links.seconds > 0
