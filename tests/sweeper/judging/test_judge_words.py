"""Writes what is said about a proposal."""

from dataclasses import replace

from sweeper.judging.judge_words import MEANINGS, needs_text
from sweeper.judging.judging import Needs
from sweeper.judging.rule import ChangeVerdict
from sweeper.judging.run import Asked

ASKED = Asked(db="r.db", baseline="cc19", changes=("xla=on",), budget=20, margin=0.02, allowed=0.05)


def test_every_verdict_has_a_meaning():
    assert set(MEANINGS) == set(ChangeVerdict)


def test_what_a_verdict_needs_is_said_in_the_bounds_that_were_given():
    needs = Needs(attempts=14, seconds=630.0)
    assert needs_text(needs, ASKED, 20, 10) == (
        "needs: about 14 attempts more like these, 10 min; judge it again with --budget 34"
    )
    limited = replace(ASKED, budget=60, budget_s=300.0)
    assert needs_text(needs, limited, 7, 10) == (
        "needs: about 14 attempts more like these, 10 min; judge it again with --budget 60 "
        "--budget-min 16"
    )


def test_too_few_runs_tell_no_more_than_the_least_of_a_win():
    assert needs_text(Needs(attempts=None, seconds=90.0), ASKED, 1, 10) == (
        "needs: these runs do not tell how many more would decide; a win takes 10 attempts or more"
    )
