"""A row of results as one character each."""

import math
from dataclasses import replace

import pytest

from analysis.results import Result
from analysis.selection import Selection, load
from plots.tables.layout import SYMBOLS
from plots.watch.sparkline import legend, scale, sparkline
from scalemark.records.outcomes import Outcome
from tests.filled import fill
from tests.specs import small


@pytest.fixture
def result() -> Result:
    fill("r.db", [(small(), 100.0)])
    (found,) = load(Selection(db="r.db"))
    return found


def of(result: Result, *numbers: float | None) -> list[Result]:
    return [
        replace(
            result,
            images_per_second=number,
            outcome="completed" if number is not None else "failed",
        )
        for number in numbers
    ]


def test_blocks_are_as_high_as_their_numbers_and_the_most_is_full(result):
    row = of(result, 0.0, 1.0, 100.0, 101.0, 400.0, 799.0, 800.0)
    assert sparkline(row, scale(row)) == "▁▁▁▂▄██"
    assert sparkline(row, scale(row), ascii_only=True) == "1112488"


def test_rows_of_a_table_have_one_scale(result):
    assert sparkline(of(result, 50.0, 100.0), 800.0) == "▁▁"


def test_failures_are_letters_of_their_own_and_what_was_not_run_is_a_dot(result):
    failed = [replace(result, images_per_second=None, outcome=outcome) for outcome in SYMBOLS]
    assert sparkline([None, *failed], 800.0) == "·OHTUFSI"
    assert len(set(sparkline(failed, 800.0))) == len(SYMBOLS) == len(Outcome) - 1
    assert (
        legend([None, *failed[:2]]) == "█ the most images/s of the table, O OOM, H HANG, · not run"
    )
    assert legend([result], ascii_only=True) == "8 the most images/s of the table"


def test_what_is_no_number_does_no_harm(result):
    row = of(result, math.nan, math.inf, 0.0)
    assert scale(row) == 0.0
    assert sparkline(row, scale(row)) == "??▁"
    assert scale([]) == 0.0
