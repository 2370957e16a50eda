"""What must hold of predictions: published figures, from the smaller counts of their curves."""

from dataclasses import replace

import numpy as np
import pytest

from analysis.published import of_others
from benchmarks.prediction import checked, further, groups, table
from store.reading.references import known_references

RESULTS = of_others([*known_references(None), *further()])

LIMITS = {  # median, 90th percentile of errors; least and most of the intervals that hold
    "8 from up to 4": (0.0138, 0.071, 0.93),
    "other than 8 from up to 4": (0.099, 0.504, 0.80),
    "4 from up to 2": (0.0207, 0.077, 0.93),
    "8 from up to 2": (0.023, 0.078, 0.93),
    "8 from up to 4, rings": (0.0138, 0.168, 0.90),
    "8 from up to 4, parameter servers": (0.0138, 0.055, 0.93),
    "8 from one count up to 4": (0.06, 0.2, 0.93),
    "2 from 1": (0.025, 0.07, 0.93),
    "4 from 1": (0.04, 0.18, 0.93),
    "8 from 1": (0.05, 0.15, 0.93),
}


@pytest.fixture(name="figures", scope="module")
def figures_of_all():
    return checked(RESULTS)


def test_errors_and_intervals_stay_within_their_limits(figures):
    found = dict(groups(figures))
    assert found.keys() == LIMITS.keys()
    for name, (median, p90, inside) in LIMITS.items():
        errors = [one.error for one in found[name]]
        assert np.median(errors) <= median, name
        assert np.quantile(errors, 0.9) <= p90, name
        assert np.mean([one.is_inside for one in found[name]]) >= inside, name
    assert len(found["8 from up to 4"]) == 69


def test_no_prediction_rests_on_what_it_predicts(figures):
    """Figures on more than 4 GPUs are changed: predictions from up to 4 stay."""
    changed = []
    for result in RESULTS:
        if result.num_gpus > 4 and result.throughput:
            result = replace(result, throughput=7 * result.throughput)
        changed.append(result)
    of_changed = [one.reached.throughput for one in checked(changed, fews=(4,))]
    assert of_changed == [one.reached.throughput for one in figures if one.few == 4]


def test_the_table_has_a_line_for_each_group(figures):
    assert len(table(figures).splitlines()) == 2 + len(LIMITS)
