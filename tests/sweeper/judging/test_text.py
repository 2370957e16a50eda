"""Writes what is said about a proposal."""

from sweeper.judging.rule import ChangeVerdict
from sweeper.judging.text import MEANINGS


def test_every_verdict_has_a_meaning():
    assert set(MEANINGS) == set(ChangeVerdict)
