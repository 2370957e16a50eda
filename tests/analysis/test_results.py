"""Results keep trials whole, tell environments apart and say what they are compared with."""

import math
from dataclasses import replace

import pytest

from analysis import badges
from analysis.measured import measured
from analysis.results import BaselineRule
from analysis.selection import Selection, load
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import Outcome
from store.database import open_for_reading
from store.reading import queries
from store.writer import Writer
from tests.analysis.gpu_box import GPU_BOX, on_gpus
from tests.filled import ENVIRONMENT, MACHINE, NOON, PLACEMENT, attempt, begin, fill
from tests.specs import small
from tests.tables import asked, changing

PS = {"variable_update": "parameter_server", "local_parameter_device": "cpu"}

OUT_OF_MEMORY = {"outcome": Outcome.OUT_OF_MEMORY}


def stored():
    return asked(queries.measured, open_for_reading("r.db"))


def results(entries, rule=BaselineRule.SAME, **options):
    fill("r.db", entries, **options)
    return measured(stored(), rule)


def by_cell(found):
    return {(result.strategy, result.num_gpus): result for result in found}


def test_speed_up_and_efficiency_are_against_the_same_strategy_on_one():
    found = by_cell(
        results(
            [
                (small(), 100.0),
                (small(num_gpus=4), 300.0),
                (small(**PS), 50.0),
                (small(num_gpus=4, **PS), 200.0),
            ]
        )
    )
    assert {cell: result.speed_up for cell, result in found.items()} == pytest.approx(
        {
            ("replicated_none", 1): 1.0,
            ("replicated_none", 4): 3.0,
            ("ps_cpu", 1): 1.0,
            ("ps_cpu", 4): 4.0,
        }
    )
    assert found["replicated_none", 4].efficiency == pytest.approx(0.75)


def test_speed_ups_can_be_against_the_best_on_one_or_the_fewest_it_ran_on():
    entries = [(small(), 100.0), (small(num_gpus=2, **PS), 80.0), (small(num_gpus=4, **PS), 120.0)]
    best = by_cell(results(entries, BaselineRule.BEST))
    assert best["ps_cpu", 4].speed_up == pytest.approx(1.2)
    assert best["ps_cpu", 4].baseline.strategy == "replicated_none"
    fewest = by_cell(measured(stored(), BaselineRule.FEWEST))
    assert fewest["ps_cpu", 4].speed_up == pytest.approx(1.5)
    assert fewest["ps_cpu", 4].efficiency == pytest.approx(0.75)


def test_without_a_run_on_one_there_is_no_speed_up():
    (result,) = results([(small(num_gpus=2), 100.0)])
    assert (result.speed_up, result.efficiency, result.baseline) == (None, None, None)


SHARDED = {"variable_update": "sharded"}


def test_shards_are_against_the_fastest_on_one_or_the_fewest_they_ran_on():
    """They need two replicas, so that no run of their own can be the baseline."""
    entries = [
        (small(**PS), 50.0),
        (small(), 100.0),
        (small(num_gpus=2, **SHARDED), 120.0),
        (small(num_gpus=4, **SHARDED), 180.0),
        (small(num_gpus=2, model="other", **SHARDED), 60.0),
        (small(num_gpus=4, model="other", **SHARDED), 90.0),
    ]
    found = results(entries)
    assert [one.baseline.strategy for one in found[2:4]] == ["replicated_none"] * 2
    assert [one.speed_up for one in found] == pytest.approx([1.0, 1.0, 1.2, 1.8, 1.0, 1.5])


def test_a_baseline_of_0_throughput_is_none():
    found = by_cell(results([(small(), 0.0), (small(num_gpus=2), 100.0)]))
    assert [found["replicated_none", num].speed_up for num in (1, 2)] == [None, None]


def test_a_number_is_the_geometric_mean_with_an_interval_over_processes():
    (result,) = results([(small(), 99.0), (small(), 101.0), (small(), 100.0)])
    assert result.throughput == pytest.approx((99.0 * 101.0 * 100.0) ** (1 / 3))
    assert result.throughput == pytest.approx((result.low * result.high) ** 0.5)
    assert result.repeats == (99.0, 101.0, 100.0)
    assert (result.low, result.high) == pytest.approx((97.5466, 102.5082), rel=1e-4)


def test_the_interval_of_one_process_is_the_one_within_it():
    (result,) = results([(small(), 100.0)])
    assert (result.low, result.high) == (95.0, 105.0)


def test_a_failed_trial_has_its_outcome_and_never_a_zero():
    found = by_cell(results([(small(), 10.0), (small(num_gpus=2), None)]))
    failed = found["replicated_none", 2]
    assert (failed.outcome, failed.throughput, failed.speed_up, failed.repeats) == (
        "failed",
        None,
        None,
        (),
    )


def test_a_failure_beside_a_completed_repeat_does_not_hide_the_number():
    (result,) = results([(small(), 10.0), (small(), None)])
    assert (result.outcome, result.throughput, len(result.attempt_ids)) == (
        "completed",
        10.0,
        2,
    )


def test_failed_attempts_take_the_software_of_their_neighbors():
    found = results([(small(num_gpus=2), None), (small(), 10.0), (small(num_gpus=4), None)])
    assert len({result.environment.key for result in found}) == 1


def test_after_an_upgrade_failed_attempts_stand_with_the_newer_software():
    fill("r.db", [(small(), 10.0)])
    newer = ENVIRONMENT | {"packages": ENVIRONMENT["packages"] | {"tensorflow": "2.22.0"}}
    found = results([(small(), 11.0), (small(num_gpus=2), None)], name="second", environment=newer)
    before, after, failed = found
    assert "TensorFlow 2.21.0" in before.environment.versions
    assert "TensorFlow 2.22.0" in after.environment.versions
    assert failed.environment == after.environment


def test_a_failure_of_an_upgraded_sweep_has_the_newer_software():
    fill("r.db", [(small(), 10.0), (small(num_gpus=2), 20.0)])
    newer = ENVIRONMENT | {"packages": ENVIRONMENT["packages"] | {"tensorflow": "2.22.0"}}
    fill(
        "r.db",
        [(small(), 11.0), (small(num_gpus=2), None)],
        name="new",
        environment=newer,
        details=[{}, OUT_OF_MEMORY],
    )
    found = load(Selection(db="r.db", sweep="new"))
    assert [(result.num_gpus, result.outcome) for result in found] == [
        (1, Outcome.COMPLETED),
        (2, Outcome.OUT_OF_MEMORY),
    ]
    assert all("TensorFlow 2.22.0" in result.environment.versions for result in found)


def test_machines_are_never_mixed():
    fill("r.db", [(small(), 10.0)])
    found = results([(small(), 99.0)], name="second", machine=replace(MACHINE, host="other"))
    assert [(result.environment.host, result.throughput) for result in found] == [
        ("testbox", 10.0),
        ("other", 99.0),
    ]


def test_the_least_compute_capability_of_the_gpus_is_known():
    gpus = tuple(
        replace(one, compute_capability=capability)
        for one, capability in zip(GPU_BOX.gpus, ("10.0", "8.9"), strict=False)
    )
    (found,) = results([(on_gpus(), 1.0)], machine=replace(GPU_BOX, gpus=gpus))
    assert found.environment.compute_capability == (8, 9)
    (on_cpu,) = results([(small(), 1.0)], name="second")[1:]
    assert on_cpu.environment.compute_capability is None


def test_software_is_never_mixed():
    fill("r.db", [(small(), 100.0)])
    found = results(
        [(small(), 300.0)],
        name="second",
        environment=ENVIRONMENT | {"variables": {"NCCL_ALGO": "Tree"}},
    )
    assert [result.throughput for result in found] == [100.0, 300.0]
    assert len({result.environment.key for result in found}) == 2


def test_trials_that_ran_side_by_side_stand_apart_and_say_so():
    fill("r.db", [(small(), 100.0)])
    writer = Writer("r.db")
    ledger = begin(writer, {small(): 1}, name="second", shares_host=True, rerun=True)
    (repeat,) = ledger.open_repeats()
    ledger.claim(repeat)
    beside = replace(PLACEMENT, shares_host=True)
    number = ledger.run(repeat, "/runs/x", beside, NOON)
    finished = replace(attempt(small(), 60.0, number=number), placement=beside)
    ledger.finish(repeat.repeat_id, finished)
    ledger.end(NOON, finished=True)
    writer.close()
    assert [
        (result.throughput, result.environment.shares_host) for result in measured(stored())
    ] == [
        (100.0, False),
        (60.0, True),
    ]


def test_strong_scaling_is_one_curve_reported_by_its_global_batch():
    found = by_cell(
        results(
            [
                (small(scaling="strong", batch_size=8), 10.0),
                (small(scaling="strong", batch_size=4, num_gpus=2), 15.0),
            ]
        )
    )
    assert found["replicated_none", 2].speed_up == pytest.approx(1.5)


def test_cpu_devices_are_never_called_gpus():
    (result,) = results([(small(), 10.0)])
    assert result.environment.devices == "CPU devices"
    assert "GPU" not in result.environment.machine


@pytest.mark.parametrize("nothing", [None, math.nan, math.inf])
def test_a_completed_attempt_without_a_number_is_invalid(nothing):
    fill("r.db", [(small(), 10.0), (small(num_gpus=2), 20.0), (small(num_gpus=2), 30.0)])
    rows = [row | {"throughput": nothing} if row["attempt_id"] < 3 else row for row in stored()]
    on_1, on_2 = measured(rows)
    assert (on_1.outcome, on_1.throughput, on_1.baseline) == (Outcome.INVALID, None, None)
    assert (on_2.throughput, on_2.repeats, on_2.is_valid, on_2.speed_up) == (
        30.0,
        (30.0,),
        True,
        None,
    )
    assert on_2.failed == ("invalid",)


def test_a_verdict_of_invalid_is_reported_and_is_no_baseline():
    fill("r.db", [(small(), 10.0), (small(num_gpus=2), 20.0)])
    with changing("r.db") as connection:
        connection.exec_driver_sql(
            "UPDATE measurements SET verdict = 'invalid' WHERE attempt_id = 1"
        )
    on_1, on_2 = measured(stored())
    assert (on_1.outcome, on_1.throughput, on_1.failed, on_2.baseline) == (
        Outcome.INVALID,
        None,
        ("invalid",),
        None,
    )


def test_the_trials_of_a_sweep_come_in_its_order():
    fill("r.db", [(small(num_gpus=2), 20.0), (small(), 10.0)])
    fill("r.db", [(small(), 11.0)], name="second")
    fill("r.db", [(small(num_gpus=4), 1.0), (small(), 12.0)], name="third")
    found = load(Selection(db="r.db", sweep="third"))
    assert [(result.num_gpus, result.repeats) for result in found] == [
        (4, (1.0,)),
        (1, (10.0, 11.0, 12.0)),
    ]


def test_attempts_of_one_trial_share_its_row():
    fill("r.db", [(small(), 10.0), (small(), 11.0)])
    first, second = asked(queries.measured, open_for_reading("r.db"), ["num_gpus=1"])
    assert first["trial"] is second["trial"]
    assert first["environment"]["tensorflow"] == "2.21.0"
    assert "spec" not in first["trial"]


@pytest.mark.parametrize(
    ("kind", "cores_taken", "shares_host", "was_busy"),
    [
        (DeviceKind.CPU_DEVICE, 0.1, False, False),
        (DeviceKind.CPU_DEVICE, 0.5, False, True),  # of two
        (DeviceKind.GPU, 0.5, False, False),
        (DeviceKind.GPU, 0.0, True, True),
    ],
)
def test_a_busy_machine_is_known_by_what_others_took(kind, cores_taken, shares_host, was_busy):
    fill("r.db", [(small(device_kind=kind), 100)], details=[{"cores_taken_by_others": cores_taken}])
    with changing("r.db") as connection:
        connection.exec_driver_sql(f"UPDATE attempts SET shares_host = {shares_host}")
    (result,) = measured(stored())
    assert ("machine busy" in badges.of_result(result)) is was_busy
