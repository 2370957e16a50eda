"""What differs is reported before any ratio; what cannot be compared is refused; an interval says on what it rests."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from scalemark.records.devices import DeviceKind
from scalemark.records.machine import Gpu, GpuLink
from store.database import open_for_reading
from store.errors import StoreError
from store.reading.comparison import (
    Comparison,
    Winner,
    compare,
    full_names,
    incomparable,
    warnings,
)
from store.reading.differences import Side, differences, sides
from store.schema import AttemptRow, MeasurementRow
from store.writer import Writer
from tests.filled import ENVIRONMENT, MACHINE, NOON, fill
from tests.specs import small
from tests.store.command import store

pytestmark = pytest.mark.integration

ONE, TWO = small(num_gpus=1), small(num_gpus=2)


def run(db: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return store(*arguments, "--db", db)


def reported(db: str, a: str, b: str) -> list[tuple[str, str, Any, Any]]:
    return [
        (one.section, one.name, one.a, one.b)
        for one in differences(*sides(open_for_reading(db), a, b))
    ]


def refused(db: str, a: str, b: str, *named: str) -> list[str]:
    of_a, of_b = sides(open_for_reading(db), a, b)
    return incomparable(of_a, of_b, differences(of_a, of_b), full_names(of_a, of_b, named))


def compared(db: str, a: str, b: str) -> Comparison:
    return compare(*sides(open_for_reading(db), a, b))


def change(db: str, table: Any, key: Any, number: int, **values: object) -> None:
    with Writer(db).engine.begin() as connection:
        connection.execute(sa.update(table).where(key == number).values(**values))


def gpu(place: int, **changes: Any) -> Gpu:
    reported = {
        "uuid": f"GPU-{place}",
        "name": "H200",
        "memory_bytes": 2**37,
        "pci_bus_id": f"0{place}",
        "compute_capability": "9.0",
    }
    return Gpu(**{"power_limit_w": 700.0, **reported, **changes})


def test_the_axes_in_which_two_trials_differ_are_reported(db):
    fill(db, [(ONE, 1.0), (small(num_gpus=4, all_reduce="nccl"), 1.0)])
    assert reported(db, "1", "2") == [
        ("axes", "strategy", "replicated_none", "replicated_nccl"),
        ("axes", "num_gpus", 1, 4),
        ("axes", "all_reduce", "none", "nccl"),
    ]
    assert reported(db, "1", "1") == []


def test_machines_gpus_links_packages_variables_and_commits_are_reported(db):
    links = (GpuLink(between=("GPU-0", "GPU-1"), num_nvlinks=18),)
    there = replace(MACHINE, gpus=(gpu(0), gpu(1)), driver="580", links=links)
    here = replace(
        there,
        gpus=(gpu(0), gpu(1, power_limit_w=500.0)),
        links=(replace(links[0], num_nvlinks=0, pcie="system"),),
    )
    fill(db, [(ONE, 1.0)], machine=there)
    changed = {
        "packages": {**ENVIRONMENT["packages"], "numpy": "2.5", "ml_dtypes": "0.5"},
        "variables": {"TF_X": "1"},
        "commit": "abd",
        "python": "3.12",
    }
    fill(db, [(ONE, 1.0)], name="second", machine=here, environment=ENVIRONMENT | changed)
    assert reported(db, "1", "2") == [
        ("gpus", "1 power_limit_w", 700.0, 500.0),
        ("links", "0-1", "18 NVLinks", "system"),
        ("software", "python", "3.11.7", "3.12"),
        ("packages", "numpy", "2.4.6", "2.5"),
        ("packages", "ml_dtypes", None, "0.5"),
        ("variables", "TF_X", None, "1"),
        ("commit", "commit", "abc", "abd"),
    ]
    text = run(db, "diff", "1", "2").stdout
    assert text.splitlines()[0].startswith("A: attempt 1, trivial replicated_none num_gpus=1")
    assert ["ml_dtypes", "-", "0.5"] in [line.split()[1:] for line in text.splitlines()]
    assert json.loads(run(db, "diff", "1", "2", "--json").stdout)["differences"][1]["b"] == "system"


def test_an_attempt_that_reported_no_environment_says_so_once(db):
    fill(db, [(ONE, 1.0), (ONE, None)])
    assert (
        "software",
        "environment",
        None,
        "unknown: it ended before it was recorded",
    ) in reported(db, "1", "2")


def test_attempts_of_one_kind_are_compared(db):
    fill(db, [(ONE, 100.0), (ONE, 102.0), (TWO, 150.0), (TWO, 150.0)])
    fill(db, [(ONE, 9.0), (ONE, None)], name="elsewhere", machine=replace(MACHINE, host="other"))
    of_one, of_two = sides(open_for_reading(db), ONE.trial_id, TWO.trial_id)
    assert [row["attempt_id"] for row in of_one.attempts] == [1, 2]
    assert (of_one.num_left_out, of_two.num_left_out) == (2, 0)
    assert refused(db, ONE.trial_id, TWO.trial_id) == []
    assert compared(db, ONE.trial_id, TWO.trial_id).a.throughput == pytest.approx(
        (100 * 102) ** 0.5
    )
    assert (
        "attempts 1, 2; 2 others left out" in run(db, "compare", ONE.trial_id, TWO.trial_id).stdout
    )


def test_repeats_give_an_interval_over_processes(db):
    fill(
        db,
        [
            *((ONE, speed) for speed in (99.0, 100.0, 101.0)),
            *((TWO, speed) for speed in (149.0, 150.0, 152.0)),
        ],
    )
    found = compared(db, TWO.trial_id, ONE.trial_id)
    assert (found.ratio, found.low, found.high) == pytest.approx(
        (1.50333, 1.46939, 1.53806), abs=1e-5
    )  # scipy.stats.ttest_ind's
    assert (found.a.low, found.a.high) == pytest.approx(
        (146.587, 154.165), abs=1e-3
    )  # scipy.stats.t.interval's
    assert (found.basis, found.winner) == ("Welch's t over 3 and 3 processes", Winner.A)
    turned = compared(db, ONE.trial_id, TWO.trial_id)
    assert turned.winner is Winner.B
    assert turned.low == pytest.approx(1 / found.high, rel=0.01)


def side(speeds: Sequence[float]) -> Side:
    attempts = [
        {"outcome": "completed", "deleted_at": None, "throughput": speed} for speed in speeds
    ]
    return Side(name="a trial", trial={}, attempts=attempts, num_left_out=0)


@pytest.mark.parametrize(("num_a", "num_b"), [(2, 2), (3, 3), (5, 5), (2, 5)])
def test_equal_speeds_have_a_winner_as_seldom_as_the_interval_says(num_a, num_b):
    rng = np.random.default_rng(7)
    found = [
        compare(side(rng.lognormal(5, 0.03, num_a)), side(rng.lognormal(5, 0.03, num_b))).winner
        for _ in range(400)
    ]
    assert sum(winner is not Winner.TIE for winner in found) <= 0.07 * len(found)


@pytest.mark.parametrize("num", [3, 10])
def test_the_interval_covers_the_true_ratio_of_noisy_processes(num):
    rng = np.random.default_rng(7)
    found = [
        compare(side(rng.lognormal(0.1, 0.05, num)), side(rng.lognormal(0, 0.05, num)))
        for _ in range(400)
    ]
    assert np.mean([one.low < np.exp(0.1) < one.high for one in found]) >= 0.93


def test_a_fifth_faster_is_found_in_three_repeats_of_little_noise():
    rng = np.random.default_rng(7)
    found = [
        compare(side(120 * rng.lognormal(0, 0.01, 3)), side(100 * rng.lognormal(0, 0.01, 3))).winner
        for _ in range(100)
    ]
    assert found == [Winner.A] * 100


def test_repeats_without_any_spread_have_an_interval_of_no_width():
    found = compare(side([150.0, 150.0]), side([100.0, 100.0]))
    assert (found.low, found.high) == pytest.approx((1.5, 1.5))
    assert compare(side([100.0, 100.0]), side([100.0, 100.0])).winner is Winner.TIE


def test_overlapping_repeats_are_a_tie(db):
    fill(db, [(ONE, 90.0), (ONE, 110.0), (TWO, 95.0), (TWO, 104.0)])
    found = compared(db, ONE.trial_id, TWO.trial_id)
    assert found.winner is Winner.TIE
    assert found.low is not None
    assert found.high is not None
    assert found.low < 1 < found.high


def test_single_processes_are_compared_by_their_own_intervals(db):
    fill(db, [(ONE, 100.0), (TWO, 150.0)])  # each within 5 %
    found = compared(db, "2", "1")
    assert (found.ratio, found.basis, found.winner) == (
        1.5,
        "one process each: no replication",
        Winner.UNKNOWN,
    )
    assert found.low is not None
    assert 1.5 / (1.05 / 0.95) < found.low < 1.5 * 0.95
    assert found.high is not None
    assert 1.5 * 1.05 < found.high < 1.5 * (1.05 / 0.95)
    assert "(one process each: no replication): unknown" in run(db, "compare", "2", "1").stdout
    answered = json.loads(run(db, "compare", "2", "1", "--json").stdout)["comparison"]
    assert (answered["basis"], answered["winner"]) == (
        "one process each: no replication",
        "unknown",
    )


def test_one_process_against_several_says_which_is_single(db):
    fill(db, [(ONE, 100.0), (TWO, 150.0), (TWO, 151.0)])
    for a, b, single in ((ONE, TWO, "A"), (TWO, ONE, "B")):
        found = compared(db, a.trial_id, b.trial_id)
        assert (found.basis, found.winner) == (
            f"one process of {single}: no replication of it",
            Winner.UNKNOWN,
        )


def test_without_an_interval_nobody_wins(db):
    fill(db, [(ONE, 100.0), (TWO, 150.0)])
    change(
        db,
        MeasurementRow,
        MeasurementRow.attempt_id,
        2,
        throughput_low=None,
        throughput_high=None,
    )
    assert compared(db, "1", "2").winner is Winner.UNKNOWN
    assert (
        "no interval (one process each: no replication): unknown"
        in run(db, "compare", "1", "2").stdout
    )


@pytest.mark.parametrize(
    ("other", "named", "reasons"),
    [
        (small(all_reduce="pscpu", num_gpus=8), [], []),
        (small(model="vgg16"), [], ["model differs, trivial against vgg16"]),
        (small(model="vgg16"), ["model"], []),
        (
            small(batch_size=4, precision="fp16"),
            [],
            ["precision differs, fp32 against fp16", "batch_size differs, 2 against 4"],
        ),
        (small(batch_size=4, precision="fp16"), ["precision"], ["batch_size differs, 2 against 4"]),
        (small(image_px=64), [], ["image_px differs, 32 against 64"]),
        (small(device_kind=DeviceKind.GPU), ["device_kind"], ["CPU devices against GPUs"]),
        (small(seed=2), [], ["seed differs, 1 against 2"]),
    ],
)
def test_other_differences_than_strategy_and_gpus_must_be_named(db, other, named, reasons):
    fill(db, [(small(), 1.0), (other, 1.0)])
    assert refused(db, "1", "2", *named) == reasons


def test_strong_scaling_shares_the_global_batch(db):
    fill(
        db,
        [
            (small(scaling="strong", batch_size=64), 1.0),
            (small(scaling="strong", batch_size=16, num_gpus=4), 1.0),
        ],
    )
    assert refused(db, "1", "2") == []


def test_other_machines_software_and_neighbors_are_refused_unless_named(db):
    fill(db, [(ONE, 1.0)])
    fill(
        db,
        [(ONE, 2.0)],
        name="b",
        machine=replace(MACHINE, host="other"),
        environment=ENVIRONMENT | {"kernel": "7"},
    )
    change(db, AttemptRow, AttemptRow.id, 2, shares_host=True)
    assert refused(db, "1", "2") == [
        "different machines",
        "different software (kernel)",
        "others ran beside one of them",
    ]
    assert refused(db, "1", "2", "software", "shares_host") == ["different machines"]
    assert refused(db, "1", "2", "machine", "software", "shares_host") == []


def test_what_is_invalid_is_refused_and_what_is_suspect_is_said(db):
    fill(db, [(ONE, 100.0), (TWO, 150.0)])
    change(
        db,
        MeasurementRow,
        MeasurementRow.attempt_id,
        1,
        verdict="invalid",
        verdict_reasons=["ran on the wrong device"],
    )
    change(
        db,
        MeasurementRow,
        MeasurementRow.attempt_id,
        2,
        verdict="suspect",
        verdict_reasons=["others took cores"],
    )
    ended = run(db, "compare", "1", "2")
    assert ended.returncode == 2
    assert "attempt 1 of A is invalid (ran on the wrong device); name with --axis" in ended.stderr
    assert "num_gpus" in ended.stdout  # what differs is reported all the same
    assert "A / B" not in ended.stdout
    anyway = run(db, "compare", "1", "2", "--anyway")
    assert anyway.returncode == 0
    assert "incomparable: attempt 1 of A is invalid (ran on the wrong device)" in anyway.stdout
    assert "B: 1 of 1 suspect (others took cores)" in anyway.stdout
    assert "nothing here speaks of GPUs" in anyway.stdout


def test_throughput_of_other_items_is_refused_whatever_is_named(db):
    fill(db, [(ONE, 100.0), (TWO, 150.0)])
    change(db, MeasurementRow, MeasurementRow.attempt_id, 2, item="tokens")
    assert refused(db, "1", "2") == ["A counts images, B counts tokens"]
    ended = run(db, "compare", "1", "2", "--axis", "num_gpus,machine,software")
    assert "incomparable: A counts images, B counts tokens" in ended.stderr
    assert "images/s and tokens/s" in run(db, "compare", "1", "2", "--anyway").stdout


def test_needless_names_are_said(db):
    fill(db, [(ONE, 100.0), (TWO, 150.0)])
    of_a, of_b = sides(open_for_reading(db), ONE.trial_id, TWO.trial_id)
    said = warnings(of_a, of_b, differences(of_a, of_b), ["model"])
    assert said[0] == "model was named, and does not differ"


def test_compare_answers_in_json(db):
    fill(db, [(ONE, 100.0), (small(model="vgg16"), 150.0)])
    ended = run(db, "compare", "1", "2", "--json")
    assert ended.returncode == 2
    answered = json.loads(ended.stdout)
    assert (answered["incomparable"], answered["comparison"]) == (
        ["model differs, trivial against vgg16"],
        None,
    )
    answered = json.loads(run(db, "compare", "1", "2", "--axis", "model", "--json").stdout)
    assert (answered["a"]["attempts"], answered["comparison"]["b"]["throughput"]) == (
        [1],
        150.0,
    )
    assert answered["comparison"]["winner"] == "unknown"
    fill(
        db,
        [
            (small(), 100.0),
            (small(), 101.0),
            (small(model="vgg16"), 150.0),
            (small(model="vgg16"), 151.0),
        ],
        name="b",
    )
    answered = json.loads(
        run(
            db, "compare", small().trial_id, small(model="vgg16").trial_id, "--axis=model", "--json"
        ).stdout
    )
    assert answered["comparison"]["winner"] == "B faster"


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ("1", "2", r"^attempt 2: nothing to compare, it has no completed attempt \(failed\)$"),
        (
            "1",
            TWO.trial_id,
            r"^trial \w{8}: nothing to compare, it has no completed attempt \(failed\)$",
        ),
        ("1", "3", r"^attempt 3: deleted; `python -m store restore` brings it back$"),
        ("1", "4", r"^attempt 4: a throughput of 0 has no ratio$"),
        ("1", "first", r"^sweep first: wanted an attempt or a trial$"),
        (
            "1",
            "77",
            r"^77: no attempt or trial; wanted the number of an attempt, or 4 hexadecimal digits or more of a trial's id; see",
        ),
        (
            "1",
            TWO.trial_id[:3],
            r"^\w{3}: no attempt or trial; wanted the number of an attempt, or 4 hexadecimal digits or more",
        ),
        (
            "1",
            f"trial={TWO.trial_id[:1]}",
            r"^trial=\w: no attempt or trial; wanted the number of an attempt, or 4 hexadecimal digits",
        ),
    ],
)
def test_what_has_no_number_is_refused(db, a, b, message):
    fill(db, [(ONE, 100.0), (TWO, None), (ONE, 1.0), (small(num_gpus=4), 0.0)])
    change(db, AttemptRow, AttemptRow.id, 3, deleted_at=NOON)
    with pytest.raises(StoreError, match=message):
        compared(db, a, b)


def test_a_trial_without_attempts_is_distinguished_by_its_axes_alone(db):
    fill(db, [(ONE, 100.0)])
    fill(db, [(TWO, 100.0)], name="b")
    change(db, AttemptRow, AttemptRow.id, 2, deleted_at=NOON)
    assert ("axes", "num_gpus", 1, 2) in reported(db, ONE.trial_id, TWO.trial_id)
    assert "attempts none; 1 others left out" in run(db, "diff", ONE.trial_id, TWO.trial_id).stdout
    with pytest.raises(StoreError, match=r"it has no completed attempt \(no attempts\)"):
        compared(db, ONE.trial_id, TWO.trial_id)


def test_a_name_that_is_no_axis_is_refused_with_the_nearest(db):
    fill(db, [(ONE, 1.0)])
    with pytest.raises(StoreError, match=r"^modle: no such axis; did you mean model\?$"):
        refused(db, "1", "1", "modle")
