"""The short form of `benchmarks/verdicts.py`."""

from analysis.explain.causes import Bound
from benchmarks.explaining.figures_of_others import contradictions, figures, said_of_all
from benchmarks.verdicts import published


def test_no_published_verdict_is_sure_or_contradicted():
    rule, series, boxes = said_of_all(figures())
    for said in (series, boxes):
        assert (said.num_sure, said.num_contradicted) == (0, 0)
    assert Bound.COMMUNICATION not in series.bounds
    assert Bound.COMMUNICATION in boxes.bounds
    assert rule.num_contradicted > 0
    assert f"| cannot tell | {rule.bounds.count(None)} | " in published([rule, series, boxes])


def test_contradicted_figures_are_those_that_another_shames():
    found = contradictions(figures())
    assert found
    assert all(one.efficiency is not None and one.num_gpus > 1 for one in found.values())
