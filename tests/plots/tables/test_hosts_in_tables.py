"""Tables of trials over several hosts name these, and every number in them is one trial's."""

import csv
import io
import json
import re

import pytest

from tests.filled import fill
from tests.over_hosts import OVER_TWO_MACHINES, mixed, spread


@pytest.fixture
def several(plots):
    fill("results.db", mixed())
    return plots


def test_rows_say_over_how_many_hosts(several):
    reported = several("table").stdout
    assert re.search(r"^strategy +hosts +1 CPU device", reported, re.MULTILINE)
    assert re.search(r"^distributed_ring +2 ", reported, re.MULTILINE)
    assert re.search(r"^distributed_ps +4 ", reported, re.MULTILINE)
    assert not re.search(r"^replicated_none +[24] ", reported, re.MULTILINE)
    assert "speed-up: against the same strategy on 1 CPU device of one host" in reported
    assert "over 2 and 4 hosts: processes of one machine, which share its cores" in reported


def test_hosts_go_across_as_any_axis(several):
    header, ring, *_ = (
        row
        for row in several("table", "num_gpus=4", "--columns", "hosts").stdout.splitlines()
        if " hosts" in row or "ring" in row
    )
    assert header.split() == ["strategy", "1", "host", "2", "hosts", "4", "hosts"]
    numbers = {
        spec.hosts: value
        for spec, value in mixed()
        if spec.num_gpus == 4 and spec.all_reduce == "ring"
    }
    assert [float(word) for word in ring.split() if word[0].isdigit()] == pytest.approx(
        list(numbers.values()), rel=5e-3
    )


def test_hosts_stay_in_the_rows_where_other_axes_go_across(several):
    reported = several("table", "--columns", "precision,num_gpus").stdout
    assert len(re.findall(r"^distributed_ring +2 ", reported, re.MULTILINE)) == 1
    assert reported.count("trivial (") == 1


def test_a_filter_of_hosts_shows_these_alone_against_the_same_baseline(several):
    every = {row["trial_id"]: row for row in rows(several("table", "--format", "tidy"))}
    over_two = rows(several("table", "hosts=2", "--format", "tidy"))
    assert [(row["strategy"], row["num_gpus"]) for row in over_two] == [
        (way, str(num)) for way in ("distributed_ps", "distributed_ring") for num in (2, 4, 8)
    ]
    assert all(row["speed_up"] == every[row["trial_id"]]["speed_up"] for row in over_two)
    baselines = [every[row["baseline"]] for row in over_two]
    assert {row["num_gpus"] + row["hosts"] for row in baselines} == {"11"}


def test_every_record_is_one_whole_trial(several):
    whole = {spec.trial_id: (spec.hosts, spec.num_gpus, value) for spec, value in mixed()}
    for arguments in (
        (),
        ("--columns", "hosts"),
        ("--rows", "hosts,num_gpus", "--columns", "strategy"),
    ):
        reported = json.loads(several("table", *arguments, "--json").stdout)
        found = {
            row["trial_id"]: (row["hosts"], row["num_gpus"], row["throughput"]) for row in reported
        }
        assert found == whole
        assert len(reported) == len(whole)


def test_machines_of_their_own_are_no_processes_of_one(plots):
    entries = [(spread("distributed_ring", 1), 100.0), (spread("distributed_ring", 2, 2), 150.0)]
    fill("results.db", entries, details=[{}, {"placement": OVER_TWO_MACHINES}])
    reported = plots("table").stdout
    assert re.search(r"^2 +– +150", reported, re.MULTILINE)
    assert "processes of one machine" not in reported


def rows(ended):
    return list(csv.DictReader(io.StringIO(ended.stdout)))
