"""Published claims hold, or do not, as far as results can tell; each pair differs in one thing."""

from dataclasses import replace

import pytest

from analysis.commands.conclusions import ClaimVerdict as Verdict
from analysis.commands.conclusions import (
    alike,
    claims,
    judged,
    statements,
    verdict_of,
)
from scalemark.records.machine import DeviceKind
from tests.analysis.made import made

FAST, GOOD, SLOW = [200.0, 202.0], [185.0, 186.0], [100.0, 101.0]
NVLINK, K80 = "Tesla P100-SXM2-16GB", "Tesla K80"
HOLDS, IN_PART, FAILS = Verdict.HOLDS, Verdict.IN_PART, Verdict.DOES_NOT_HOLD
OPEN, NONE = Verdict.CANNOT_BE_TOLD, Verdict.NO_RESULTS


def answer(results, claim):
    return next(answer for answer in judged(results) if answer.claim.id == claim)


def parts(results, claim):
    return [statement.verdict for statement in answer(results, claim).statements]


def pairs_of(claim, results):
    return [pair for part in answer(results, claim).statements for pair in part.pairs]


def grid(model, speeds, num_gpus=8, **axes):
    fixed = {"model": model, "image_px": 224, "num_gpus": num_gpus, **axes}
    return [({**fixed, "strategy": name}, of) for name, of in speeds.items()]


def test_eight_claims_have_sources_commands_and_rules():
    of_statements = dict.fromkeys(statement.claim for statement in statements())
    assert [claim.id for claim in claims()] == list(of_statements)
    assert len(of_statements) == 8
    for claim in claims():
        assert claim.claim
        assert claim.citation
        assert claim.supply.startswith("python ")


NCCL_LAST = {"replicated_nccl": SLOW, "replicated_none": FAST}
NCCL_FIRST = {"replicated_nccl": FAST, "replicated_none": SLOW}
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
    assert parts(made(*grid("resnet50", single)), "C4") == [OPEN, OPEN]


def test_cpu_devices_are_no_rows_for_claims_about_gpus():
    results = made(*grid("vgg16", NCCL_FIRST), kind=DeviceKind.CPU_DEVICE)
    assert {each.verdict for each in judged(results)} == {NONE}


def test_nccl_may_be_good_on_8_gpus_without_being_the_fastest():
    """The article itself finds gradients that meet on the CPU faster there."""
    near = made(*grid("vgg16", {"replicated_nccl": GOOD, "replicated_pscpu": FAST}))
    far = made(*grid("vgg16", {"replicated_nccl": SLOW, "replicated_pscpu": FAST}))
    assert [parts(results, "C6")[1] for results in (near, far)] == [HOLDS, FAILS]
    assert parts(far, "C1")[1] is FAILS


def test_a_statement_counts_what_speaks_for_and_against_it():
    rows = grid("vgg16", NCCL_LAST, 2) + grid("resnet50", NCCL_FIRST, 2)
    wide = {"replicated_nccl": [100.0, 140.0], "replicated_none": [101.0, 141.0]}
    few = answer(made(*rows, *grid("alexnet", wide, 2)), "C1").statements[0]
    assert (few.num_for, few.num_against, few.num_open) == (1, 1, 1)
    names = ("vgg16 on 2 batch 2", "replicated_nccl", "replicated_none")
    assert names in [pair.names() for pair in few.pairs]


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        ([HOLDS, HOLDS], HOLDS),
        ([HOLDS, NONE], IN_PART),
        ([HOLDS, FAILS], IN_PART),
        ([FAILS, OPEN], FAILS),
        ([OPEN, NONE], OPEN),
        ([NONE], NONE),
    ],
)
def test_statements_make_the_verdict_of_a_claim(verdicts, verdict):
    assert verdict_of(verdicts) is verdict


def test_replicas_that_train_apart_are_no_copies():
    results = made(
        ({"strategy": "replicated_nccl", "num_gpus": 2}, SLOW),
        ({"strategy": "replicated_pscpu", "num_gpus": 2}, [150.0, 151.0]),
        ({"variable_update": "independent", "num_gpus": 2}, FAST),
    )
    (pair,) = pairs_of("C1", results)
    assert (*pair.names()[1:], pair.holds) == ("replicated_nccl", "replicated_pscpu", True)


def test_what_differs_in_two_things_is_not_compared():
    trial = {"strategy": "ps_cpu", "num_gpus": 2}
    results = made((trial, SLOW), ({**trial, "staged_vars": True, "xla": "on"}, FAST))
    assert pairs_of("C12", results) == []


def test_results_of_different_items_are_not_alike():
    images, tokens = made(({}, FAST), ({"xla": "on"}, SLOW))
    assert alike([images, tokens], "xla") == [[images, tokens]]
    assert alike([images, replace(tokens, item="tokens")], "xla") == []
