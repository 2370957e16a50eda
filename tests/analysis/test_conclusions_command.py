"""`python -m analysis conclusions`, as a shell sees it."""

import json
import sys

import pytest

from analysis.__main__ import app
from scalemark.records.devices import DeviceKind
from scalemark.records.outcomes import Verdict
from store.command_line import run
from tests.analysis.commands.command import unfolded
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
        reported = capsys.readouterr()
        return code, reported.out, reported.err

    return called


def test_conclusions_name_their_trials_and_the_kind_of_device(analysis):
    trials = [small(num_gpus=2), small(num_gpus=2, **PS)]
    fill("results.db", [(trials[0], 100), (trials[0], 101), (trials[1], 200), (trials[1], 202)])
    code, out, _ = analysis("conclusions")
    assert code == 0
    assert "CPU devices: parts of one machine's cores" in out
    assert "ps_cpu leads with 201 images/s, 100% ahead of replicated_none" in out
    assert all(trial.trial_id in out for trial in trials)
    assert "A tie: the 95 % CI of the ratio over processes contains 1." in out


def test_json_has_every_row(analysis):
    fill("results.db", [(small(num_gpus=2), 100), (small(num_gpus=2, **PS), 200)])
    _, out, _ = analysis("conclusions", "--json")
    (leading, server) = json.loads(out)
    assert (leading["topic"], server["topic"]) == ("leading", "parameter_server")
    assert {
        (row["strategy"], row["throughput"], len(row["repeats"])) for row in leading["rows"]
    } == {
        ("ps_cpu", 200.0, 1),
        ("replicated_none", 100.0, 1),
    }


SLOWED = {"data": "digits", "injected": "input_s=0.3"}


def test_injected_faults_are_left_out_unless_asked_for(analysis, snapshot):
    synthetic, slow = small(num_gpus=2, injected="input_s=0.3"), small(num_gpus=2, **SLOWED)
    clean = [small(num_gpus=2), small(num_gpus=2, **PS)]
    fill(
        "results.db",
        [(trial, value) for value in (100, 101) for trial in (synthetic, *clean)]
        + [(slow, 17), (slow, 18)],
    )
    _, out, _ = analysis("conclusions")
    assert out.splitlines()[0] == snapshot(name="left out")
    assert all(trial.trial_id in out for trial in clean)
    assert not any(trial.trial_id in out for trial in (synthetic, slow))
    _, checked, _ = analysis("conclusions", "--check")
    assert checked.startswith("Left out: 2 trials")
    _, asked, _ = analysis("conclusions", "injected~input_s=0.3")
    assert asked.splitlines()[0] == snapshot(name="asked for")
    assert slow.trial_id in asked


def test_simulated_noise_leaves_no_trial_out(analysis):
    reported = {
        "device_kind": DeviceKind.SIMULATED_GPU,
        "num_gpus": 2,
        "injected": "noise=0.02 process_noise=0.005",
    }
    fill(
        "results.db",
        [(small(**reported), 100), (small(**reported, **PS), 200)],
        machine=SIMULATED_MACHINE,
    )
    _, out, _ = analysis("conclusions", "--origin", "simulated")
    assert "Left out" not in out
    assert "ps_cpu leads with 200" in out


def test_suspect_rows_of_a_conclusion_say_so(analysis):
    suspect = small(num_gpus=2)
    fill(
        "results.db",
        [(suspect, 100), (small(num_gpus=2, **PS), 200)],
        details=[{"verdict": Verdict.SUSPECT}, {}],
    )
    _, out, _ = analysis("conclusions")
    assert out.startswith("1 of 2 trials is suspect: python -m store show says why.\n")
    assert f"{suspect.trial_id} 100 (suspect)" in out
    assert "200 (suspect)" not in out
    _, reported, _ = analysis("conclusions", "--json")
    assert {row["throughput"]: row["is_valid"] for row in json.loads(reported)[0]["rows"]} == {
        100.0: False,
        200.0: True,
    }


def test_where_nothing_can_be_compared_it_says_what_would_help(analysis):
    fill("results.db", [(small(), 100)])
    _, out, _ = analysis("conclusions")
    assert (
        "No conclusion: no two results differ in one thing alone. A grid of strategies on 1 to N GPUs would supply them."
        in out
    )


def test_a_check_names_the_command_that_would_supply_rows(analysis):
    fill("results.db", [(small(), 100)])
    _, out, _ = analysis("conclusions", "--check")
    assert "C12  no rows  (TensorFlow's guide to fast models)" in out
    assert (
        "rows would come from: python sweep.py -m model=resnet50,vgg16 strategy=ps_cpu num_gpus=8 staged_vars=false,true sweep.repeats=3\n"
        in unfolded(out)
    )


def test_a_check_of_simulated_rows_calls_them_no_measurements(analysis):
    fill(
        "results.db",
        [(small(device_kind=DeviceKind.SIMULATED_GPU), 100)],
        machine=SIMULATED_MACHINE,
    )
    _, out, _ = analysis("conclusions", "--check", "--origin", "simulated")
    assert out.startswith(DeviceKind.SIMULATED_GPU.note)


@pytest.mark.parametrize(
    ("claim", "supply"),
    [
        ("C3", "strategy=ps_cpu,ps_gpu num_gpus=8 sweep.repeats=3 engine=simulated hardware=k80_8"),
        ("C7", "strategy=replicated_nccl sweep.repeats=3 engine=simulated hardware=dgx1_p100"),
        ("C9", "resnet101, and of vgg16)"),
    ],
)
def test_beside_simulated_rows_the_supplying_command_simulates(analysis, claim, supply):
    fill(
        "results.db",
        [(small(device_kind=DeviceKind.SIMULATED_GPU), 100)],
        machine=SIMULATED_MACHINE,
    )
    _, out, _ = analysis("conclusions", "--check", "--origin", "simulated", "--json")
    (found,) = [one for one in json.loads(out)["claims"] if one["id"] == claim]
    assert found["supply"].endswith(supply)


def test_a_check_in_json_has_parts_cases_and_rows(analysis):
    _, out, _ = analysis("conclusions", "--origin", "published", "--check", "--json")
    reported = json.loads(out)
    (packs,) = [claim for claim in reported["claims"] if claim["id"] == "C13"]
    assert packs["answer"] == packs["parts"][0]["answer"] == "agrees"
    assert {row["throughput"] for case in packs["parts"][0]["cases"] for row in case["rows"]} >= {
        3620.9595,
        4173.829,
    }


def test_published_figures_are_concluded_from_with_their_source(analysis):
    code, out, _ = analysis("conclusions", "--origin", "published", "--source", "10723")
    assert code == 0
    assert out.startswith("8x Titan X 12GB PCIe; published: tensorflow/tensorflow#10723\n")
    assert "Published figures have no interval: 2% or less apart counts as the same." in out


def test_a_source_that_is_none_is_refused(analysis):
    code, _, err = analysis("conclusions", "--origin", "published", "--source", "nowhere")
    assert (
        code,
        err.startswith("analysis: nowhere: no such source; there are tf-benchmarks-2017"),
    ) == (2, True)
