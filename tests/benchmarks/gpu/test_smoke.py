"""The driver's facts about a trial's GPU."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.gpu.kit import Number
from benchmarks.gpu.stages.smoke import is_pinned, listed, telemetry_is_there
from benchmarks.gpu.trials import Trial, all_completed, mfu_is_sane
from scalemark.records.attempt import AttemptEnd, Placement
from scalemark.records.measurement import AttemptResult
from tests.benchmarks.gpu.boxes import MEASURED, SEEN
from tests.specs import small


def trial(outcome: str = "completed", mfu: float | None = 0.4, seen=SEEN) -> Trial:
    result = AttemptResult(
        outcome=outcome,
        message="" if outcome == "completed" else "told why",
        measurement=replace(MEASURED, mfu=mfu),
        op_placement={},
        gpu_telemetry=(seen,) if seen else (),
    )
    end = AttemptEnd(
        exit_code=0,
        duration_s=9.0,
        ended_at=datetime(2026, 1, 1, tzinfo=UTC),
        placement=Placement(start="fork", devices=(0,), visible_devices="GPU-aaaa"),
        outcome=outcome,
        message=result.message,
        result=None,
    )
    return Trial(spec=small(xla="on"), end=end, result=result, folder=Path("run"))


def test_processes_of_others_are_not_those_of_the_trial():
    output = "71, GPU-aaaa\n72, GPU-bbbb\n73, GPU-cccc\n[N/A], GPU-dddd\n"
    assert listed(output, {71, 73}) == {"GPU-aaaa", "GPU-cccc"}


def test_a_trial_on_its_gpu_alone_is_pinned():
    assert is_pinned({"GPU-aaaa"}, "GPU-aaaa").verdict == "met"
    assert is_pinned({"GPU-aaaa", "GPU-bbbb"}, "GPU-aaaa").verdict == "missed"


def test_pinning_that_nvidia_smi_cannot_see_was_not_run():
    assert is_pinned(set(), "GPU-aaaa").verdict == "not run"


def test_telemetry_is_met_only_where_every_value_is_there():
    assert telemetry_is_there([trial()]).verdict == "met"
    missing = telemetry_is_there([trial(seen=replace(SEEN, power_w=None))])
    assert (missing.verdict, missing.why) == ("missed", "GPU-aaaa: power=None")
    assert telemetry_is_there([trial(seen=None)]).verdict == "missed"
    unable = trial("unsupported")
    assert (
        telemetry_is_there([replace(unable, result=None)]).verdict == "not run"
    )  # of what did not run there is none


def test_a_utilization_that_cannot_be_is_missed_and_an_unknown_one_not_run():
    assert mfu_is_sane([trial(), trial(mfu=None)]).verdict == "met"
    assert mfu_is_sane([trial(), trial(mfu=1.2)]).verdict == "missed"
    assert mfu_is_sane([trial(mfu=None)]).verdict == "not run"


def test_a_trial_that_did_not_complete_is_named_with_its_reason():
    found = all_completed("xla", [trial(), trial("invalid")])
    assert found.verdict == "missed"
    assert found.why == "trivial fp32 batch 2 NHWC xla=on: invalid: told why"


def test_trials_that_cannot_run_here_tell_nothing():
    assert all_completed("xla", [trial(), trial("unsupported")]).verdict == "not run"
    assert all_completed("xla", [trial("unsupported"), trial("failed")]).verdict == "missed"
    assert all_completed("trial", [trial("unsupported")], must_run=True).verdict == "missed"


def test_a_trial_is_told_in_a_line_for_each_number():
    assert [f"{one.what}: {one.text}" for one in trial().numbers()] == [
        "trivial fp32 batch 2 NHWC xla=on: 2500 [2490, 2510] images/s",
        "trivial fp32 batch 2 NHWC xla=on, step: 100 ms",
        "trivial fp32 batch 2 NHWC xla=on, MFU: 40 %",
        "trivial fp32 batch 2 NHWC xla=on, peak memory: 16 GiB",
    ]


def test_the_sides_of_a_comparison_are_told_apart():
    """A bug: the trial without cuDNN's persistent kernels had the name of any other."""
    specs = [
        small(precision="bf16"),
        small(precision="tf32", data_format="NCHW"),
        small(model="gpt_mini", image_px=0, seq_len=32),
    ]
    assert [replace(trial(), spec=spec).label for spec in specs] == [
        "trivial bf16 batch 2 NHWC",
        "trivial tf32 batch 2 NCHW",
        "gpt_mini fp32 batch 2",
    ]


def test_large_numbers_are_written_out():
    speed = Number(what="speed", value=30212.9, unit="images/s", low=30084.2, high=30341.6)
    assert speed.text == "30213 [30084, 30342] images/s"
    assert replace(speed, value=0.94812, low=None).text == "0.9481 images/s"
