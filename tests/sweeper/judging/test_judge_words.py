"""Writes what is said about a proposal."""

import pytest

from sweeper.judging.answer import Answer
from sweeper.judging.judge_words import MEANINGS, needs_text
from sweeper.judging.rule import ChangeVerdict


def answer(**facts) -> Answer:
    planned = {
        "baseline": "cc19",
        "change": "ab12",
        "baseline_expected_s": None,
        "change_expected_s": None,
        "changes": ("xla=on",),
        "budget": 20,
        "budget_s": None,
        "least_attempts": 10,
        "margin_percent": 2.0,
        "earlier_throughputs": (),
        "series": "",
        "number": 1,
        "wins_before": 0,
        "false_wins_percent": 5.0,
        "level": 0.001,
        "other_work": (),
        "sweep": "judge-1",
    }
    return Answer(**(planned | facts))


def test_every_verdict_has_a_meaning():
    assert set(MEANINGS) == set(ChangeVerdict)


MORE = "needs: about 14 attempts more like these, 10 min; judge it again with"


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"attempts": 20, "needed_attempts": 14, "needed_s": 630.0}, f"{MORE} --budget 34"),
        (
            {
                "attempts": 7,
                "needed_attempts": 14,
                "needed_s": 630.0,
                "budget": 60,
                "budget_s": 300.0,
            },
            f"{MORE} --budget 60 --budget-min 16",
        ),
        (
            {"attempts": 1, "needed_s": 90.0},
            "needs: these runs do not tell how many more would decide; a win takes 10 attempts or more",
        ),
    ],
)
def test_what_a_verdict_needs_is_said_in_the_bounds_that_were_given(facts, text):
    assert needs_text(answer(**facts)) == text
