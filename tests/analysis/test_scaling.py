"""Tables compare whole trials and say what they compare with."""

from dataclasses import replace

import pytest

from analysis.scaling import scaling_tables
from store import queries
from store.database import open_for_reading
from tests.filled import ENVIRONMENT, MACHINE, fill
from tests.specs import small

PS = {"variable_update": "parameter_server", "local_parameter_device": "cpu"}


def tables(results, **options):
    fill("r.db", results, **options)
    return scaling_tables(queries.measured(open_for_reading("r.db")))


def test_speed_up_is_against_the_same_strategy_on_one():
    (table,) = tables([(small(), 100.0), (small(num_gpus=4), 300.0), (small(**PS), 50.0), (small(num_gpus=4, **PS), 200.0)])
    assert table.num_gpus == (1, 4)
    assert table.cells["replicated_none"][4].speed_up == pytest.approx(3.0)
    assert table.cells["ps_cpu"][4].speed_up == pytest.approx(4.0)


def test_without_a_run_on_one_there_is_no_speed_up():
    (table,) = tables([(small(num_gpus=2), 100.0)])
    assert table.cells["replicated_none"][2].speed_up is None


def test_a_number_is_the_median_over_repeats():
    (table,) = tables([(small(), 10.0), (small(), 90.0), (small(), 20.0)])
    cell = table.cells["replicated_none"][1]
    assert (cell.images_per_second, cell.num_repeats) == (20.0, 3)


def test_a_failed_trial_is_a_cell_with_its_outcome_and_never_a_zero():
    (table,) = tables([(small(), 10.0), (small(num_gpus=2), None)])
    cell = table.cells["replicated_none"][2]
    assert (cell.outcome, cell.images_per_second, cell.speed_up) == ("failed", None, None)


def test_a_failure_beside_a_completed_repeat_does_not_hide_the_number():
    (table,) = tables([(small(), 10.0), (small(), None)])
    assert table.cells["replicated_none"][1].outcome == "completed"


@pytest.mark.parametrize("change", [{"batch_size": 8}, {"precision": "bf16"}, {"seed": 2}, {"data": "photos"}, {"momentum": 0.5}])
def test_trials_that_differ_in_another_axis_get_tables_of_their_own_that_name_it(change):
    first, second = tables([(small(), 10.0), (small(**change), 1000.0)])
    (axis,) = change
    assert first.setting[axis] != second.setting[axis]
    assert [table.cells["replicated_none"][1].images_per_second for table in (first, second)] == [10.0, 1000.0]


def test_machines_are_never_mixed():
    fill("r.db", [(small(), 10.0)])
    fill("r.db", [(small(), 99.0)], name="second", machine=replace(MACHINE, host="other"))
    found = scaling_tables(queries.measured(open_for_reading("r.db")))
    assert [(table.host, table.cells["replicated_none"][1].images_per_second) for table in found] == [
        ("testbox", 10.0),
        ("other", 99.0),
    ]


def test_software_is_never_mixed():
    fill("r.db", [(small(), 100.0)])
    fill("r.db", [(small(), 300.0)], name="second", environment=ENVIRONMENT | {"variables": {"NCCL_ALGO": "Tree"}})
    found = scaling_tables(queries.measured(open_for_reading("r.db")))
    assert [table.cells["replicated_none"][1].images_per_second for table in found] == [100.0, 300.0]
    assert found[0].made_on != found[1].made_on


def test_strong_scaling_is_one_table_told_by_its_global_batch():
    (table,) = tables([(small(scaling="strong", batch_size=8), 10.0), (small(scaling="strong", batch_size=4, num_gpus=2), 15.0)])
    assert table.setting["batch_size"] == "8 in all"
    assert table.cells["replicated_none"][2].speed_up == pytest.approx(1.5)


def test_stand_ins_are_never_called_gpus():
    (table,) = tables([(small(), 10.0)])
    assert table.devices == "CPU stand-ins"
    assert "GPU" not in table.machine
