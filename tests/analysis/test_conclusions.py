"""Published claims hold, or do not, as far as results can tell; each pair differs in one thing."""

from dataclasses import replace

import pytest

from analysis.conclusions.chosen import with_notes
from analysis.conclusions.claims import ClaimVerdict, claims, conclusions, verdict_of
from analysis.conclusions.pairs import alike, by_efficiency, by_speed
from analysis.conclusions.rules import RULES, mb_per_gflop
from analysis.published import of_others, of_source
from analysis.results import BaselineRule
from scalemark.records.machine import DeviceKind
from scalemark.stats.welch import Relation
from store.reading.references import known_references
from tests.analysis.made import made

FAST, GOOD, SLOW = [200.0, 202.0], [185.0, 186.0], [100.0, 101.0]
REFERENCES = known_references(None)


def answers(results):
    return {finding.id: finding.verdict for finding in conclusions(results)}


def parts(results, claim):
    return [
        part.verdict
        for finding in conclusions(results)
        if finding.id == claim
        for part in finding.statements
    ]


def grid(model, speeds, num_gpus=8, **axes):
    return [
        ({"model": model, "image_px": 224, "strategy": name, "num_gpus": num_gpus, **axes}, of)
        for name, of in speeds.items()
    ]


def test_fourteen_claims_have_sources_and_commands():
    assert [claim.id for claim in claims()] == [f"C{number}" for number in range(1, 15)]
    assert all(
        claim.claim and claim.citation and claim.supply.startswith("python ") for claim in claims()
    )


def test_the_shipped_references_say_this_to_each_claim():
    found = answers(with_notes(of_others(REFERENCES), REFERENCES, BaselineRule.SAME))
    assert found == {
        "C1": ClaimVerdict.IN_PART,
        "C2": ClaimVerdict.IN_PART,
        "C3": ClaimVerdict.HOLDS,
        "C4": ClaimVerdict.NO_RESULTS,
        "C5": ClaimVerdict.NO_RESULTS,
        "C6": ClaimVerdict.IN_PART,
        "C7": ClaimVerdict.IN_PART,
        "C8": ClaimVerdict.HOLDS,
        "C9": ClaimVerdict.NO_RESULTS,
        "C10": ClaimVerdict.HOLDS,
        "C11": ClaimVerdict.HOLDS,
        "C12": ClaimVerdict.NO_RESULTS,
        "C13": ClaimVerdict.HOLDS,
        "C14": ClaimVerdict.NO_RESULTS,
    }


def test_every_verdict_has_pairs_but_the_one_that_there_are_none():
    for finding in conclusions(with_notes(of_others(REFERENCES), REFERENCES, BaselineRule.SAME)):
        pairs = [pair for part in finding.statements for pair in part.pairs]
        assert bool(pairs) is (finding.verdict is not ClaimVerdict.NO_RESULTS)


def test_the_articles_ranking_of_small_models_is_recognized():
    agreeing = {"replicated_pscpu": FAST, "ps_cpu": GOOD, "replicated_nccl": SLOW}
    assert answers(made(*grid("resnet50", agreeing)))["C4"] is ClaimVerdict.HOLDS
    disagreeing = {"replicated_pscpu": SLOW, "ps_cpu": SLOW, "replicated_nccl": FAST}
    assert answers(made(*grid("resnet50", disagreeing)))["C4"] is ClaimVerdict.DOES_NOT_HOLD
    in_part = {"replicated_pscpu": GOOD, "ps_cpu": GOOD, "replicated_nccl": FAST}
    assert answers(made(*grid("resnet50", in_part)))["C4"] is ClaimVerdict.IN_PART


def test_one_process_each_decides_nothing():
    single = {"replicated_pscpu": [190.0], "ps_cpu": [200.0]}
    assert parts(made(*grid("resnet50", single)), "C4")[1] is ClaimVerdict.CANNOT_BE_TOLD


def test_the_articles_claims_are_of_its_kind_of_machine():
    rows = grid("vgg16", {"replicated_nccl": FAST, "replicated_pscpu": GOOD, "ps_cpu": GOOD})
    assert answers(made(*rows))["C5"] is ClaimVerdict.HOLDS
    assert answers(made(*rows, gpu="Tesla P100-SXM2-16GB"))["C5"] is ClaimVerdict.NO_RESULTS


def test_cpu_devices_are_no_rows_for_claims_about_gpus():
    rows = grid("vgg16", {"replicated_nccl": FAST, "replicated_none": SLOW})
    assert set(answers(made(*rows, kind=DeviceKind.CPU_DEVICE)).values()) == {
        ClaimVerdict.NO_RESULTS
    }


def test_nccl_is_judged_by_the_number_of_gpus():
    few = grid("vgg16", {"replicated_nccl": SLOW, "replicated_none": FAST}, 2)
    many = grid("vgg16", {"replicated_nccl": FAST, "replicated_none": SLOW}, 8)
    assert [answers(made(*few, *many))[claim] for claim in ("C1", "C6")] == [ClaimVerdict.HOLDS] * 2
    early = grid("vgg16", {"replicated_nccl": FAST, "replicated_none": SLOW}, 2)
    assert [answers(made(*early, *many))[claim] for claim in ("C1", "C6")] == [
        ClaimVerdict.IN_PART
    ] * 2


def test_nccl_may_be_good_on_8_gpus_without_being_the_fastest():
    """The article itself finds gradients that meet on the CPU faster there."""
    near = grid("vgg16", {"replicated_nccl": GOOD, "replicated_pscpu": FAST})
    far = grid("vgg16", {"replicated_nccl": SLOW, "replicated_pscpu": FAST})
    assert [parts(made(*rows), "C6")[1] for rows in (near, far)] == [
        ClaimVerdict.HOLDS,
        ClaimVerdict.DOES_NOT_HOLD,
    ]
    assert parts(made(*far), "C1")[1] is ClaimVerdict.DOES_NOT_HOLD


def test_a_statement_counts_what_speaks_for_and_against_it():
    rows = grid("vgg16", {"replicated_nccl": SLOW, "replicated_none": FAST}, 2)
    rows += grid("resnet50", {"replicated_nccl": FAST, "replicated_none": SLOW}, 2)
    wide = {"replicated_nccl": [100.0, 140.0], "replicated_none": [101.0, 141.0]}
    few = conclusions(made(*rows, *grid("alexnet", wide, 2)))[0].statements[0]
    assert (few.num_for, few.num_against, few.num_open) == (1, 1, 1)
    by_model = {pair.shared: (pair.first, pair.second) for pair in few.pairs}
    assert by_model["vgg16 on 2 batch 2"] == ("replicated_nccl", "replicated_none")


def test_the_order_of_models_is_that_of_machines_with_nvlink():
    def curve(model, last):
        return [
            ({"model": model}, [100.0, 100.1]),
            ({"model": model, "num_gpus": 8}, [last, last + 1]),
        ]

    rows = [*curve("resnet50", 790.0), *curve("vgg16", 700.0), *curve("alexnet", 600.0)]
    assert answers(made(*rows, gpu="Tesla P100-SXM2-16GB"))["C10"] is ClaimVerdict.HOLDS
    assert (
        answers(made(*reversed(rows), gpu="Tesla P100-PCIE-16GB"))["C10"] is ClaimVerdict.NO_RESULTS
    )
    wrong = [*curve("resnet50", 500.0), *curve("vgg16", 700.0)]
    assert answers(made(*wrong, gpu="Tesla P100-SXM2-16GB"))["C10"] is ClaimVerdict.DOES_NOT_HOLD


def test_variables_on_gpus_of_one_machine_are_better_evidence_than_of_two():
    rows = grid("vgg16", {"ps_gpu": FAST, "ps_cpu": SLOW})
    (finding,) = [one for one in conclusions(made(*rows, gpu="Tesla K80")) if one.id == "C3"]
    assert (finding.verdict, finding.statements[0].says) == (
        ClaimVerdict.HOLDS,
        "variables spread over the GPUs beat variables on the CPU",
    )


def test_replicated_variables_are_not_spread_over_the_gpus():
    rows = grid("resnet50", {"replicated_nccl": FAST, "ps_gpu": GOOD, "ps_cpu": FAST})
    assert answers(made(*rows, gpu="Tesla K80"))["C3"] is ClaimVerdict.DOES_NOT_HOLD
    assert answers(made(rows[0], rows[2], gpu="Tesla K80"))["C3"] is ClaimVerdict.NO_RESULTS


@pytest.mark.parametrize(
    ("of_32", "of_64", "answer"),
    [
        ([100.0, 101.0], [120.0, 121.0], ClaimVerdict.HOLDS),
        ([100.0, 101.0], [190.0, 191.0], ClaimVerdict.DOES_NOT_HOLD),
        ([100.0, 120.0], [130.0, 190.0], ClaimVerdict.CANNOT_BE_TOLD),
        ([100.0], [120.0], ClaimVerdict.CANNOT_BE_TOLD),
        ([100.0, 101.0], [190.0], ClaimVerdict.CANNOT_BE_TOLD),
    ],
)
def test_parameter_servers_saturate_where_twice_the_hosts_bring_little(of_32, of_64, answer):
    rows = [
        ({"strategy": "distributed_ps", "hosts": num, "num_gpus": num}, of)
        for num, of in ((32, of_32), (64, of_64))
    ]
    assert answers(made(*rows))["C14"] is answer


def test_many_gpus_scale_by_bytes_per_operation():
    def curve(model, last):
        return [
            ({"model": model}, [10.0, 10.1]),
            ({"model": model, "num_gpus": 64}, [last, last + 1]),
        ]

    assert (
        answers(made(*curve("inception3", 600.0), *curve("vgg16", 400.0)))["C9"]
        is ClaimVerdict.HOLDS
    )
    assert (
        answers(made(*curve("inception3", 400.0), *curve("vgg16", 600.0)))["C9"]
        is ClaimVerdict.DOES_NOT_HOLD
    )


def test_staged_variables_and_packs_are_held_against_the_trials_without():
    trial = {"strategy": "ps_cpu", "num_gpus": 8}
    found = answers(
        made(
            (trial, FAST),
            ({**trial, "staged_vars": True}, SLOW),
            ({**trial, "gradient_repacking": 8}, SLOW),
        )
    )
    assert (found["C12"], found["C13"]) == (ClaimVerdict.DOES_NOT_HOLD, ClaimVerdict.DOES_NOT_HOLD)


def test_real_data_are_held_against_synthetic():
    def rows(model, share, num_gpus=8):
        trial = {"model": model, "num_gpus": num_gpus}
        return [
            (trial, [100.0, 101.0]),
            ({**trial, "data": "imagenet"}, [100.0 * share, 101.0 * share]),
        ]

    found = made(*rows("vgg16", 0.8), *rows("resnet50", 0.95), *rows("alexnet", 0.6))
    assert answers(found)["C11"] is ClaimVerdict.HOLDS
    assert (
        answers(made(*rows("vgg16", 0.95), *rows("resnet50", 0.8), *rows("alexnet", 1.0)))["C11"]
        is ClaimVerdict.DOES_NOT_HOLD
    )


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        ([ClaimVerdict.HOLDS, ClaimVerdict.HOLDS], ClaimVerdict.HOLDS),
        ([ClaimVerdict.HOLDS, ClaimVerdict.NO_RESULTS], ClaimVerdict.IN_PART),
        ([ClaimVerdict.HOLDS, ClaimVerdict.DOES_NOT_HOLD], ClaimVerdict.IN_PART),
        ([ClaimVerdict.DOES_NOT_HOLD, ClaimVerdict.CANNOT_BE_TOLD], ClaimVerdict.DOES_NOT_HOLD),
        ([ClaimVerdict.CANNOT_BE_TOLD, ClaimVerdict.NO_RESULTS], ClaimVerdict.CANNOT_BE_TOLD),
        ([ClaimVerdict.NO_RESULTS], ClaimVerdict.NO_RESULTS),
    ],
)
def test_statements_make_the_verdict_of_a_claim(verdicts, verdict):
    assert verdict_of(verdicts) is verdict


def noted(*sources):
    chosen = [reference for name in sources for reference in of_source(REFERENCES, name)]
    return with_notes(of_others(chosen), REFERENCES, BaselineRule.SAME)


def pairs_of(claim, results):
    return [pair for statement in RULES[claim](results) for pair in statement.pairs]


@pytest.mark.parametrize(
    ("model", "is_few"), [("resnet152", True), ("inception3", True), ("vgg16", False)]
)
def test_models_are_classed_by_parameters_for_their_work(model, is_few):
    px = 299 if model == "inception3" else 224
    (result,) = made(({"model": model, "image_px": px, "num_classes": 1001}, FAST))
    assert (mb_per_gflop(result) < 5.0) is is_few


def test_a_model_of_unknown_layers_is_in_no_class():
    (result,) = made(({"model": "mine"}, FAST))
    assert mb_per_gflop(result) is None


def test_replicas_that_train_apart_are_no_copies():
    results = made(
        ({"strategy": "replicated_nccl", "num_gpus": 2}, SLOW),
        ({"strategy": "replicated_pscpu", "num_gpus": 2}, [150.0, 151.0]),
        ({"variable_update": "independent", "num_gpus": 2}, FAST),
    )
    (pair,) = pairs_of("C1", results)
    assert (pair.first, pair.second, pair.holds) == ("replicated_nccl", "replicated_pscpu", True)


def test_an_efficiency_of_single_processes_is_not_distinguished():
    one, other = (
        made(({}, [100.0]), ({"num_gpus": 2}, [190.0])),
        made(({"batch_size": 8}, [100.0]), ({"batch_size": 8, "num_gpus": 2}, [150.0])),
    )
    compared = by_efficiency(one[1], other[1])
    assert compared.relation is Relation.UNKNOWN
    assert compared.ratio == pytest.approx(0.95 / 0.75)


def test_the_interval_of_a_ratio_of_efficiencies_lies_around_it():
    one = made(({}, [100.0, 101.0, 99.0]), ({"num_gpus": 2}, [190.0, 191.0, 189.0]))
    other = made(
        ({"batch_size": 8}, [100.0, 101.0, 99.0]),
        ({"batch_size": 8, "num_gpus": 4}, [300.0, 301.0, 299.0]),
    )
    compared = by_efficiency(one[1], other[1])
    assert compared.low < compared.ratio < compared.high
    assert compared.high / compared.low < 1.1
    assert compared.relation is Relation.MORE


def test_what_differs_in_two_things_is_not_compared():
    trial = {"strategy": "ps_cpu", "num_gpus": 2}
    results = made((trial, SLOW), ({**trial, "staged_vars": True, "xla": "on"}, FAST))
    assert pairs_of("C12", results) == []


def test_a_precision_is_compared_in_one_data_format_where_both_have_it():
    single = {"precision": "fp32", "data_format": "NCHW"}
    half = {"precision": "fp16", "data_format": "NHWC", "loss_scale": "dynamic"}
    results = [
        (single, SLOW),
        ({**single, "num_gpus": 4}, [380.0, 381.0]),
        (half, FAST),
        ({**half, "num_gpus": 4}, [400.0, 401.0]),
    ]
    (pair,) = pairs_of("C7", made(*results))
    assert (pair.first, pair.second, pair.holds) == ("fp32", "fp16", True)
    assert (pair.first_value, pair.second_value) == pytest.approx((0.943, 0.496), abs=1e-3)
    last = {**single, "data_format": "NHWC"}
    in_one_format = [(last, SLOW), ({**last, "num_gpus": 4}, [360.0, 361.0])]
    (pair,) = pairs_of("C7", made(*results, *in_one_format))
    assert pair.first_value == pytest.approx(0.894, abs=1e-3)


def test_models_are_put_in_order_only_where_nothing_else_differs():
    def curve(model, last, **axes):
        return [
            ({"model": model, **axes}, [10.0, 10.1]),
            ({"model": model, "num_gpus": 64, **axes}, [last, last + 1]),
        ]

    apart = made(*curve("inception3", 600.0, xla="on"), *curve("vgg16", 400.0))
    assert pairs_of("C9", apart) == []
    both = made(*curve("inception3", 600.0, xla="on"), *curve("vgg16", 400.0, xla="on"))
    assert [pair.holds for pair in pairs_of("C9", both)] == [True]


def test_published_figures_that_differ_in_a_note_are_not_mixed():
    values = {(pair.first_value, pair.second_value) for pair in pairs_of("C13", noted("4d8aa53"))}
    assert {(round(one), round(other)) for one, other in values} == {
        (4174, 3621),
        (5380, 4885),
        (5330, 4701),  # both of relaxed consistency
    }


def test_a_published_baseline_has_the_software_of_its_figure():
    """Of the older TensorFlow the source has no figure of synthetic data on 1 GPU."""
    by_figure = {result.throughput: result for result in noted("Question")}
    assert by_figure[4200.0].baseline is None
    assert by_figure[6750.0].baseline.throughput == 2000.0


def test_published_figures_near_each_other_are_a_tie():
    on_4 = {one.strategy: one for one in noted("10723") if one.num_gpus == 4}
    nccl = on_4["replicated_nccl"]
    assert by_speed(nccl, on_4["ps_cpu"]).relation is Relation.TIE
    assert by_speed(nccl, on_4["ps_gpu"]).relation is Relation.MORE


def test_results_of_different_items_are_not_alike():
    images, tokens = made(({}, FAST), ({"xla": "on"}, SLOW))
    assert alike([images, tokens], "xla") == [[images, tokens]]
    assert alike([images, replace(tokens, item="tokens")], "xla") == []
