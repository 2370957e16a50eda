"""Attempts are sorted into nights of machines, whatever clocks, drivers and sweeps did."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from analysis.guard.histories import histories, records
from analysis.selection import NothingFoundError, Selection
from scalemark.records.measurement import Verdict
from scalemark.records.references import Origin
from store.errors import StoreError
from store.reading.sweeps import BegunSweep
from tests.filled import fill
from tests.nights import FIRST, fill_nights
from tests.specs import small

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TRIALS = {
    "t1": {"id": "t1", "strategy": "ps_cpu", "model": "vgg16", "num_gpus": 1},
    "t2": {"id": "t2", "strategy": "ps_cpu", "model": "vgg16", "num_gpus": 2},
    "t3": {"id": "t3", "strategy": "ps_cpu", "model": "vgg16", "num_gpus": 1},
}
BOX = {
    "host": "box",
    "cpu": "Testium",
    "num_cores": 8,
    "num_gpus": 2,
    "gpu": "P100",
    "driver": "550.1",
}
MACHINES = {1: BOX, 2: BOX | {"driver": "560.2"}, 3: BOX | {"host": "new"}}


def environment(key: str, tensorflow: str) -> dict[str, object]:
    packages = {"tensorflow": tensorflow}
    return {"software_key": key, "revision": "", "description": {"packages": packages}}


ENVIRONMENTS = {1: environment("a", "2.21"), 2: environment("b", "2.22")}


def process(sweep_id: int = 1, days: float = 0.0, **changes: object) -> dict[str, Any]:
    row: dict[str, Any] = {
        "trial_id": "t1",
        "sweep_id": sweep_id,
        "machine_id": 1,
        "environment_id": 1,
        "shares_host": False,
        "throughput": 100.0,
        "item": "images",
        "days": days,
    }
    return row | changes


def made(*rows: dict[str, Any], trials=TRIALS):
    sweeps = {}
    for row in rows:
        row["trial"] = trials[row["trial_id"]]
        row["machine"] = MACHINES[row["machine_id"]]
        row["environment"] = ENVIRONMENTS.get(row["environment_id"])
        number = row["sweep_id"]
        sweeps[number] = BegunSweep(
            name=f"sweep-{number}",
            started_at=NOON + timedelta(days=row["days"]),
            is_accepted=number == 7,
        )
    return records(rows, sweeps, is_simulated=False)


def test_sweeps_of_one_day_are_one_night_whose_processes_are_averaged():
    (record,) = made(process(1, throughput=100.0), process(7, 0.4, throughput=121.0))
    (night,) = record.nights
    assert (night.day, list(night.trials)) == (date(2026, 1, 1), ["sweep-1", "sweep-7"])
    assert night.accepted == "sweep-7"
    assert record.logs[0, 0] == pytest.approx(4.7005, abs=1e-4)  # of 110, the geometric mean


def test_free_axes_and_variables_are_axes():
    """A bug: trials that differ in a variable were named by their ids, and no group."""
    trial = TRIALS["t1"] | {"axes.zero": 1, "env.X": "a", "env.Y": None}
    (record,) = made(process(), trials={"t1": trial})
    (cell,) = record.cells
    assert (cell.axes["zero"], cell.axes["env.X"]) == (1, "a")
    assert "env.Y" not in cell.axes


def test_two_softwares_on_a_day_are_two_nights():
    (record,) = made(process(1), process(2, 0.4, environment_id=2))
    assert [night.software["tensorflow"] for night in record.nights] == ["2.21", "2.22"]


def test_another_driver_is_software_and_another_machine_a_history_of_its_own():
    box, new = made(process(1), process(2, 1, machine_id=2), process(3, 2, machine_id=3))
    assert box.machine == "box: 8 cores Testium, 2 x P100"
    assert [night.software["driver"] for night in box.nights] == ["550.1", "560.2"]
    assert (new.host, len(new.nights)) == ("new", 1)


def test_items_are_never_mixed():
    (record,) = made(process(1), process(1, item="tokens", throughput=9e9))
    assert [cell.name for cell in record.cells] == ["images", "tokens"]
    assert [cell.name for cell in record.cells] == ["images", "tokens"]


@pytest.mark.parametrize(
    ("other", "names"),
    [("t2", ["num_gpus=1", "num_gpus=2"]), ("t3", ["vgg16", "vgg16 t3"])],
)
def test_cells_are_named_by_the_axes_that_distinguish_them(other, names):
    (record,) = made(process(1), process(1, trial_id=other))
    assert [cell.name for cell in record.cells] == names


def test_an_attempt_without_software_has_a_night_too():
    (record,) = made(process(1, environment_id=None))
    assert record.nights[0].software == {"driver": "550.1"}


ONE, TWO = small(num_gpus=1), small(num_gpus=2)


def nights(**selected: Any) -> list[list[float]]:
    """Return the throughput of each cell by night, of a database; 0 where there is none."""
    (record,) = histories(Selection(db="r.db", **selected))
    return np.nan_to_num(np.exp(record.logs)).round(6).tolist()


def test_nights_come_by_the_dates_of_their_sweeps():
    fill_nights("r.db", {ONE: [100.0, 101.0]})
    fill_nights("r.db", {ONE: [90.0]}, first=FIRST - timedelta(days=30), name="older")
    assert nights() == [[90.0, 100.0, 101.0]]


def test_only_numbers_that_may_be_quoted_count():
    results = [(ONE, 100.0), (ONE, None), (TWO, 200.0)]
    fill("r.db", results, details=[{}, {}, {"verdict": Verdict.INVALID}])
    assert nights() == [[100.0]]
    with pytest.raises(NothingFoundError):
        nights(origin=Origin.SIMULATED)


def test_filters_and_a_sweep_choose():
    fill_nights("r.db", {ONE: [100.0, 101.0], TWO: [200.0, None]})
    assert nights(filters=("num_gpus=2",)) == [[200.0]]
    assert nights(sweep="night-1") == [[100.0, 101.0]]  # of the trial that it asked for
    with pytest.raises(StoreError, match="nobody"):
        nights(sweep="nobody")
