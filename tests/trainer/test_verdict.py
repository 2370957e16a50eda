"""Every reason to doubt a number is reported, with what to do."""

from dataclasses import replace

import pytest

from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import Verdict
from scalemark.records.trial import TrialSpec
from tests.benchmarks.gpu.boxes import SEEN
from tests.filled import measurement
from tests.specs import small
from trainer.measured import judge

SPEC = small()
EVEN = [0.1] * 10
COOL = replace(SEEN, sm_clock_mhz=1400.0, max_sm_clock_mhz=1410.0, uuid="GPU-a")


def verdict(
    durations_s=EVEN,
    gpus=(),
    problem=None,
    spec=SPEC,
    shares_host=False,
    num_gpus_here=0,
    **changes,
):
    return judge(
        spec,
        replace(measurement(100.0), **changes),
        durations_s,
        gpus,
        num_gpus_here,
        2,
        shares_host,
        problem,
    )


def test_a_quiet_measurement_is_valid():
    assert verdict(gpus=(COOL,)) == (Verdict.VALID, ())
    # a program may print one rounded rate all the time
    constant = verdict(throughput_low=None, throughput_high=None, durations_s=[0.1] * 20)
    assert constant == (Verdict.VALID, ())


def test_a_trial_that_did_not_do_what_it_says_is_invalid():
    assert verdict(problem="convolutions ran in NCHW, not NHWC") == (
        Verdict.INVALID,
        ("convolutions ran in NCHW, not NHWC",),
    )


DOUBTS = {
    "unsteady": {"steady": False},
    "drifting": {"durations_s": [0.1] * 10 + [0.2] * 10},
    "speeding up": {"durations_s": [0.2] * 10 + [0.1] * 10},
    "wide interval": {"throughput_low": 70.0, "throughput_high": 130.0},
    "no interval": {
        "throughput_low": None,
        "throughput_high": None,
        "durations_s": [0.1, 0.101] * 10,
    },
    "few calls": {"durations_s": [0.1] * 7, "num_steps": 8},
    "one call": {"durations_s": [0.1], "num_steps": 1},
    "unwatched": {
        "spec": small(device_kind=DeviceKind.GPU, num_gpus=2),
        "gpus": (COOL,),
        "num_gpus_here": 2,
    },
    "skipped": {"num_skipped_steps": 3},
    "contention": {"cores_taken_by_others": 0.7},
    "throttled": {"gpus": (replace(COOL, throttle_reasons=("hw_slowdown", "gpu_idle")),)},
    "slow clock": {"gpus": (replace(COOL, uuid="GPU-b", sm_clock_mhz=900.0), COOL)},
    "neighbors": {"gpus": (COOL, replace(COOL, num_foreign_processes=2))},
    "Xid error": {"gpus": (replace(COOL, xids=(79,)),)},
    "uncorrected memory": {"gpus": (replace(COOL, num_uncorrected_errors=2),)},
    "above the peak": {"mfu": 1.04, "peak_flops_per_s": 1e11},
}


@pytest.mark.parametrize("doubt", DOUBTS)
def test_a_doubt_makes_it_suspect_and_says_why(doubt, snapshot):
    judged, reasons = verdict(**DOUBTS[doubt])
    assert (judged, len(reasons)) == (Verdict.SUSPECT, 1)
    assert reasons == snapshot


@pytest.mark.parametrize("reason", ["hw_thermal_slowdown", "sw_thermal_slowdown"])
def test_a_gpu_that_was_too_warm_is_throttled(reason):
    judged, reasons = verdict(gpus=(replace(COOL, throttle_reasons=(reason,)),))
    assert (judged, reasons) == (Verdict.SUSPECT, (f"{COOL.uuid} was throttled: {reason}",))


def test_all_that_is_possible_is_no_doubt():
    assert verdict(mfu=1.0) == verdict(mfu=None) == (Verdict.VALID, ())


def test_gpus_of_other_hosts_need_not_be_watched():
    over_two = small(
        device_kind=DeviceKind.GPU, num_gpus=2, hosts=2, variable_update="distributed_replicated"
    )
    assert verdict(spec=over_two, gpus=(COOL,), num_gpus_here=1) == (Verdict.VALID, ())


def test_neighbors_on_other_cores_do_not_spoil_a_gpu():
    assert (
        verdict(cores_taken_by_others=0.7, spec=small(device_kind=DeviceKind.GPU), gpus=(COOL,))[0]
        is Verdict.VALID
    )


def test_corrected_memory_errors_are_no_doubt():
    assert verdict(gpus=(replace(COOL, num_corrected_errors=3),)) == (Verdict.VALID, ())


def test_a_card_at_its_power_limit_is_no_doubt_while_all_are_alike():
    """A bug: T4, L4, A10 and H100 PCIe are there all the time, and every number was suspect."""
    capped = replace(COOL, sm_clock_mhz=900.0, throttle_reasons=("sw_power_cap",))
    assert verdict(gpus=(capped, replace(capped, uuid="GPU-b"))) == (Verdict.VALID, ())


def test_what_the_kernel_and_the_gpu_do_not_tell_is_no_reason():
    silent = replace(COOL, sm_clock_mhz=None, max_sm_clock_mhz=None)
    assert verdict(cores_taken_by_others=None, gpus=(silent,))[0] is Verdict.VALID


def test_a_measurement_with_neighbors_of_its_own_sweep_is_suspect():
    assert verdict(shares_host=True) == (
        Verdict.SUSPECT,
        ("other trials of the sweep may have run beside it",),
    )


def test_injected_faults_make_it_suspect_and_noise_does_not():
    injected = small(injected="input_s=0.05 noise=0.02 process_noise=0.005")
    assert verdict(spec=injected) == (Verdict.SUSPECT, ("injected: input_s=0.05",))
    assert verdict(spec=small(injected="noise=0.02 process_noise=0.005")) == (Verdict.VALID, ())


COMMAND = TrialSpec.of(
    {
        "engine": "command",
        "model": "program",
        "num_gpus": 1,
        "device_kind": "gpu",
        "seed": 1,
        "min_warm_up_steps": 2,
        "command": "python train.py",
        "read": "torchtitan",
    }
)


def test_of_what_a_program_reports_itself_nothing_is_said_of_steps():
    found = verdict(spec=COMMAND, durations_s=[], reported=True, steady=False)
    assert found == (Verdict.VALID, ())


def test_of_a_program_only_what_its_user_can_change_is_advised():
    _, reasons = verdict(
        spec=COMMAND, durations_s=EVEN[:4], steady=False, num_steps=40, num_warm_up_steps=7
    )
    assert reasons == (
        "step times had not settled in 7 warm-up steps; let the program run for longer",
        "only 4 calls of 10 steps, too few to know their spread; let the program run for more steps",
    )
    _, reasons = verdict(spec=replace(COMMAND, num_steps=40), durations_s=EVEN[:4], num_steps=40)
    assert reasons[0].endswith("set num_steps to 90 or more")
