"""A short form of the benchmark: judge beside keep-if-better, on proposals of which most change nothing."""

from benchmarks import judge


def score(rule: judge.Rule, kind: judge.Kind = judge.KINDS[0]) -> judge.Score:
    found = judge.Score()
    for seed in range(2):
        judge.play(kind, rule, seed, found, num_proposals=300)
    return found


def test_judge_finds_gains_without_false_wins_in_three_times_the_runs():
    ours, peer = score(judge.by_judge), score(judge.keep_if_better)
    assert ours.num_found >= 0.7 * ours.num_gaining
    assert ours.num_false == 0
    assert peer.num_false > peer.num_found, "what it is for"
    assert ours.num_runs <= 3.5 * peer.num_runs


def test_a_machine_that_drifts_makes_no_false_wins():
    (drifting,) = [kind for kind in judge.KINDS if kind.name == "steady drift"]
    assert score(judge.by_judge, drifting).num_false == 0


def test_no_broken_loss_wins_on_a_metric_that_falls():
    falling = judge.Score()
    judge.play(judge.FALLS, judge.by_metric_that_falls, 0, falling, num_proposals=300)
    assert (falling.num_false, falling.num_broken_wins) == (0, 0)
    assert falling.num_broken > 20
    assert falling.num_found >= 0.7 * falling.num_gaining > 20
