"""The short form of `benchmarks/verdicts.py`: verdicts on published figures, and on planted causes."""

from analysis.explain.causes import Bound
from benchmarks.explaining.boxes import CAUSES, COMMUNICATION, told
from benchmarks.explaining.figures_of_others import contradictions, figures, said_of_all
from benchmarks.verdicts import published


def test_no_published_verdict_is_sure_contradicted_or_without_evidence():
    rule, series, boxes = said_of_all(figures())
    for said in (series, boxes):
        assert (said.num_sure, said.num_without_evidence, said.num_contradicted) == (0, 0, 0)
    assert Bound.COMMUNICATION not in series.bounds
    assert Bound.COMMUNICATION in boxes.bounds
    assert rule.num_contradicted > 0
    assert f"| cannot tell | {rule.bounds.count(None)} | " in published([rule, series, boxes])


def test_contradicted_figures_are_those_that_another_shames():
    found = contradictions(figures())
    assert found
    assert all(one.efficiency is not None and one.num_gpus > 1 for one in found.values())


def test_planted_communication_is_found_and_no_other_cause_is_called_so():
    found = {cause: told(cause, num_models=7, num_boxes=6, seed=3) for cause in CAUSES}
    assert all(one.num >= 20 for one in found.values())
    for cause, one in found.items():
        share = one.num_communication / one.num
        assert share >= 0.9 if cause == COMMUNICATION else share <= 0.05, cause
        assert one.num_elsewise == 0
