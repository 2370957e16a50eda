"""A verdict is given where repeats allow one, and says why where they do not."""

import numpy as np
import pytest

from analysis.statistics.contradictions import contradiction
from analysis.statistics.judgement import Decision, judge
from analysis.statistics.sample import Sample
from scalemark.stats.welch import Relation, known_ratio_interval, relation, relation_by


@pytest.mark.parametrize(
    ("a", "b", "answer"),
    [
        ([100, 101, 99, 100.5], [80, 81, 79, 80.5], Decision.DIFFERENT),
        ([100, 104, 105, 106], [99, 99.5, 99.8, 100.5], Decision.DIFFERENT),
        ([100, 102, 99], [99, 101, 100], Decision.TIE),
        ([200], [100], Decision.UNKNOWN),
        ([200], [100, 101], Decision.UNKNOWN),
    ],
)
def test_the_interval_over_processes_decides(a, b, answer):
    assert judge(Sample.of(a), Sample.of(b)).answer is answer


@pytest.mark.parametrize(
    ("a", "b"),
    [([100, 101, 99], [97.2, 98.2, 96.2]), ([100, 101, 99], [97.6, 98.6, 96.6]), ([9], [8, 7])],
)
def test_all_who_judge_a_pair_say_the_same(a, b):
    pair = relation(a, b)
    assert (judge(Sample.of(a), Sample.of(b)).answer is Decision.DIFFERENT) == (
        pair in (Relation.MORE, Relation.LESS)
    )
    assert relation_by(*known_ratio_interval(a, b)) is pair
    assert relation(b, a) is {Relation.MORE: Relation.LESS}.get(pair, pair)


def test_repeats_that_contradict_each_other_are_no_tie():
    found = judge(Sample.of([100, 60, 101], "tokens/s"), Sample.of([99, 100, 98]))
    assert found.answer is Decision.UNKNOWN
    ((side, camps),) = found.contradictions
    assert (side, camps.words) == ("A", "60.0 against 100, 101 tokens/s")


def test_a_difference_that_outweighs_a_contradiction_stands():
    found = judge(Sample.of([1000, 1300, 1010]), Sample.of([10, 10.1, 9.9]))
    assert found.answer is Decision.DIFFERENT
    assert [label for label, _ in found.contradictions] == ["A"]


def test_camps_that_noise_within_a_process_explains_are_no_contradiction():
    random = np.random.default_rng(1)

    def side(noise):
        return Sample(
            throughput=(100.0, 88.0),
            durations_s=tuple(tuple(random.lognormal(-1, noise, 60).tolist()) for _ in range(2)),
            attempt_ids=(7, 5),
            unit="tokens/s",
        )

    assert contradiction(side(1.0)) is None
    found = contradiction(side(0.01))
    assert (found.slow, found.fast, found.attempt_ids) == ((88.0,), (100.0,), (5, 7))
    assert found.words.startswith(
        "88.0 against 100 tokens/s, where noise within a process explains 0."
    )


def test_repeats_a_few_percent_apart_are_no_contradiction():
    assert contradiction(Sample.of([100, 104, 97, 91])) is None
    assert contradiction(Sample.of([100.0])) is None
