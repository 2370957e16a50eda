"""`python -m analysis conclusions`, as a shell sees it."""

import json
import sys

import pytest

from analysis.__main__ import app
from store.command_line import run
from store.records import DeviceKind
from tests.filled import SIMULATED_MACHINE, fill
from tests.specs import small

PS = {"variable_update": "parameter_server", "local_parameter_device": "cpu"}


@pytest.fixture
def analysis(capsys, monkeypatch):
    def called(*arguments):
        monkeypatch.setattr(sys, "argv", ["analysis", *arguments])
        try:
            code = run(app, "analysis")
        except SystemExit as ended:
            code = int(ended.code or 0)
        told = capsys.readouterr()
        return code, told.out, told.err

    return called


def test_measured_rows_are_concluded_from_with_their_trials_and_a_word_on_stand_ins(analysis):
    trials = [small(num_gpus=2), small(num_gpus=2, **PS)]
    fill("results.db", [(trials[0], 100), (trials[0], 101), (trials[1], 200), (trials[1], 202)])
    code, out, _ = analysis("conclusions")
    assert code == 0
    assert "CPU stand-ins share the cores of one machine" in out
    assert "ps_cpu leads with 201 images/s, 100% ahead of replicated_none" in out
    assert all(trial.trial_id in out for trial in trials)
    assert "A tie: the 95 % interval of the ratio over processes reaches 1." in out


def test_json_has_every_row(analysis):
    fill("results.db", [(small(num_gpus=2), 100), (small(num_gpus=2, **PS), 200)])
    _, out, _ = analysis("conclusions", "--json")
    (leading, server) = json.loads(out)
    assert (leading["topic"], server["topic"]) == ("leading", "parameter_server")
    assert {(row["strategy"], row["images_per_second"], row["num_repeats"]) for row in leading["rows"]} == {
        ("ps_cpu", 200.0, 1),
        ("replicated_none", 100.0, 1),
    }


def test_where_nothing_can_be_compared_it_says_what_would_help(analysis):
    fill("results.db", [(small(), 100)])
    _, out, _ = analysis("conclusions")
    assert (
        "No conclusion: no two results differ in one thing alone. A grid of strategies on 1 to N GPUs would supply them." in out
    )


def test_a_check_names_the_command_that_would_supply_rows(analysis):
    fill("results.db", [(small(), 100)])
    _, out, _ = analysis("conclusions", "--check")
    assert "C12  no rows  (TensorFlow's guide to fast models)" in out
    assert (
        "rows would come from: python sweep.py -m model=resnet50,vgg16 strategy=ps_cpu num_gpus=8 staged_vars=false,true" in out
    )
    assert "resnet50: the article tells of 0.9 million parameters, its layers have 25.6 million, 28 times as many." in out


def test_a_check_against_simulated_rows_says_that_they_are_no_measurements(analysis):
    fill("results.db", [(small(device_kind=DeviceKind.SIMULATED_GPU), 100)], machine=SIMULATED_MACHINE)
    _, out, _ = analysis("conclusions", "--check", "--origin", "simulated")
    assert out.startswith("Simulated: computed by a cost model for a hardware profile; no GPU was measured")


def test_a_check_in_json_has_parts_cases_and_rows(analysis):
    _, out, _ = analysis("conclusions", "--origin", "published", "--check", "--json")
    told = json.loads(out)
    (packs,) = [claim for claim in told["claims"] if claim["id"] == "C13"]
    assert packs["answer"] == packs["parts"][0]["answer"] == "agrees"
    assert {row["images_per_second"] for case in packs["parts"][0]["cases"] for row in case["rows"]} >= {3620.9595, 4173.829}
    assert len(told["article"]["errors"]) == 4


def test_published_figures_are_concluded_from_with_their_source(analysis):
    code, out, _ = analysis("conclusions", "--origin", "published", "--source", "10723")
    assert code == 0
    assert out.startswith("8x Titan X 12GB PCIe; published: tensorflow/tensorflow#10723\n")
    assert "Published figures have no interval: 2% or less apart counts as the same." in out


def test_a_source_that_is_none_is_refused(analysis):
    code, _, err = analysis("conclusions", "--origin", "published", "--source", "nowhere")
    assert (code, err.startswith("analysis: nowhere: no such source; there are tf-benchmarks-2017")) == (2, True)
