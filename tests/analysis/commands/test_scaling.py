"""`scaling` tells what more GPUs bring, from how many on they do not pay, and who leads where."""

import json

import pytest

from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import Outcome, Verdict
from tests.analysis.gpu_box import GPU_BOX, NCCL, PS, around, curve, fill_gpus, on_gpus, repeated
from tests.filled import fill
from tests.specs import small
from tests.tables import changing

TWO_CURVES = [
    *curve([100.0, 190.0, 340.0, 400.0], **PS),
    *curve([98.0, 190.0, 380.0, 750.0], **NCCL),
]


def lines(ended):
    assert ended.exit_code == 0, ended.stderr
    return ended.stdout.splitlines()


def test_a_table_first_says_from_how_many_gpus_on_more_do_not_pay(analysis, snapshot):
    fill_gpus(TWO_CURVES)
    fill_gpus([(on_gpus(num, **PS, precision="fp16"), 200.0) for num in (1, 2)], name="half")
    fill_gpus(around(on_gpus(8), 10.0), name="one number of GPUs")
    assert analysis("scaling").stdout == snapshot


def test_each_strategy_says_how_far_it_scales(analysis, snapshot):
    fill_gpus(TWO_CURVES)
    assert analysis("scaling", "--all").stdout == snapshot


def test_from_one_process_each_nothing_is_sure(analysis):
    fill_gpus([(on_gpus(num, **PS), value) for num, value in ((1, 100.0), (2, 120.0), (4, 110.0))])
    assert analysis("scaling").stdout.splitlines()[0] == (
        "ps_cpu: perhaps more than 1 GPU do not pay, since GPUs 2 to 4 add 3 % of a first GPU's "
        "throughput each. One run each: repeat before deciding."
    )


def test_a_badge_stands_only_where_a_number_has_it(analysis):
    alone = "single run: one run each; use sweep.repeats=3 to see the spread"
    fill_gpus(curve([100.0, 190.0], **PS))
    asked = (("scaling", "--all"), ("advise", "--all", "--origin", "measured"))
    assert [alone in analysis(*one).stdout for one in asked] == [False, False]
    fill("results.db", [(on_gpus(4, **PS), 300.0)], name="second", machine=GPU_BOX)
    assert [alone in analysis(*one).stdout for one in asked] == [True, True]


def test_weak_and_strong_scaling_are_distinguished(analysis):
    specs = [on_gpus(num, scaling="strong", batch_size=8 // num, **PS) for num in (1, 2, 4)]
    strong = [pair for spec in specs for pair in around(spec, 80.0 + 10 * spec.num_gpus)]
    fill_gpus([*strong, *curve([100.0, 190.0], **PS)])
    reported = lines(analysis("scaling", "--all"))
    assert "Strong scaling: the batch of all GPUs stays 8." in reported
    assert "Weak scaling: the batch grows with the number of GPUs." in reported
    ways = {one["scaling"] for one in json.loads(analysis("scaling", "--json").stdout)}
    assert ways == {"weak", "strong"}


def test_a_source_that_keeps_its_micro_batches_scales_strongly(analysis):
    ended = analysis("scaling", "--json", "--origin", "published", "--source", "BERT")
    assert {one["scaling"] for one in json.loads(ended.stdout)} == {"strong"}


@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        ((1,), "One number of devices was tried, which tells nothing about scaling."),
        ((2, 4), "Speed-ups need a number on 1; --baseline fewest takes another."),
    ],
)
def test_what_is_missing_is_named(analysis, counts, sentence):
    fill_gpus([pair for num in counts for pair in around(on_gpus(num, **PS), 100.0 * num)])
    assert sentence in lines(analysis("scaling", "--all"))


def test_of_cpu_devices_it_is_not_said_whether_more_pay(analysis):
    values = ((1, 100.0), (2, 110.0), (4, 80.0))
    fill("results.db", [pair for num, one in values for pair in repeated(small(num_gpus=num), one)])
    for asked in (("scaling",), ("scaling", "--all")):
        shown = analysis(*asked).stdout
        assert shown.splitlines()[0] == (
            "Whether more GPUs pay is not known: CPU devices share the cores of one machine."
        )
        assert "CPU devices: not comparable with GPU results" in shown
    many = [small(num_gpus=num, seed=seed) for seed in range(4) for num in (1, 2, 4, 8)]
    fill("results.db", [(spec, 100.0) for spec in many], name="many")
    assert "images/s" in shown
    assert "images/s" not in analysis("scaling").stdout
    assert "images/s" in analysis("scaling", "--all").stdout


def test_a_trial_without_a_number_is_named(analysis):
    fill("results.db", [(small(), None)], details=[{"outcome": Outcome.OUT_OF_MEMORY}])
    reported = lines(analysis("scaling"))
    assert "No trial has a number." in reported
    assert "Without a number: replicated_none on 1 out of memory." in reported


def test_json_has_every_point_with_its_intervals(analysis):
    fill_gpus(curve([100.0, 190.0, 340.0, 400.0], **PS))
    (answer,) = json.loads(analysis("scaling", "--all", "--json").stdout)
    (ps,) = answer["curves"]
    assert ps["strategy"] == "ps_cpu"
    stop = ps["stops_paying"]
    assert (stop["num_gpus"], stop["up_to"], stop["is_sure"]) == (4, 8, True)
    point = ps["points"][-1]
    assert point["speed_up"] == pytest.approx(4.0)
    assert point["speed_up_low"] < 4.0 < point["speed_up_high"]
    assert point["added_share"] == pytest.approx(0.15)
    assert answer["device_kind"] == DeviceKind.GPU


def test_published_curves_are_reported_as_their_source_has_them(analysis):
    fill("results.db", [])
    asked = ("--origin", "published", "--source", "tf-benchmarks-2017", "data=synthetic")
    (*_, answer) = json.loads(analysis("scaling", "--json", *asked, "model=vgg16").stdout)
    last = answer["curves"][-1]["points"][-1]
    assert (last["num_gpus"], last["speed_up_low"]) == (8, None)
    assert last["speed_up"] == pytest.approx(
        last["throughput"] / answer["curves"][-1]["points"][0]["throughput"]
    )


def test_the_column_of_throughput_has_the_unit_of_the_results(analysis):
    fill_gpus(curve([100.0, 190.0, 340.0]))
    with changing("results.db") as connection:
        connection.exec_driver_sql("UPDATE measurements SET item = 'tokens'")
    shown = analysis("scaling", "--all").stdout
    assert "tokens/s" in shown
    assert "images" not in shown


def test_the_first_suspect_number_has_the_command_that_says_why(analysis):
    details = [{}, {"verdict": Verdict.SUSPECT}, {"verdict": Verdict.SUSPECT}]
    fill_gpus([(on_gpus(num), 100.0 * num) for num in (1, 2, 4)], details=details)
    for asked in (("scaling",), ("scaling", "--all")):
        shown = analysis(*asked).stdout.splitlines()
        assert "In doubt: scalemark show 2 says why" in shown
