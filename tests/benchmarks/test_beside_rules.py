"""A rule that is nearer than the program is told from one that is so by chance."""

import numpy as np

from analysis.calibration.layout import Floats
from benchmarks.beside_rules import difference


def median(errors: Floats) -> Floats:
    return np.median(errors, axis=-1)


def test_a_rule_that_is_always_nearer_has_a_difference_above_0() -> None:
    by_rule = np.linspace(0.01, 0.1, 30)
    low, high = difference(np.column_stack([by_rule + 0.02, by_rule]), median)
    assert 0 < low <= high < 0.06


def test_a_rule_that_is_nearer_in_half_of_the_figures_has_a_difference_that_may_be_0() -> None:
    program = np.linspace(0.01, 0.1, 30)
    low, high = difference(np.column_stack([program, program[::-1]]), median)
    assert low < 0 < high
