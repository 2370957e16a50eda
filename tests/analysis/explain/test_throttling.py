"""Each reason why a GPU was throttled has its own remedy."""

from dataclasses import replace

from analysis.explain import explain_words as words
from analysis.explain.observed import GpuClock, SlowReplicas, gpu_clocks, slower_clocks
from analysis.explain.remedies import against_throttling
from scalemark.records.machine import DeviceKind

GPU = GpuClock(uuid="GPU-0", clock_mhz=1400.0, temperature_c=60, reasons=(), replica=0)


def remedies(*reasons, **changes):
    gpu = replace(GPU, reasons=reasons, **changes)
    return [f"Try {one.change}: {one.why}." for one in against_throttling([gpu])]


def test_every_reason_has_a_remedy(snapshot):
    reasons = (
        "hw_thermal_slowdown",
        "sw_thermal_slowdown",
        "hw_power_brake_slowdown",
        "hw_slowdown",
        "sw_power_cap",
        "applications_clocks",
    )
    assert {reason: remedies(reason, temperature_c=91) for reason in reasons} == snapshot


def test_a_gpu_that_was_not_throttled_needs_nothing():
    assert remedies() == []


def test_a_slowdown_with_its_cause_is_told_once():
    (heat,) = remedies("hw_slowdown", "hw_thermal_slowdown")
    assert "hw_thermal_slowdown" in heat


def test_gpus_with_one_reason_are_told_together():
    capped = replace(GPU, reasons=("sw_power_cap",))
    (remedy,) = against_throttling([capped, replace(capped, uuid="GPU-1"), replace(GPU, uuid="X")])
    assert remedy.change == "to raise the power limit of GPU-0 and GPU-1"


def test_a_card_at_its_power_limit_that_loses_next_to_nothing_needs_nothing():
    capped = replace(GPU, reasons=("sw_power_cap",))
    assert list(against_throttling([capped], 1 - 1965 / 1980)) == []  # as an H200 had it
    assert list(against_throttling([capped], 0.05))


def test_a_clock_far_below_the_others_is_found():
    slow = replace(GPU, uuid="GPU-1", clock_mhz=1260.0)
    third = replace(GPU, uuid="GPU-2")
    assert slower_clocks([GPU, slow, third]) == [(slow, 1400.0)]
    assert slower_clocks([GPU, replace(slow, clock_mhz=1300.0), third]) == []
    assert slower_clocks([slow, replace(GPU, clock_mhz=None)]) == []


def test_telemetry_of_all_attempts_is_brought_together():
    def seen(clock, heat, *reasons):
        return {
            "recorded_telemetry": [
                {
                    "uuid": "GPU-0",
                    "sm_clock_mhz": clock,
                    "temperature_c": heat,
                    "throttle_reasons": reasons,
                }
            ]
        }

    attempts = [seen(1400.0, 60), seen(1000.0, 90, "sw_power_cap"), seen(None, None)]
    assert gpu_clocks([*attempts, {"recorded_telemetry": None}]) == (
        GpuClock(
            uuid="GPU-0", clock_mhz=1200.0, temperature_c=90, reasons=("sw_power_cap",), replica=0
        ),
    )


def test_gpus_of_repeats_that_had_others_are_no_replicas_of_a_number():
    """A bug: the third GPU of a trial on two was called replica 2."""

    def seen(*clocks):
        gpu = {"temperature_c": 60, "throttle_reasons": ()}
        return {
            "recorded_telemetry": [
                {"uuid": f"GPU-{number}", "sm_clock_mhz": clock, **gpu} for number, clock in clocks
            ]
        }

    same = [seen((0, 1400.0), (1, 1000.0)), seen((0, 1400.0), (1, 1000.0))]
    others = [seen((0, 1400.0), (1, 1400.0)), seen((2, 1000.0), (3, 1400.0))]
    assert [one.replica for one in gpu_clocks(same)] == [0, 1]
    assert [one.replica for one in gpu_clocks(others)] == [None] * 4
    none_slow = SlowReplicas(slow=(), slowest=None, unknown="there are too few rounds")
    *_, said = words.slow_replica(none_slow, gpu_clocks(others), DeviceKind.GPU)
    assert said == "GPU-2 ran at 1000 MHz, the others at 1400 MHz."
