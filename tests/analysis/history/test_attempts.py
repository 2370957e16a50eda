"""Attempts are sorted into nights of machines, whatever clocks, drivers and sweeps did."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest

from analysis.history.attempts import clock_notes, of_attempts
from analysis.history.values import records
from store.reading.nights import Process, Processes, SweepHead

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TRIAL = {"id": "t1", "strategy": "ps_cpu", "model": "vgg16", "num_gpus": 1}
MACHINE = {
    "host": "box",
    "cpu": "Testium",
    "num_cores": 8,
    "num_gpus": 2,
    "gpu": "P100",
    "driver": "550.1",
}


def sweep(name: str, days: float = 0.0, **changes: object) -> SweepHead:
    head = SweepHead(
        name=name,
        started_at=NOON + timedelta(days=days),
        is_imported=False,
        is_accepted=False,
    )
    return replace(head, **changes)


def process(sweep_id: int = 1, machine_id: int = 1, environment_id: int = 1, **changes: object):
    found = Process("t1", sweep_id, machine_id, environment_id, False, 100.0, "images")
    return found._replace(**changes)


def environment(key: str, tensorflow: str = "2.21") -> dict[str, object]:
    packages = {"tensorflow": tensorflow}
    return {"software_key": key, "revision": "", "description": {"packages": packages}}


def read(rows, sweeps, machines=None, environments=None) -> Processes:
    return Processes(
        rows=rows,
        sweeps=sweeps,
        trials={"t1": TRIAL, "t2": TRIAL | {"id": "t2", "num_gpus": 2}},
        machines=machines or {1: MACHINE},
        environments=environments or {1: environment("a"), 2: environment("b", "2.22")},
    )


def made(found: Processes, *, across_machines: bool = False):
    values = of_attempts(found, across_machines=across_machines)
    return records(values, is_simulated=False)


def test_sweeps_of_one_day_are_one_night_whose_processes_are_averaged():
    rows = [process(1, throughput=100.0), process(2, throughput=121.0)]
    (record,) = made(read(rows, {1: sweep("a"), 2: sweep("b", 0.4)}))
    (night,) = record.nights
    assert (night.day, night.sweeps) == (date(2026, 1, 1), ("a", "b"))
    assert record.logs[0, 0] == pytest.approx(4.7005, abs=1e-4)  # of 110, the geometric mean


def test_free_axes_and_variables_are_axes():
    """A bug: trials that differ in a variable were named by their ids, and no group."""
    trial = TRIAL | {"axes.zero": 1, "env.X": "a", "env.Y": None}
    (value,) = of_attempts(
        replace(read([process()], {1: sweep("a")}), trials={"t1": trial}), across_machines=False
    )
    assert (value.axes["zero"], value.axes["env.X"]) == (1, "a")
    assert "env.Y" not in value.axes


def test_two_softwares_on_a_day_are_two_nights():
    rows = [process(1), process(2, environment_id=2)]
    (record,) = made(read(rows, {1: sweep("a"), 2: sweep("b", 0.4)}))
    assert [night.software["tensorflow"] for night in record.nights] == ["2.21", "2.22"]


def test_another_driver_is_software_and_another_machine_a_history_of_its_own():
    machines = {1: MACHINE, 2: MACHINE | {"driver": "560.2"}, 3: MACHINE | {"host": "new"}}
    rows = [process(1), process(2, machine_id=2), process(3, machine_id=3)]
    found = read(rows, {1: sweep("a"), 2: sweep("b", 1), 3: sweep("c", 2)}, machines)
    box, new = made(found)
    assert box.machine == "box: 8 cores Testium, 2 x P100"
    assert [night.software["driver"] for night in box.nights] == ["550.1", "560.2"]
    assert (new.host, len(new.nights)) == ("new", 1)


def test_across_machines_the_machine_is_what_changed():
    machines = {1: MACHINE, 2: MACHINE | {"host": "new"}}
    found = read(
        [process(1), process(2, machine_id=2)], {1: sweep("a"), 2: sweep("b", 1)}, machines
    )
    (record,) = made(found, across_machines=True)
    words = [night.software["machine"] for night in record.nights]
    assert words == ["box: 8 cores Testium, 2 x P100", "new: 8 cores Testium, 2 x P100"]


def test_across_machines_two_that_measure_on_one_day_are_two_nights():
    machines = {1: MACHINE, 2: MACHINE | {"host": "new"}}
    rows = [process(1, throughput=100.0), process(2, machine_id=2, throughput=200.0)]
    found = read(rows, {1: sweep("a"), 2: sweep("b")}, machines)
    (record,) = made(found, across_machines=True)
    assert np.exp(record.logs[0]) == pytest.approx([100, 200])


def test_items_are_never_mixed():
    rows = [process(1), process(1, item="tokens", throughput=9e9)]
    (record,) = made(read(rows, {1: sweep("a")}))
    assert [cell.unit for cell in record.cells] == ["images/s", "tokens/s"]
    assert [cell.name for cell in record.cells] == ["images", "tokens"]


def test_cells_are_named_by_what_tells_them_apart():
    (record,) = made(read([process(1), process(1, trial_id="t2")], {1: sweep("a")}))
    assert [cell.name for cell in record.cells] == ["num_gpus=1", "num_gpus=2"]


def test_a_clock_that_went_backwards_is_told_and_imported_sweeps_may_be_older():
    sweeps = [sweep("a"), sweep("b", 5), sweep("c", -300), sweep("d", -400, is_imported=True)]
    (note,) = clock_notes(sweeps)
    assert note.startswith("a clock went backwards: 1 sweep (c first) dated before one")
    assert clock_notes(sweeps[:2]) == []


def test_an_attempt_without_software_has_a_night_too():
    found = read([process(1, environment_id=None)], {1: sweep("a")})
    assert made(found)[0].nights[0].software == {"driver": "550.1"}


def test_trials_that_differ_in_no_axis_have_names_of_their_own():
    found = read([process(1), process(1, trial_id="t3")], {1: sweep("a")})
    found.trials["t3"] = TRIAL | {"id": "t3"}
    (record,) = made(found)
    assert [cell.name for cell in record.cells] == ["vgg16", "vgg16 t3"]
