"""Simulated numbers are stored, travel and are asked for as such, and are never among measured ones."""

import pytest

from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import AttemptResult
from scalemark.records.trial import TrialSpec
from store.database import open_for_reading
from store.merge import merge
from store.reading import listing, queries
from store.reading.listing import show
from tests.filled import MACHINE, SIMULATED_MACHINE, fill
from tests.specs import small
from tests.store.command import store as run
from tests.tables import asked, query

INJECTED = "drift=0.05 noise=0.02"
TRUTH = {"compute_s": 0.075, "exposed_s": 0.005}


def gpu(**changes: object) -> TrialSpec:
    return small(device_kind=DeviceKind.GPU, **changes)


def simulated(**changes: object) -> TrialSpec:
    return small(device_kind=DeviceKind.SIMULATED_GPU, **changes)


def both(db: str) -> None:
    """The same trials measured and simulated: attempts 1 and 2, and 3 to 5."""
    fill(db, [(gpu(), 100.0), (gpu(num_gpus=2), 180.0)], name="measured")
    specs = [
        (simulated(), 1000.0),
        (simulated(num_gpus=2), 1900.0),
        (simulated(injected=INJECTED), 900.0),
    ]
    fill(db, specs, name="simulated", details=[{"truth": TRUTH}] * 3)


def ask(db: str, sql: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in query(open_for_reading(db), sql)[1]]


def test_views_say_which_numbers_are_simulated(db):
    both(db)
    sums = (
        "SELECT origin, sum(throughput), count(*) FROM throughput GROUP BY origin ORDER BY origin"
    )
    assert ask(db, sums) == [("measured", 280.0, 2), ("simulated", 3800.0, 3)]
    columns = "origin, num_gpus, injected, speed_up"
    assert ask(db, f"SELECT {columns} FROM scaling ORDER BY {columns}") == [
        ("measured", 1, "", 1.0),
        ("measured", 2, "", 1.8),
        ("simulated", 1, "", 1.0),
        ("simulated", 1, INJECTED, 1.0),
        ("simulated", 2, "", 1.9),
    ]
    names, _ = query(open_for_reading(db), "SELECT * FROM scaling")
    assert names[:5] == ["model", "strategy", "num_gpus", "throughput", "speed_up"]


@pytest.mark.parametrize(
    ("chosen", "attempts"),
    [
        ("device_kind=simulated_gpu", [3, 4, 5]),
        ("device_kind!=simulated_gpu", [1, 2]),
        (f"injected={INJECTED}", [5]),
        ("injected=", [1, 2, 3, 4]),
        ("injected~*noise*", [5]),
    ],
)
def test_both_are_listed_and_can_be_distinguished(db, chosen, attempts):
    both(db)
    rows = queries.selected(
        open_for_reading(db), asked(listing.listing, open_for_reading(db), [chosen])
    )
    assert [row["attempt"] for row in rows] == attempts


def test_the_profile_the_truth_and_what_was_injected_are_shown(db):
    both(db)
    found = show(open_for_reading(db), "5")
    assert found["trial"]["injected"] == INJECTED
    (reported,) = found["attempts"]
    assert reported["truth"] == TRUTH
    assert reported["machine_facts"]["hardware_profile"] == SIMULATED_MACHINE.hardware_profile
    text = run("show", "5", "--db", db).stdout
    assert DeviceKind.SIMULATED_GPU.note in " ".join(text.split())
    assert {"simulation", "truth behind the simulation"} < {
        line.strip() for line in text.splitlines()
    }
    assert "measurement" not in text.splitlines()
    assert DeviceKind.SIMULATED_GPU.note not in " ".join(
        run("show", "1", "--db", db).stdout.split()
    )


@pytest.mark.parametrize(
    ("spec", "machine", "message"),
    [
        (simulated(), MACHINE, r"device_kind=simulated_gpu on a machine that exists \(testbox\)"),
        (
            gpu(),
            SIMULATED_MACHINE,
            r"device_kind=gpu on a hardware profile \(simulated-dgx1_p100\)",
        ),
    ],
)
def test_a_simulated_trial_on_a_real_machine_is_refused(spec, machine, message):
    with pytest.raises(ValueError, match=message):
        fill("r.db", [(spec, 1.0)], machine=machine)


def test_merged_databases_keep_measured_and_simulated_numbers_apart():
    fill("measured.db", [(gpu(), 100.0)], name="measured")
    fill("simulated.db", [(simulated(), 1000.0)], name="simulated")
    merge("r.db", ["measured.db", "simulated.db"])
    found = ask("r.db", "SELECT origin, throughput FROM throughput ORDER BY origin")
    assert found == [("measured", 100.0), ("simulated", 1000.0)]


def test_the_truth_is_read_from_a_run_folder():
    reported = AttemptResult(
        outcome="failed", message="", measurement=None, op_placement={}, truth=TRUTH
    )
    assert AttemptResult.from_json(reported.to_json()) == reported
