"""What rows say to the published conclusions."""

import pytest

from analysis.claims import checked
from analysis.claims.claim import Answer, Case, Finding, Part, claims
from analysis.conclusions.noted import with_notes
from analysis.published import published
from analysis.results import BaselineRule
from scalemark.records.devices import DeviceKind
from store.reading.queries import known_references
from tests.analysis.made import made

FAST, GOOD, SLOW = [200.0, 202.0], [185.0, 186.0], [100.0, 101.0]
REFERENCES = known_references(None)


def answers(results):
    return {finding.claim.id: finding.answer for finding in checked(results)}


def parts(results, claim):
    return [
        part.answer
        for finding in checked(results)
        if finding.claim.id == claim
        for part in finding.parts
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
    found = answers(with_notes(published(REFERENCES), REFERENCES, BaselineRule.SAME))
    assert found == {
        "C1": Answer.IN_PART,
        "C2": Answer.IN_PART,
        "C3": Answer.AGREES,
        "C4": Answer.NO_ROWS,
        "C5": Answer.NO_ROWS,
        "C6": Answer.IN_PART,
        "C7": Answer.IN_PART,
        "C8": Answer.AGREES,
        "C9": Answer.NO_ROWS,
        "C10": Answer.AGREES,
        "C11": Answer.AGREES,
        "C12": Answer.NO_ROWS,
        "C13": Answer.AGREES,
        "C14": Answer.NO_ROWS,
    }


def test_every_answer_has_rows_but_the_one_that_there_are_none():
    for finding in checked(with_notes(published(REFERENCES), REFERENCES, BaselineRule.SAME)):
        assert bool(finding.rows) is (finding.answer is not Answer.NO_ROWS)


def test_the_articles_ranking_of_small_models_is_recognized():
    agreeing = {"replicated_pscpu": FAST, "ps_cpu": GOOD, "replicated_nccl": SLOW}
    assert answers(made(*grid("resnet50", agreeing)))["C4"] is Answer.AGREES
    disagreeing = {"replicated_pscpu": SLOW, "ps_cpu": SLOW, "replicated_nccl": FAST}
    assert answers(made(*grid("resnet50", disagreeing)))["C4"] is Answer.DISAGREES
    in_part = {"replicated_pscpu": GOOD, "ps_cpu": GOOD, "replicated_nccl": FAST}
    assert answers(made(*grid("resnet50", in_part)))["C4"] is Answer.IN_PART


def test_one_process_each_decides_nothing():
    single = {"replicated_pscpu": [190.0], "ps_cpu": [200.0]}
    assert parts(made(*grid("resnet50", single)), "C4")[1] is Answer.UNDECIDED


def test_the_articles_claims_are_of_its_kind_of_machine():
    rows = grid("vgg16", {"replicated_nccl": FAST, "replicated_pscpu": GOOD, "ps_cpu": GOOD})
    assert answers(made(*rows))["C5"] is Answer.AGREES
    assert answers(made(*rows, gpu="Tesla P100-SXM2-16GB"))["C5"] is Answer.NO_ROWS


def test_cpu_devices_are_no_rows_for_claims_about_gpus():
    rows = grid("vgg16", {"replicated_nccl": FAST, "replicated_none": SLOW})
    assert set(answers(made(*rows, kind=DeviceKind.CPU_DEVICE)).values()) == {Answer.NO_ROWS}


def test_nccl_is_judged_by_the_number_of_gpus():
    few = grid("vgg16", {"replicated_nccl": SLOW, "replicated_none": FAST}, 2)
    many = grid("vgg16", {"replicated_nccl": FAST, "replicated_none": SLOW}, 8)
    assert [answers(made(*few, *many))[claim] for claim in ("C1", "C6")] == [Answer.AGREES] * 2
    early = grid("vgg16", {"replicated_nccl": FAST, "replicated_none": SLOW}, 2)
    assert [answers(made(*early, *many))[claim] for claim in ("C1", "C6")] == [Answer.IN_PART] * 2


def test_nccl_may_be_good_on_8_gpus_without_being_the_fastest():
    """The article itself finds gradients that meet on the CPU faster there."""
    near = grid("vgg16", {"replicated_nccl": GOOD, "replicated_pscpu": FAST})
    far = grid("vgg16", {"replicated_nccl": SLOW, "replicated_pscpu": FAST})
    assert [parts(made(*rows), "C6")[1] for rows in (near, far)] == [
        Answer.AGREES,
        Answer.DISAGREES,
    ]
    assert parts(made(*far), "C1")[1] is Answer.DISAGREES


def test_an_answer_says_of_how_many_cases_it_is():
    known = grid("vgg16", {"replicated_nccl": SLOW, "replicated_none": FAST}, 2)
    known += grid("vgg16", {"replicated_nccl": FAST, "replicated_none": SLOW}, 8)
    open_ = grid(
        "alexnet", {"replicated_nccl": [100.0, 140.0], "replicated_none": [101.0, 141.0]}, 2
    )
    reported = [
        {one.claim.id: one.summary for one in checked(made(*rows))}["C1"]
        for rows in (known, [*known, *open_])
    ]
    assert reported == ["agrees", "agrees where cases are conclusive (2 of 3)"]


def test_the_order_of_models_is_that_of_machines_with_nvlink():
    def curve(model, last):
        return [
            ({"model": model}, [100.0, 100.1]),
            ({"model": model, "num_gpus": 8}, [last, last + 1]),
        ]

    rows = [*curve("resnet50", 790.0), *curve("vgg16", 700.0), *curve("alexnet", 600.0)]
    assert answers(made(*rows, gpu="Tesla P100-SXM2-16GB"))["C10"] is Answer.AGREES
    assert answers(made(*reversed(rows), gpu="Tesla P100-PCIE-16GB"))["C10"] is Answer.NO_ROWS
    wrong = [*curve("resnet50", 500.0), *curve("vgg16", 700.0)]
    assert answers(made(*wrong, gpu="Tesla P100-SXM2-16GB"))["C10"] is Answer.DISAGREES


def test_variables_on_gpus_of_one_machine_are_better_evidence_than_of_two():
    rows = grid("vgg16", {"ps_gpu": FAST, "ps_cpu": SLOW})
    (finding,) = [one for one in checked(made(*rows, gpu="Tesla K80")) if one.claim.id == "C3"]
    assert (finding.answer, finding.parts[0].says) == (
        Answer.AGREES,
        "variables spread over the GPUs beat variables on the CPU",
    )


def test_replicated_variables_are_not_spread_over_the_gpus():
    rows = grid("resnet50", {"replicated_nccl": FAST, "ps_gpu": GOOD, "ps_cpu": FAST})
    assert answers(made(*rows, gpu="Tesla K80"))["C3"] is Answer.DISAGREES
    assert answers(made(rows[0], rows[2], gpu="Tesla K80"))["C3"] is Answer.NO_ROWS


@pytest.mark.parametrize(
    ("of_32", "of_64", "answer"),
    [
        ([100.0, 101.0], [120.0, 121.0], Answer.AGREES),
        ([100.0, 101.0], [190.0, 191.0], Answer.DISAGREES),
        ([100.0, 120.0], [130.0, 190.0], Answer.UNDECIDED),
        ([100.0], [120.0], Answer.UNDECIDED),
        ([100.0, 101.0], [190.0], Answer.UNDECIDED),
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

    assert answers(made(*curve("inception3", 600.0), *curve("vgg16", 400.0)))["C9"] is Answer.AGREES
    assert (
        answers(made(*curve("inception3", 400.0), *curve("vgg16", 600.0)))["C9"] is Answer.DISAGREES
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
    assert (found["C12"], found["C13"]) == (Answer.DISAGREES, Answer.DISAGREES)


def test_real_data_are_held_against_synthetic():
    def rows(model, share, num_gpus=8):
        trial = {"model": model, "num_gpus": num_gpus}
        return [
            (trial, [100.0, 101.0]),
            ({**trial, "data": "imagenet"}, [100.0 * share, 101.0 * share]),
        ]

    found = made(*rows("vgg16", 0.8), *rows("resnet50", 0.95), *rows("alexnet", 0.6))
    assert answers(found)["C11"] is Answer.AGREES
    assert (
        answers(made(*rows("vgg16", 0.95), *rows("resnet50", 0.8), *rows("alexnet", 1.0)))["C11"]
        is Answer.DISAGREES
    )


def test_parts_make_an_answer():
    claim = claims()[0]
    yes, no, open_ = (Case(holds=holds, text="", rows=()) for holds in (True, False, None))

    def answer(*of):
        return Finding(claim=claim, parts=tuple(Part(says="", cases=cases) for cases in of)).answer

    assert answer((yes, open_), (yes,)) is Answer.AGREES
    assert answer((yes, no)) is Answer.IN_PART
    assert answer((yes,), ()) is Answer.IN_PART
    assert answer((no,), (open_,)) is Answer.DISAGREES
    assert answer((open_,), ()) is Answer.UNDECIDED
    assert answer((), ()) is Answer.NO_ROWS
