"""Every chart with little, nothing or odd things to show: it is drawn legibly, or says why not."""

import sqlite3
from contextlib import closing, suppress
from datetime import timedelta

import pytest

from plots import drawing
from plots.drawing import NothingToShow, Picture
from scalemark.records.measurement import Outcome
from tests.filled import NOON, fill
from tests.plots.charts.charting import checked, details, pictures, resnet, words

pytestmark = pytest.mark.integration

CHARTS = pytest.mark.parametrize("name", drawing.names())
LONG = "a_model_with_a_name_that_nobody_can_remember"


def drawn(name: str) -> list[Picture]:
    """None where the chart says why not."""
    found = []
    with suppress(NothingToShow):
        found = pictures(name)
    for one in found:
        checked(one.figure)
        assert words(one.figure).count("CPU devices · ") == 1
        assert "testbox: 2 cores Testium, CPU devices" in details(one.figure)
        assert "database results.db" in details(one.figure)
    return found


@CHARTS
def test_failures_alone_are_legible(name):
    shown = [(resnet(index, num_gpus), None) for index in range(3) for num_gpus in (1, 2)]
    ways = [
        Outcome.OUT_OF_MEMORY,
        Outcome.HUNG,
        Outcome.TIMED_OUT,
        Outcome.UNSUPPORTED,
        Outcome.FAILED,
        Outcome.INTERRUPTED,
    ]
    fill("results.db", shown, details=[{"outcome": way} for way in ways])
    assert bool(drawn(name)) is False


@CHARTS
def test_one_attempt_alone_is_legible(name):
    fill("results.db", [(resnet(), 100.0)])
    assert bool(drawn(name)) == (name == "memory")


@CHARTS
def test_numbers_of_0_and_missing_ones_are_legible(name):
    shown = [
        (resnet(), 0.0),
        (resnet(num_gpus=2), 0.0),
        (resnet(1), 100.0),
        (resnet(batch_size=64), 1.0),
        (resnet(xla="on"), 0.0),
    ]
    details = {"duration_s": None, "throughput_low": None, "throughput_high": None}
    fill(
        "results.db",
        shown,
        details=[
            details | {"started_at": NOON + timedelta(hours=index)} for index in range(len(shown))
        ],
    )
    fill("results.db", [(resnet(), None)], name="no time at all", details=[{"duration_s": 0.0}])
    with closing(sqlite3.connect("results.db")) as connection, connection:
        connection.execute("UPDATE measurements SET throughput_low = NULL, throughput_high = NULL")
    assert bool(drawn(name)) == (name in ("memory", "throughput"))


@CHARTS
def test_names_of_any_length_are_legible(name):
    others = ({}, {"batch_size": 64}, {"xla": "on"})
    shown = [
        resnet(index, num_gpus, model=LONG, **axes)
        for index in (10, 11)
        for num_gpus in (1, 2)
        for axes in others
    ]
    fill("results.db", [(spec, 100.0 + spec.num_gpus) for spec in shown], name="a sweep of " * 12)
    assert bool(drawn(name)) == (name != "history")
