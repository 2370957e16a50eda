"""When a line about peers, starts or modes is met, missed, open or not run."""

import sys
from dataclasses import replace

import pytest

from benchmarks.gpu.kit import Judged, Note, Number, Verdict
from benchmarks.gpu.stages import faults, selfcheck
from benchmarks.gpu.stages.peers import judged, lack_of_torch
from benchmarks.ratio import Ratio
from tests.benchmarks.gpu.boxes import MEASURED
from tests.specs import small

RESNET50 = small(model="resnet50", image_px=224, precision="bf16", batch_size=256)


def ratio(*ratios: float, ours: str = "ours") -> Ratio:
    pairs = [(one, 1.0) for one in ratios]
    return Ratio(name="n", ours=ours, peer="p", metric="images per s", pairs=pairs, target=0.9)


def on_a_gpu(
    *ratios: Ratio, line: str = "torch_images", spec=RESNET50, torch_lack="", unmeasured=()
) -> Judged:
    return judged(line, ratios, spec, on_gpus=True, torch_lack=torch_lack, unmeasured=unmeasured)


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [((0.95, 0.97, 0.96), "met"), ((0.7, 0.72, 0.71), "missed"), ((0.8, 0.95, 0.91), "open")],
)
def test_a_peer_is_reached_only_where_the_whole_interval_says_so(ratios, verdict):
    assert on_a_gpu(ratio(*ratios)).verdict == verdict


def test_the_faster_of_ours_counts():
    found = on_a_gpu(ratio(0.7, 0.7, ours="off"), ratio(0.95, 0.95, ours="on"))
    reason = "on: 0.950 [0.950, 0.950]; off: 0.700 [0.700, 0.700]"
    assert (found.verdict, found.why) == ("met", reason)


def test_a_line_that_another_model_may_meet_is_not_missed():
    tokens = {"spec": replace(RESNET50, model="bert_base"), "line": "torch_tokens"}
    slow, fast = ratio(0.5, 0.5, ours="bert"), ratio(0.95, 0.95, ours="gpt2")
    assert on_a_gpu(slow, fast, **tokens).verdict == "met"
    assert on_a_gpu(slow, **tokens).verdict == "missed"
    open_yet = on_a_gpu(slow, unmeasured=["gpt2"], **tokens)
    reason = "bert: 0.500 [0.500, 0.500]; not measured: gpt2"
    assert (open_yet.verdict, open_yet.why) == ("not run", reason)
    assert on_a_gpu(fast, unmeasured=["bert_base"], **tokens).verdict == "met"


def test_cpu_devices_settle_nothing_about_gpus():
    found = judged("torch_images", [ratio(2, 2)], RESNET50, on_gpus=False)
    assert (found.verdict, found.why) == ("not run", "on CPU devices ours: 2.000 [2.000, 2.000]")


def test_another_batch_or_precision_than_the_lines_settles_nothing():
    smaller, older = replace(RESNET50, batch_size=64), replace(RESNET50, precision="fp16")
    assert on_a_gpu(ratio(0.95, 0.95), spec=smaller).verdict == "not run"
    assert on_a_gpu(ratio(0.95, 0.95), spec=older).verdict == "not run"
    assert on_a_gpu(ratio(0.95, 0.95), spec=older, line="torch_tokens").verdict == "not run"
    assert on_a_gpu(ratio(0.95, 0.95), spec=smaller, line="torch_tokens").verdict == "met"


def test_without_pytorch_its_lines_were_not_run():
    lack = lack_of_torch(sys.executable)  # it is no dependency of ours
    reason = "has no PyTorch that can be imported: ModuleNotFoundError: No module named 'torch'"
    assert lack == f"{sys.executable} {reason}"
    found = on_a_gpu(torch_lack=lack)
    assert (found.verdict, found.why) == ("not run", lack)


def test_fork_and_spawn_agree_by_their_first_losses_then_by_their_speed():
    other = replace(MEASURED, first_loss=7.0)
    assert faults.starts_agree([(MEASURED, MEASURED)], None).verdict == "met"
    assert faults.starts_agree([(MEASURED, MEASURED)], Verdict.MET).verdict == "met"
    assert faults.starts_agree([(MEASURED, MEASURED)], Verdict.OPEN).verdict == "open"
    assert faults.starts_agree([(MEASURED, other)], Verdict.MET).verdict == "missed"
    assert (
        faults.starts_agree([(MEASURED, replace(other, first_loss=None))], None).verdict == "missed"
    )


def check(mode: str, outcome: str, options: str = "xla=on", problem: str = "") -> dict[str, str]:
    return {"mode": mode, "outcome": outcome, "options": options, "problem": problem}


def of_modes(*checks: dict[str, str]) -> Judged:
    *_, found = selfcheck.judged(checks, ["ring", "ps_cpu"], "1 GPU")
    assert isinstance(found, Judged)
    return found


def test_modes_are_met_only_where_all_were_reached_and_none_failed():
    met = of_modes(check("ring", "passed"), check("ps_cpu", "passed"))
    assert (met.verdict, met.why) == ("met", "2 of 2 modes are exact and placed")
    failed = of_modes(check("ring", "passed"), check("ps_cpu", "failed", problem="differs by 1"))
    assert (failed.verdict, failed.why) == ("missed", "ps_cpu xla=on: differs by 1")


def test_modes_that_were_not_reached_were_not_run():
    late = of_modes(check("ring", "passed"))
    reason = "1 of 2 modes are exact and placed; not reached: ps_cpu"
    assert (late.verdict, late.why) == ("not run", reason)


def test_modes_that_cannot_run_here_leave_the_line_open():
    """A bug: on one GPU it was reported as not run, though all that can run there had passed."""
    refused = check("ps_cpu", "unsupported", "-", "no NCCL")
    unable = of_modes(check("ring", "passed"), refused)
    reason = "1 of 2 modes are exact and placed; cannot run on 1 GPU: ps_cpu"
    assert (unable.verdict, unable.why) == ("open", reason)
    assert of_modes(refused, check("ring", "unsupported", "-", "no NCCL")).verdict == "not run"
    late = of_modes(refused)
    assert (late.verdict, late.why.endswith("1 GPU: ps_cpu; not reached: ring")) == (
        "not run",
        True,
    )


def test_checks_that_cannot_run_here_are_told_with_their_modes():
    """A bug: they were counted, and told only where the whole mode could not run."""
    checks = [check("ring", "passed"), *2 * [check("ring", "unsupported", "tf32", "a way of GPUs")]]
    found = list(selfcheck.judged(checks, ["ring"], "CPU devices"))
    assert Number(what="self-check, cannot run here", value=2, unit="checks") in found
    assert Note(text="a way of GPUs (ring)") in found


def test_modes_that_differ_in_kind_come_first():
    assert selfcheck.ordered(["mirrored_ring", "a", "ps_cpu"]) == ["ps_cpu", "mirrored_ring", "a"]
