"""A verdict is given where repeats allow one, and says why where they do not."""

import math

import numpy as np
import pytest

from analysis.statistics.contradictions import contradiction
from analysis.statistics.judgement import Answer, judge
from analysis.statistics.ranks import ranks
from analysis.statistics.sample import Sample
from scalemark.stats.welch import Relation, known_ratio_interval, relation, relation_by


def alone(throughput, seed=1):
    durations = np.random.default_rng(seed).lognormal(math.log(64 / throughput), 0.02, 60)
    return Sample(throughput=(throughput,), durations_s=(tuple(durations.tolist()),))


def test_repeats_that_stand_apart_are_different(snapshot):
    found = judge(Sample.of([100, 101, 99, 100.5]), Sample.of([80, 81, 79, 80.5]))
    assert (found.answer, found.is_sure) == (Answer.DIFFERENT, True)
    assert found.why == snapshot


def test_repeats_that_overlap_are_a_tie(snapshot):
    found = judge(Sample.of([100, 102, 99]), Sample.of([99, 101, 100]))
    assert found.answer is Answer.TIE
    assert found.why == snapshot


def test_too_few_repeats_for_the_rank_test_are_judged_by_the_interval(snapshot):
    found = judge(Sample.of([100, 101, 99]), Sample.of([80, 81, 79]))
    assert found.answer is Answer.DIFFERENT
    assert found.why == snapshot


@pytest.mark.parametrize(("num", "least"), [(2, 1 / 3), (3, 0.1), (4, 2 / 70)])
def test_the_rank_test_knows_what_so_few_processes_can_reach(num, least):
    found = ranks(
        [float(10 + one) for one in range(num)], [float(one) for one in range(1, num + 1)]
    )
    assert found.least == pytest.approx(least)
    assert found.p == pytest.approx(least)
    assert found.can_answer == (num > 3)


def test_the_interval_decides_where_ranks_do_not_agree(snapshot):
    found = judge(Sample.of([100, 104, 105, 106]), Sample.of([99, 99.5, 99.8, 100.5]))
    assert found.answer is Answer.DIFFERENT
    assert not found.ranks.agrees
    assert found.why == snapshot


@pytest.mark.parametrize(
    ("a", "b"),
    [([100, 101, 99], [97.2, 98.2, 96.2]), ([100, 101, 99], [97.6, 98.6, 96.6]), ([9], [8, 7])],
)
def test_all_who_judge_a_pair_say_the_same(a, b):
    pair = relation(a, b)
    assert (judge(Sample.of(a), Sample.of(b)).answer is Answer.DIFFERENT) == (
        pair in (Relation.MORE, Relation.LESS)
    )
    assert relation_by(*known_ratio_interval(a, b)) is pair
    assert relation(b, a) is {Relation.MORE: Relation.LESS}.get(pair, pair)


def test_one_process_alone_is_never_a_verdict():
    found = judge(alone(200.0), alone(100.0, seed=2))
    assert (found.answer, found.is_sure, found.ranks) == (Answer.UNKNOWN, False, None)


def test_who_trusts_steps_gets_an_answer_that_is_not_sure(snapshot):
    found = judge(alone(200.0), alone(100.0, seed=2), trust_steps=True)
    assert (found.answer, found.is_sure) == (Answer.DIFFERENT, False)
    assert found.why == snapshot
    assert judge(alone(100.0), alone(100.0, seed=2), trust_steps=True).answer is Answer.TIE
    assert judge(Sample.of([200.0]), alone(100.0), trust_steps=True).answer is Answer.UNKNOWN


def test_repeats_that_contradict_each_other_are_no_tie():
    found = judge(Sample.of([100, 60, 101], "tokens/s"), Sample.of([99, 100, 98]))
    assert found.answer is Answer.UNKNOWN
    assert found.why == "the repeats of A contradict each other: 60.0 against 100, 101 tokens/s"


def test_a_difference_that_outweighs_a_contradiction_stands():
    found = judge(Sample.of([1000, 1300, 1010]), Sample.of([10, 10.1, 9.9]))
    assert found.answer is Answer.DIFFERENT
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
