"""Published claims hold, or do not, as far as results can tell; each pair differs in one thing."""

from dataclasses import replace

import pytest

from analysis.commands.conclusions import ClaimVerdict as Verdict
from analysis.commands.conclusions import alike, judged
from scalemark.records.machine import DeviceKind
from tests.analysis.made import made

FAST, GOOD, SLOW = [200.0, 202.0], [185.0, 186.0], [100.0, 101.0]
NVLINK, K80 = "Tesla P100-SXM2-16GB", "Tesla K80"
HOLDS, IN_PART, FAILS = Verdict.HOLDS, Verdict.IN_PART, Verdict.DOES_NOT_HOLD
OPEN, NONE = Verdict.CANNOT_BE_TOLD, Verdict.NO_RESULTS


def answer(results, claim):
    return next(answer for answer in judged(results) if answer.claim.id == claim)


def says(results, claim):
    """What the pairs of each statement say."""
    said = {}
    for pair in answer(results, claim).pairs:
        said.setdefault(pair.says, []).append(pair.holds)
    return said


def grid(model, speeds, num_gpus=8, **axes):
    fixed = {"model": model, "image_px": 224, "num_gpus": num_gpus, **axes}
    return [({**fixed, "strategy": name}, of) for name, of in speeds.items()]


def test_eight_claims_have_sources_and_commands():
    claims = [each.claim for each in judged([])]
    assert len(claims) == 8
    for claim in claims:
        assert claim.claim
        assert claim.citation
        assert claim.supply.startswith("python ")


NCCL_LAST = {"replicated_nccl": SLOW, "replicated_none": FAST}
NCCL_FIRST = {"replicated_nccl": FAST, "replicated_none": SLOW}
WIDE = {"replicated_nccl": [100.0, 140.0], "replicated_none": [101.0, 141.0]}
LARGE_GOOD = {"replicated_nccl": FAST, "replicated_pscpu": GOOD, "ps_cpu": GOOD}
SPREAD = {"ps_gpu": FAST, "ps_cpu": SLOW}
PS_8 = {"strategy": "ps_cpu", "num_gpus": 8}


@pytest.mark.parametrize(
    ("claim", "rows", "gpu", "verdict"),
    [
        (
            "C4",
            grid("resnet50", {"replicated_pscpu": FAST, "ps_cpu": GOOD, "replicated_nccl": SLOW}),
            "",
            HOLDS,
        ),
        (
            "C4",
            grid("resnet50", {"replicated_pscpu": SLOW, "ps_cpu": SLOW, "replicated_nccl": FAST}),
            "",
            FAILS,
        ),
        (
            "C4",
            grid("resnet50", {"replicated_pscpu": GOOD, "ps_cpu": GOOD, "replicated_nccl": FAST}),
            "",
            IN_PART,
        ),
        ("C5", grid("vgg16", LARGE_GOOD), "", HOLDS),
        ("C5", grid("vgg16", LARGE_GOOD), NVLINK, NONE),
        *(
            (claim, grid("vgg16", few, 2) + grid("vgg16", NCCL_FIRST), "", verdict)
            for claim in ("C1", "C6")
            for few, verdict in ((NCCL_LAST, HOLDS), (NCCL_FIRST, IN_PART))
        ),
        ("C3", grid("vgg16", SPREAD), K80, HOLDS),
        ("C3", grid("vgg16", SPREAD | {"replicated_nccl": FAST, "ps_cpu": FAST}), K80, OPEN),
        ("C3", grid("vgg16", {"replicated_nccl": FAST, "ps_cpu": SLOW}), K80, NONE),
        ("C12", [(PS_8, FAST), ({**PS_8, "staged_vars": True}, SLOW)], "", FAILS),
        ("C13", [(PS_8, FAST), ({**PS_8, "gradient_repacking": 8}, SLOW)], "", FAILS),
    ],
)
def test_each_rule_holds_its_claim_against_results(claim, rows, gpu, verdict):
    assert answer(made(*rows, gpu=gpu or "Tesla P100-PCIE-16GB"), claim).verdict is verdict


def test_one_process_each_decides_nothing():
    single = {"replicated_pscpu": [190.0], "ps_cpu": [200.0]}
    judged_claim = answer(made(*grid("resnet50", single)), "C4")
    assert judged_claim.verdict is OPEN
    assert [pair.holds for pair in judged_claim.pairs] == [None, None]


def test_cpu_devices_are_no_rows_for_claims_about_gpus():
    results = made(*grid("vgg16", NCCL_FIRST), kind=DeviceKind.CPU_DEVICE)
    assert {each.verdict for each in judged(results)} == {NONE}


def test_nccl_may_be_good_on_8_gpus_without_being_the_fastest():
    """The article itself finds gradients that meet on the CPU faster there."""
    near = made(*grid("vgg16", {"replicated_nccl": GOOD, "replicated_pscpu": FAST}))
    far = made(*grid("vgg16", {"replicated_nccl": SLOW, "replicated_pscpu": FAST}))
    share = "replicated_nccl reaches 85% of the fastest"
    assert [says(results, "C6")[share] for results in (near, far)] == [[True], [False]]
    assert says(far, "C1") == {"on 8 GPUs NCCL beats copies": [False]}


def test_pairs_speak_for_a_statement_against_it_or_for_neither():
    rows = grid("vgg16", NCCL_LAST, 2) + grid("resnet50", NCCL_FIRST, 2)
    pairs = answer(made(*rows, *grid("alexnet", WIDE, 2)), "C1").pairs
    assert {pair.first.axes["model"]: pair.holds for pair in pairs} == {
        "vgg16": True,
        "resnet50": False,
        "alexnet": None,
    }


@pytest.mark.parametrize(
    ("few", "many", "verdict"),
    [
        (NCCL_LAST, NCCL_FIRST, HOLDS),
        (NCCL_LAST, {}, IN_PART),
        (NCCL_LAST, WIDE, IN_PART),
        (NCCL_LAST, NCCL_LAST, IN_PART),
        (NCCL_FIRST, WIDE, FAILS),
        (NCCL_FIRST, {}, FAILS),
        (WIDE, {}, OPEN),
        ({}, {}, NONE),
    ],
)
def test_statements_make_the_verdict_of_a_claim(few, many, verdict):
    results = made(*grid("vgg16", few, 2), *grid("vgg16", many, 8))
    assert answer(results, "C1").verdict is verdict


def test_replicas_that_train_apart_are_no_copies():
    results = made(
        ({"strategy": "replicated_nccl", "num_gpus": 2}, SLOW),
        ({"strategy": "replicated_pscpu", "num_gpus": 2}, [150.0, 151.0]),
        ({"variable_update": "independent", "num_gpus": 2}, FAST),
    )
    (pair,) = answer(results, "C1").pairs
    assert (pair.first.strategy, pair.second.strategy) == ("replicated_nccl", "replicated_pscpu")
    assert pair.holds


def test_what_differs_in_two_things_is_not_compared():
    trial = {"strategy": "ps_cpu", "num_gpus": 2}
    results = made((trial, SLOW), ({**trial, "staged_vars": True, "xla": "on"}, FAST))
    assert answer(results, "C12").pairs == []


def test_results_of_different_items_are_not_alike():
    images, tokens = made(({}, FAST), ({"xla": "on"}, SLOW))
    assert alike([images, tokens], "xla") == [[images, tokens]]
    assert alike([images, replace(tokens, item="tokens")], "xla") == []
