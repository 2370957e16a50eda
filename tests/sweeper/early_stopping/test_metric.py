"""Limits of other metrics are read as they were meant, or refused with what was wanted."""

import pytest

from sweeper import SweepRefusedError
from sweeper.early_stopping.metric import Metric, parse_kept
from sweeper.early_stopping.rule import KeptMetric


@pytest.mark.parametrize(
    ("text", "name", "limit"),
    [("loss=0.5%", "loss", 0.005), ("eval/acc=-1 %", "eval/acc", -0.01), ("a=b=2%", "a=b", 0.02)],
)
def test_a_limit_is_a_name_and_a_percentage(text, name, limit):
    assert parse_kept(text) == KeptMetric(name=name, limit=limit)


@pytest.mark.parametrize(
    "text",
    [
        "loss",
        "loss=0.5",
        "loss=%",
        "=1%",
        "loss=0%",
        "loss=-100%",
        "loss=nan%",
        "loss=inf%",
        "loss=half%",
        "",
    ],
)
def test_a_bad_limit_is_refused_with_what_was_wanted(text):
    with pytest.raises(SweepRefusedError, match=r"^--keep .*: wanted NAME=PERCENT, as loss=0\.5%"):
        parse_kept(text)


def test_a_metric_that_falls_by_a_share_is_better_by_it():
    metric = Metric(name="loss", lower=True)
    (before, after) = metric.speeds([1.0, 0.98])
    assert metric.percent(after / before - 1) == pytest.approx(2.0)
    assert metric.gain(0.02) == pytest.approx(after / before - 1)
    assert Metric().percent(0.02) == 2.0
