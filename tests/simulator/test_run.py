"""A simulated trial leaves what the trainer would leave, and its numbers are what the cost model and the faults say."""

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from analysis.explain.slow_replica import slow_replicas
from scalemark.records.attempt import AttemptBegin
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import AttemptResult, Doing, Measurement, Outcome, Phase
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder
from simulator.__main__ import main
from simulator.costs.box import Hardware, profile
from simulator.costs.networks import network
from simulator.costs.step import costs
from sweeper.devices.machine import machine_of
from tests.conf.test_resolve import trial
from tests.conftest import PROJECT
from tests.ran import ran

P100 = profile("p100_pcie_8")


def spec_of(*overrides: str, noise: bool = False) -> TrialSpec:
    quiet = [] if noise else ["injected.noise=0", "injected.process_noise=0"]
    return trial(
        "engine=simulated",
        "strategy=replicated_none",
        *quiet,
        *overrides,
        kind=DeviceKind.SIMULATED_GPU,
    )


def play(
    spec: TrialSpec, repeat: int = 1, attempt: int = 1, hardware: Hardware = P100, sweep: str = "s"
) -> tuple[int, RunFolder]:
    path = Path(f"{spec.trial_id}-{sweep}-{repeat}-{attempt}-{machine_of(hardware).key}")
    path.mkdir(exist_ok=True)
    folder = RunFolder(path)
    folder.trial.write_text(spec.to_json())
    folder.machine.write_text(machine_of(hardware).to_json())
    begin = AttemptBegin(
        sweep_uid=sweep,
        sweep=sweep,
        trial_id=spec.trial_id,
        repeat=repeat,
        attempt=attempt,
        started_at=datetime.now(UTC),
        software_key="k",
    )
    folder.attempt.write_text(begin.to_json())
    return main(spec, folder), folder


def result(*overrides: str, noise: bool = False, hardware: Hardware = P100) -> AttemptResult:
    _, folder = play(spec_of(*overrides, noise=noise), hardware=hardware)
    found = folder.read_result()
    assert found is not None
    return found


def measured(*overrides: str, noise: bool = False) -> Measurement:
    found = result(*overrides, noise=noise).measurement
    assert found is not None
    return found


def test_without_noise_the_throughput_is_the_cost_models():
    expected = costs(spec_of("num_gpus=4"), P100)
    assert measured("num_gpus=4").throughput == pytest.approx(expected.items / expected.step_s)


@pytest.mark.parametrize("name", ["dgx_a100", "h100_8", "h200_8"])
def test_models_of_tokens_count_tokens(name):
    box, axes = profile(name), ("model=gpt2", "num_gpus=4", "gradient_accumulation=2")
    found = result(*axes, hardware=box).measurement
    assert found.item == "tokens"
    step_s = costs(spec_of(*axes), box).step_s
    assert found.throughput == pytest.approx(4 * 2 * 8 * 1024 / step_s)
    flops = found.throughput / 4 * network("gpt2").training_flops / 1024
    assert found.mfu == pytest.approx(flops / found.peak_flops_per_s)
    assert found.mfu < 1


def test_a_model_of_tokens_without_room_is_told_what_makes_it_smaller():
    found = result("model=gpt2", "batch_size=512", hardware=profile("h100_8"))
    assert found.outcome == Outcome.OUT_OF_MEMORY
    assert found.message.endswith("try a smaller batch_size, a smaller seq_len or recompute=true")


def test_utilization_is_that_of_the_profiles_peak():
    found = measured("num_gpus=4")
    assert found.peak_flops_per_s == P100.tflops["fp32"] * 1e12
    flops = found.throughput / 4 * network("resnet50", 224, 1001).training_flops
    assert found.mfu == pytest.approx(flops / found.peak_flops_per_s)
    assert (found.variable_bytes, found.optimizer_state_bytes) == (None, None)


def test_a_simulated_attempt_leaves_the_files_of_a_real_one():
    code, folder = play(spec_of("num_gpus=2"))
    steps = folder.read_steps()
    assert code == 0
    assert [step.phase for step in steps].count(Phase.MEASURE) == 100
    assert steps[0].duration_s > 2 * steps[50].duration_s, "the first step is slow"
    assert {step.loss for step in steps} == {None}, "nothing is learned"
    assert folder.read_doing() is Doing.PROFILING
    assert folder.read_environment()["packages"]["numpy"]


def test_the_truth_is_stored_with_what_was_injected():
    truth = result("num_gpus=2", "injected.launch_s=0.01").truth
    plain = costs(spec_of("num_gpus=2"), P100)
    assert truth["step_s"] == pytest.approx(plain.step_s + 0.01)
    assert truth["launch_s"] == pytest.approx(plain.launch_s + 0.01)
    assert (truth["injected.launch_s"], truth["process_factor"]) == (0.01, 1.0)
    assert all(type(value) is float for value in truth.values())


def test_seconds_that_are_injected_are_missing_from_the_throughput():
    plain, slow = measured("num_gpus=2"), measured("num_gpus=2", "injected.reduction_s=0.1")
    assert slow.median_step_s - plain.median_step_s == pytest.approx(0.1)
    assert slow.throughput == pytest.approx(128 / (plain.median_step_s + 0.1))


def test_shards_are_played_and_all_micro_batches_are_counted():
    assert measured("strategy=sharded", "num_gpus=4").throughput > 0
    once, four = measured("num_gpus=2"), measured("num_gpus=2", "gradient_accumulation=4")
    assert four.throughput * four.median_step_s == pytest.approx(
        4 * once.throughput * once.median_step_s, rel=0.05
    )


def test_one_gpu_reduces_nothing_and_synthetic_data_is_never_late():
    for strategy in ("strategy=replicated_none", "strategy=ps_cpu"):
        assert measured(strategy, "injected.reduction_s=0.1") == measured(strategy)
    assert measured("injected.input_s=1") == measured()


def test_a_slow_input_is_waited_for():
    fast, slow = measured("data=photos"), measured("data=photos", "injected.input_s=1")
    assert slow.data_wait_share > 0.5 > fast.data_wait_share
    assert slow.throughput < 64


def test_text_is_late_too():
    """A bug: what is not decoded was never late."""
    text = ("model=gpt_mini", "data=text")
    fast, slow = measured(*text), measured(*text, "injected.input_s=1")
    assert slow.data_wait_share > 0.5 > fast.data_wait_share


def test_each_gpus_batch_is_late_as_they_come_from_one_pipeline():
    assert result("data=photos", "num_gpus=4", "injected.input_s=1").truth[
        "input_s"
    ] == pytest.approx(result("data=photos", "num_gpus=4").truth["input_s"] + 4)


def test_a_throttled_gpu_is_slow_says_why_and_makes_the_number_suspect():
    found = result("injected.throttling=0.5")
    (gpu,) = found.gpu_telemetry
    assert (gpu.sm_clock_mhz, gpu.max_sm_clock_mhz, gpu.throttle_reasons) == (
        651.5,
        1303,
        ("sw_thermal_slowdown",),
    )
    assert found.verdict == "suspect"
    assert "SIM-p100_pcie_8-0 was throttled: sw_thermal_slowdown" in found.verdict_reasons
    assert found.measurement.throughput == pytest.approx(measured().throughput / 2, rel=0.01)


SLOW = ("num_gpus=8", "replica_times=true", "injected.slow_replica=3")


def test_a_slow_replica_holds_up_every_step_and_shows_in_its_own_compute():
    slow, even = (
        result(*SLOW, "injected.slow_replica_by=0.2"),
        result("num_gpus=8", "replica_times=true"),
    )
    assert slow.truth["compute_s"] == pytest.approx(1.2 * even.truth["compute_s"])
    assert slow.measurement.median_step_s > even.measurement.median_step_s
    seconds = {name: rounds[0] for name, rounds in slow.replica_times.seconds.items()}
    usual_s = float(f"{even.truth['compute_s']:.5g}")
    assert seconds == pytest.approx(
        {f"GPU:{number}": usual_s * (1.2 if number == 3 else 1.0) for number in range(8)}, rel=1e-4
    )


def test_a_noisy_simulation_names_the_slow_replica():
    _, folder = play(spec_of(*SLOW, "injected.slow_replica_by=0.2", noise=True))
    found = slow_replicas([folder.read_result().replica_times.seconds])
    assert [one.replica for one in found.slow] == ["GPU:3"]


def test_replicas_are_timed_only_where_that_was_asked_for():
    assert result("num_gpus=8").replica_times is None


def test_others_on_the_host_slow_down_the_input():
    contended, free = (
        measured("data=photos", "model=alexnet", "num_gpus=4", *more)
        for more in (["injected.contention=0.5"], [])
    )
    assert contended.throughput == pytest.approx(free.throughput / 2)
    assert contended.cores_taken_by_others == P100.num_cores / 2


def test_drift_is_seen_by_the_verdict():
    assert "steps became" in result("injected.drift=0.2").verdict_reasons[0]


def test_the_same_attempt_gives_the_same_numbers_again():
    spec = spec_of(noise=True)
    first, again, other, retried = (
        play(spec, repeat, attempt)[1].read_result()
        for repeat, attempt in ((1, 1), (1, 1), (2, 1), (1, 2))
    )
    rates = [found.measurement.throughput for found in (first, other, retried)]
    assert first == again
    assert len(set(rates)) == 3


def test_repeats_of_a_later_sweep_are_no_copies_of_earlier_ones():
    spec = spec_of(noise=True)
    found = [
        play(spec, repeat, sweep=sweep)[1].read_result()
        for sweep in ("one", "two", "three")
        for repeat in (1, 2)
    ]
    assert len({one.measurement.throughput for one in found}) == 6


def test_the_seed_of_a_trial_changes_its_noise():
    assert measured("seed=1", noise=True) != measured("seed=2", noise=True)


def test_steps_per_execution_are_measured_together():
    found = measured("steps_per_execution=10", noise=True)
    assert (found.num_steps, found.num_warm_up_steps % 10) == (100, 0)


def test_fast_steps_are_measured_for_the_least_window():
    found = measured("model=trivial", "min_window_s=2", noise=True)
    assert found.window_s >= 2
    assert found.num_steps > 100


def test_batch_sizes_run_out_of_memory_from_one_on():
    outcomes = [result(f"batch_size={size}").outcome for size in (16, 32, 64, 128, 256)]
    first = outcomes.index(Outcome.OUT_OF_MEMORY)
    assert outcomes == [Outcome.COMPLETED] * first + [Outcome.OUT_OF_MEMORY] * (5 - first)
    assert 1 <= first <= 4


def test_out_of_memory_says_what_was_needed_and_what_there_is():
    found = result("batch_size=256")
    assert found.message.startswith("simulated: out of GPU memory: a GPU needs ")
    assert "GiB and p100_pcie_8 has 16; try a smaller batch_size" in found.message
    assert play(spec_of("batch_size=256"))[0] == 4


def test_an_injected_failure_leaves_no_result(capsys):
    code, folder = play(spec_of("injected.failure_rate=1"))
    assert code == 1
    assert folder.read_result() is None
    assert "Error: simulated: injected.failure_rate=1 met this attempt" in capsys.readouterr().err


def test_of_many_attempts_as_many_fail_as_were_injected():
    spec = spec_of(
        "model=trivial",
        "num_steps=1",
        "min_warm_up_steps=0",
        "min_window_s=0",
        "injected.failure_rate=0.5",
    )
    codes = [play(spec, repeat)[0] for repeat in range(1, 61)]
    assert 15 < codes.count(1) < 45


def test_missing_links_are_reported_and_not_guessed():
    found = result("num_gpus=8", hardware=replace(P100, socket_gb_per_s=None))
    assert found.outcome == Outcome.UNSUPPORTED
    assert "hardware.profile.socket_gb_per_s=" in found.message


@pytest.mark.parametrize(
    ("axis", "value"), [("prefetch", 7), ("profile", True), ("data_threads", 2)]
)
def test_an_axis_that_the_cost_model_does_not_know_is_refused(axis, value):
    """A bug: a trial that a sweep did not make was played as if the axis were not there."""
    code, folder = play(replace(spec_of(), **{axis: value}))
    found = folder.read_result()
    reported = f"{axis}={value}".lower()
    assert (code, found.outcome) == (3, Outcome.UNSUPPORTED)
    assert (
        found.message
        == f"simulated: {reported}: the cost model does not know what it changes; leave it out of simulated trials"
    )


def test_a_name_that_is_no_axis_is_refused_with_the_nearest_that_is(tmp_path):
    reported = json.loads(spec_of().to_json())
    (tmp_path / "trial.json").write_text(json.dumps(reported | {"prefetchh": 7}))
    for program in ("simulator", "trainer"):
        arguments = [sys.executable, "-m", program, str(tmp_path / "trial.json"), str(tmp_path)]
        ended = ran(arguments, cwd=PROJECT)
        assert ended.returncode == 2
        assert "'prefetchh' is no axis, did you mean prefetch?" in ended.stderr


def test_a_folder_of_a_machine_that_exists_is_not_played():
    spec = spec_of()
    _, folder = play(spec)
    folder.machine.write_text(
        json.dumps(json.loads(folder.machine.read_text()) | {"hardware_profile": ""})
    )
    assert main(spec, folder) == 3
    assert (
        "wanted one with a hardware_profile, as sweep.py engine=simulated makes it"
        in folder.read_result().message
    )
