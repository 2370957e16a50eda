"""Whether GPUs that are added pay, and how sure that is."""

import random
from itertools import pairwise

from analysis.commands import scaling as curves
from analysis.commands.scaling import curve_of
from analysis.measured import measured
from store.database import open_for_reading
from store.reading import queries
from tests.analysis.gpu_box import curve, fill_gpus, on_gpus
from tests.tables import asked


def stored():
    return curve_of(measured(asked(queries.measured, open_for_reading("results.db"))))


def test_an_added_gpu_brings_its_share_of_what_each_of_the_first_does():
    fill_gpus(curve([100.0, 190.0, 340.0, 400.0]))
    first, *_ = results = stored()
    steps = [curves.added(first, *pair) for pair in pairwise(results)]
    assert [round(step.share, 3) for step in steps] == [0.9, 0.75, 0.15]
    assert all(step.is_sure for step in steps)


def test_it_stops_paying_where_no_larger_number_brings_half_of_the_first():
    fill_gpus(curve([100.0, 190.0, 340.0, 400.0]))
    found = curves.stop_of(stored())
    assert found is not None
    assert (found.num_gpus, found.up_to, found.is_sure) == (4, 8, True)


def test_a_dip_on_the_way_is_no_stop_where_more_gpus_make_up_for_it():
    fill_gpus(curve([100.0, 140.0, 340.0, 680.0]))
    assert curves.stop_of(stored()) is None


def test_one_process_each_makes_no_stop_sure():
    fill_gpus([(on_gpus(1), 100.0), (on_gpus(2), 120.0)])
    found = curves.stop_of(stored())
    assert found is not None
    assert not found.is_sure
    assert found.share_low is None


def test_the_interval_of_a_share_holds_the_truth_as_often_as_it_says():
    chance = random.Random(7)
    truth = (340.0 - 190.0) / 2 / 100.0
    hits = 0
    for _ in range(200):
        rows = [
            fake(num, *(value * chance.lognormvariate(0, 0.03) for _ in range(4)))
            for num, value in ((1, 100.0), (2, 190.0), (4, 340.0))
        ]
        added = curves.added(*rows)
        hits += added.share_low < truth < added.share_high
    assert 0.91 <= hits / 200 <= 0.99


def fake(num_gpus, *values):
    """A result of these processes, without a database."""
    from analysis.results import Environment, Result
    from scalemark.records.machine import DeviceKind
    from scalemark.records.references import Origin
    from scalemark.stats.welch import typical

    environment = Environment(
        key="p",
        host="h",
        machine="m",
        versions="v",
        device_kind=DeviceKind.GPU,
        origin=Origin.MEASURED,
    )
    return Result(
        trial_id=str(num_gpus),
        environment=environment,
        axes={"num_gpus": num_gpus, "strategy": "ps_cpu"},
        curve="c",
        attempt_ids=(),
        outcome="completed",
        repeats=values,
        throughput=typical(values),
        low=None,
        high=None,
    )
