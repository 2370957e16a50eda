"""What ran over several hosts is kept with them, and compared host count by host count."""

import json
from dataclasses import replace

import pytest

from scalemark.records.trial import TrialSpec
from store.checks import check
from store.database import open_for_reading
from store.reading import queries
from tests.filled import MACHINE, PLACEMENT, fill
from tests.specs import small
from tests.store.command import store as run

OVER_TWO = replace(PLACEMENT, hosts=("node1", "node2"), rank_start="srun")
TOLD = "SELECT host, pool, hosts, rank_start, link_bytes_per_s FROM attempts JOIN machines ON machines.id = machine_id JOIN placements ON placements.id = placement_id JOIN measurements ON attempt_id = attempts.id"


def over(num_gpus: int, hosts: int) -> TrialSpec:
    return small(num_gpus=num_gpus, hosts=hosts, variable_update="distributed_replicated")


def two_of_a_pool(db: str) -> None:
    for host in ("node1", "node2"):
        machine = replace(MACHINE, host=host, pool="rack")
        details = [{"placement": OVER_TWO, "link_bytes_per_s": 1.25e8}]
        fill(db, [(over(2, 2), 60.0)], name=f"by {host}", machine=machine, details=details)


def ask(db: str, sql: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in queries.rows(open_for_reading(db), sql)]


def test_a_curve_of_several_hosts_has_one_gpu_as_its_baseline(db):
    fill(
        db,
        [
            (over(1, 1), 50.0),
            (over(2, 1), 90.0),
            (over(2, 2), 60.0),
            (over(2, 2), 64.0),
            (over(4, 2), 100.0),
        ],
    )
    found = ask(
        db,
        "SELECT num_gpus, hosts, num_repeats, throughput, speed_up FROM scaling ORDER BY num_gpus, hosts",
    )
    assert found == [
        (1, 1, 1, 50.0, 1.0),
        (2, 1, 1, 90.0, 1.8),
        (2, 2, 2, pytest.approx((60 * 64) ** 0.5), pytest.approx(1.2394, rel=1e-3)),
        (4, 2, 1, 100.0, 2.0),
    ]
    assert ask(db, "SELECT count(DISTINCT curve) FROM trials") == [(1,)]
    assert ask(db, "SELECT count(*) FROM throughput") == [(5,)]


def test_hosts_of_a_pool_are_one_machine_that_goes_by_its_name(db):
    two_of_a_pool(db)
    assert ask(db, "SELECT host, pool FROM machines") == [("rack", "rack")]
    assert ask(db, "SELECT hosts, num_repeats, host FROM scaling") == [(2, 2, "rack")]
    assert ask(db, TOLD) == [("rack", "rack", "node1,node2", "srun", 1.25e8)] * 2
    assert list(check(db)) == []


def test_hosts_are_shown(db):
    two_of_a_pool(db)
    lines = [line.split() for line in run("show", "1", "--db", db).stdout.splitlines()]
    for line in (
        ["hosts", "node1,node2"],
        ["rank_start", "srun"],
        ["pool", "rack"],
        ["link_bytes_per_s", "125000000"],
    ):
        assert line in lines


def test_a_list_tells_hosts_and_what_is_injected_where_there_are_such(db):
    fill(db, [(over(1, 1), 50.0)])
    heading = run("list", "--db", db).stdout.splitlines()[0]
    assert "hosts" not in heading
    assert "injected" not in heading
    assert json.loads(run("list", "--db", db, "--json").stdout)[0]["hosts"] == 1
    fill(db, [(replace(over(2, 2), injected="reduction_s=1"), 60.0)], name="slow")
    reported = run("list", "--db", db).stdout
    assert "hosts" in reported
    assert "reduction_s=1" in reported
