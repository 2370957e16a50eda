"""`analysis scaling` tells what more GPUs bring, from how many on they do not pay, and what is missing to tell."""

import json

import pytest

from scalemark.records.devices import DeviceKind
from scalemark.records.outcomes import Outcome, Verdict
from tests.analysis.gpu_box import GPU_BOX, NCCL, PS, around, curve, fill_gpus, on_gpus, repeated
from tests.filled import fill
from tests.specs import small
from tests.tables import changing


def lines(ended):
    assert ended.exit_code == 0, ended.stderr
    return [line.removeprefix("- ") for line in ended.stdout.splitlines() if line.startswith("- ")]


def test_each_strategy_says_how_far_it_scales(analysis):
    fill_gpus(
        [*curve([100.0, 190.0, 340.0, 400.0], **PS), *curve([98.0, 190.0, 380.0, 750.0], **NCCL)]
    )
    reported = lines(analysis("scaling", "--all"))
    (ps,) = [line for line in reported if line.startswith("ps_cpu:")]
    (nccl,) = [line for line in reported if line.startswith("replicated_nccl:")]
    assert ps.startswith("ps_cpu: 4.00x [3.9")
    assert (
        "an efficiency of 50%; more than 4 do not pay: each of the 4 that make it 8 brings 15% ["
        in ps
    )
    assert nccl.endswith("an efficiency of 96%; more pay up to 8 GPUs, the most that were tried.")
    assert any(
        line.startswith("What limits ps_cpu: its loss grows with every pair more")
        for line in reported
    )
    assert not any("more than about" in line for line in reported)
    assert (
        "What limits replicated_nccl: nothing that its curve shows, it loses 4% on 8 GPUs."
        in reported
    )
    assert "replicated_nccl leads from 4 GPUs on, in place of ps_cpu." in reported


def test_a_table_first_says_from_how_many_gpus_on_more_do_not_pay(analysis, snapshot):
    fill_gpus(
        [*curve([100.0, 190.0, 340.0, 400.0], **PS), *curve([98.0, 190.0, 380.0, 750.0], **NCCL)]
    )
    fill_gpus([(on_gpus(num, **PS, precision="fp16"), 200.0) for num in (1, 2)], name="half")
    assert analysis("scaling").stdout == snapshot


def test_curves_that_tell_nothing_are_counted_beside_the_others(analysis):
    fill_gpus([*curve([100.0, 190.0], **PS), *around(on_gpus(4, **NCCL), 300.0)])
    said = analysis("scaling").stdout
    assert "1 more curve of one number of devices, of CPU devices or of steps: --all" in said


def test_negative_scaling_is_named(analysis):
    fill_gpus(curve([100.0, 150.0, 140.0, 90.0], **PS))
    reported = lines(analysis("scaling", "--all"))
    assert (
        "Negative scaling: ps_cpu is slower on 8 GPUs than on 2: 90.0 images/s against 150 images/s."
        in reported
    )


def test_from_one_process_each_nothing_is_sure(analysis):
    fill_gpus([(on_gpus(num, **PS), value) for num, value in ((1, 100.0), (2, 120.0), (4, 110.0))])
    reported = lines(analysis("scaling", "--all"))
    assert any(
        "perhaps more than 1 do not pay: each of the 3 that make it 4 brings 3% of one of the first"
        in line
        for line in reported
    )
    assert any(
        line.startswith("Negative scaling: ps_cpu is perhaps slower on 4 GPUs than on 2")
        for line in reported
    )
    assert (
        "no CI of speed-ups: they need two or more repeats" in analysis("scaling", "--all").stdout
    )


def test_an_interval_within_one_process_says_so(analysis):
    alone = "single run: one process; the next may differ"
    fill_gpus(curve([100.0, 190.0], **PS))
    assert (
        alone
        not in analysis("scaling", "--all").stdout
        + analysis("advise", "--all", "--origin", "measured", "--no-predict").stdout
    )
    fill("results.db", [(on_gpus(4, **PS), 300.0)], name="second", machine=GPU_BOX)
    assert alone in analysis("scaling", "--all").stdout
    assert alone in analysis("advise", "--all", "--origin", "measured", "--no-predict").stdout


def test_weak_and_strong_scaling_are_distinguished(analysis):
    strong = [
        pair
        for num in (1, 2, 4)
        for pair in around(
            on_gpus(num, scaling="strong", batch_size=8 // num, **PS), 80.0 + 10 * num
        )
    ]
    fill_gpus([*strong, *curve([100.0, 190.0], **PS)])
    reported = lines(analysis("scaling", "--all"))
    assert any(
        line.startswith("Strong scaling: the batch of all together stays the same")
        for line in reported
    )
    assert any(
        line.startswith("Weak scaling: the batch of all together grows with their number")
        for line in reported
    )
    assert any("Amdahl's law" in line for line in reported)


def test_a_source_that_keeps_its_micro_batches_scales_strongly(analysis):
    ended = analysis("scaling", "--all", "--origin", "published", "--source", "BERT")
    reported = lines(ended)
    assert any(line.startswith("Strong scaling: the batch of all") for line in reported)
    assert not any(line.startswith("Weak scaling") for line in reported)
    assert "weak scaling" not in ended.stdout


def test_three_numbers_make_no_law_and_the_fourth_has_a_command(analysis):
    fill_gpus(
        curve([100.0, 150.0, 0.1, 300.0], **PS)[:6] + curve([100.0, 150.0, 0.1, 300.0], **PS)[9:]
    )
    reported = lines(analysis("scaling", "--all"))
    assert any("a law needs 4 numbers of GPUs, and there are 3" in line for line in reported)
    (more,) = [
        line
        for line in reported
        if line.startswith("A law of what limits needs 4 numbers of GPUs; one more: ")
    ]
    assert more.endswith(" num_gpus=4")


def test_without_a_number_on_1_the_command_that_brings_it_is_reported(analysis):
    fill_gpus([*around(on_gpus(2, **PS), 100.0), *around(on_gpus(4, **PS), 190.0)])
    reported = lines(analysis("scaling", "--all"))
    assert any(
        "1.90x of those on 2; no number on 1 to tell a speed-up against" in line
        for line in reported
    )
    (more,) = [
        line
        for line in reported
        if line.startswith("No number on 1 to tell speed-ups against; it is measured by ")
    ]
    assert more.endswith(" num_gpus=1")


def test_one_number_of_gpus_does_not_scale(analysis):
    fill_gpus(around(on_gpus(1), 100.0))
    assert any(
        line.startswith("Only 1 GPU was tried") for line in lines(analysis("scaling", "--all"))
    )


def test_of_cpu_devices_it_is_not_said_whether_more_pay(analysis):
    fill(
        "results.db",
        [
            pair
            for num, value in ((1, 100.0), (2, 110.0), (4, 80.0))
            for pair in repeated(small(num_gpus=num), value, value)
        ],
    )
    ended = analysis("scaling", "--all")
    assert "pay up to" not in ended.stdout
    assert "do not pay:" not in ended.stdout
    assert "What limits" not in ended.stdout
    assert "CPU devices: parts of one machine's cores" in ended.stdout


def test_only_failures_are_reported_as_such(analysis):
    fill("results.db", [(small(), None)], details=[{"outcome": Outcome.OUT_OF_MEMORY}])
    assert lines(analysis("scaling", "--all"))[0] == "There is no number that may be quoted."


def test_json_has_every_point_with_its_intervals(analysis):
    fill_gpus(curve([100.0, 190.0, 340.0, 400.0], **PS))
    (found,) = json.loads(analysis("scaling", "--all", "--json").stdout)
    (ps,) = found["curves"]
    assert ps["strategy"] == "ps_cpu"
    assert ps["stops_paying"]["num_gpus"] == 4
    assert ps["stops_paying"]["is_sure"] is True
    point = ps["points"][-1]
    assert point["speed_up"] == pytest.approx(4.0)
    assert point["speed_up_low"] < 4.0 < point["speed_up_high"]
    assert point["added_share"] == pytest.approx(0.15)
    assert found["device_kind"] == DeviceKind.GPU


def test_published_curves_are_reported_as_their_source_has_them(analysis):
    fill("results.db", [])
    reported = lines(
        analysis(
            "scaling",
            "--all",
            "--origin",
            "published",
            "--source",
            "tf-benchmarks-2017",
            "model=vgg16",
            "data=synthetic",
        )
    )
    assert any(
        "7.02x of 1 on 8 GPUs, an efficiency of 88%; more pay up to 8 GPUs" in line
        for line in reported
    )


def test_the_column_of_throughput_has_the_unit_of_the_results(analysis):
    fill_gpus(curve([100.0, 190.0, 340.0]))
    with changing("results.db") as connection:
        connection.exec_driver_sql("UPDATE measurements SET item = 'tokens'")
    shown = analysis("scaling", "--all").stdout
    assert "tokens/s" in shown
    assert "images" not in shown


def test_suspect_numbers_are_named_with_the_command_that_says_why(analysis):
    fill_gpus(
        [(on_gpus(num), 100.0 * num) for num in (1, 2, 4)],
        details=[{}, {"verdict": Verdict.SUSPECT}, {"verdict": Verdict.SUSPECT}],
    )
    ended = analysis("scaling", "--all")
    assert "2 of 3 numbers are suspect: replicated_none on 2 and replicated_none on 4." in (
        lines(ended)
    )
    assert "suspect: python -m store show 2 says why the first is" in ended.stdout.splitlines()
