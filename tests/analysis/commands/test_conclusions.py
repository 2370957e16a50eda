"""`conclusions` judges published claims by the results chosen, as a shell sees it."""

import json

from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import Verdict
from tests.filled import SIMULATED_MACHINE, TWO_GPUS, fill
from tests.specs import small

PS = {"variable_update": "parameter_server", "local_parameter_device": "cpu"}


SPEEDS = {"ps_cpu": 100, "replicated_nccl": 200}
WAYS = {"ps_cpu": PS, "replicated_nccl": {"all_reduce": "nccl"}}


def filled():
    """Two strategies on 2 and 8 GPUs, of which the faster one is the same, in two repeats."""
    fills = []
    for num_gpus in (2, 8):
        for name, speed in SPEEDS.items():
            trial = small(num_gpus=num_gpus, device_kind=DeviceKind.GPU, **WAYS[name])
            fills += [(trial, speed), (trial, speed + 1)]
    fill("results.db", fills, machine=TWO_GPUS)


def test_a_table_has_every_claim_with_its_verdict(analysis, snapshot):
    filled()
    assert analysis("conclusions").stdout == snapshot


def test_injected_faults_are_left_out_unless_asked_for(analysis):
    faulty = [
        small(num_gpus=2, injected="input_s=0.3", data=data) for data in ("synthetic", "digits")
    ]
    fill("results.db", [(trial, 100) for trial in (*faulty, small(num_gpus=2))])
    left_out = (
        "Left out: 2 trials with injected faults (as input_s=0.3); "
        "the filter 'injected~input_s=0.3' takes them in."
    )
    for asked, is_left_out in (((), True), (("injected~input_s=0.3",), False)):
        notes = json.loads(analysis("conclusions", "--json", *asked).stdout)["notes"]
        assert (left_out in notes) is is_left_out


def test_suspect_trials_are_counted(analysis):
    trials = [(small(num_gpus=2), 100), (small(num_gpus=2, **PS), 200)]
    fill("results.db", trials, details=[{"verdict": Verdict.SUSPECT}, {}])
    said = "1 of 2 trials suspect: scalemark show says why."
    assert said in analysis("conclusions").stdout.splitlines()


def test_cpu_devices_and_simulated_gpus_are_no_evidence(analysis):
    fill("results.db", [(small(), 100)])
    said = "The claims are about GPUs: results of CPU devices do not count."
    assert said in analysis("conclusions").stdout
    simulated = small(device_kind=DeviceKind.SIMULATED_GPU, injected="noise=0.02")
    fill("results.db", [(simulated, 100)], name="second", machine=SIMULATED_MACHINE)
    shown = analysis("conclusions", "--origin", "simulated").stdout
    assert DeviceKind.SIMULATED_GPU.note in shown
    assert "Left out" not in shown  # the noise of a simulation is no fault


def test_json_has_each_pair_and_what_would_supply_more(analysis):
    filled()
    answer = json.loads(analysis("conclusions", "--json").stdout)
    claim = answer["claims"][0]
    assert claim["claim"]["supply"].startswith("python sweep.py")
    few, pair = claim["pairs"]
    assert (few["holds"], pair["holds"]) == (False, True)
    assert pair["says"] == "on 8 GPUs NCCL beats copies"
    sides = [pair[side]["strategy"] for side in ("first", "second")]
    assert sides == ["replicated_nccl", "ps_cpu"]
    assert pair["low"] < 2 < pair["high"]


def test_figures_of_others_are_refused(analysis):
    ended = analysis("conclusions", "--origin", "published")
    assert ended.exit_code == 2
    assert "wanted measured or simulated" in ended.stderr
