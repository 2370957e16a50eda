"""CI systems read every trial of every machine."""

import json

import numpy as np

from analysis.history.record import short_machines
from analysis.history.reports import bencher
from tests.analysis.history.made import noisy, record


def machine(name: str, throughput: float):
    return record(np.log(throughput) + 0 * noisy(1, 3), machine=name)


def values(*records):
    return {
        name: found["throughput"]["value"] for name, found in json.loads(bencher(records)).items()
    }


def test_two_states_of_a_host_are_two_benchmarks():
    """A bug: both had the name of the host, and the second took the place of the first."""
    found = values(machine("box: 8 cores, 1 x P100", 100), machine("box: 8 cores, 2 x P100", 200))
    assert found == {
        "box: 8 cores, 1 x P100 trial 0 images/s": 100,
        "box: 8 cores, 2 x P100 trial 0 images/s": 200,
    }


def test_a_host_that_stayed_as_it_was_is_named_alone():
    records = [machine("box: 8", 1), machine("old: 4", 1), machine("old: 8", 1)]
    assert short_machines(records) == {"box: 8": "box", "old: 4": "old: 4", "old: 8": "old: 8"}


def test_a_name_stays_when_another_machine_joins():
    """A bug: names had the machine only beside another, so that the first one's history ended."""
    alone = values(machine("box: 8", 100))
    assert alone == {"box: 8 trial 0 images/s": 100}
    assert alone.items() < values(machine("box: 8", 100), machine("other: 4", 50)).items()
