"""A race: the clearly slower are out early, those that could still lead run on, and a tie is reported as one."""

import pytest

from scalemark.stats.welch import Spread, known_ratio_interval
from sweeper.race.judge import Contender, Ruling, judge

NONE = Spread()
QUIET = Spread(
    squares=60 * 0.01**2, freedom=60
)  # other races have shown that processes differ by 1 %


def race(
    most_repeats: int = 5,
    spread: Spread = NONE,
    failures: dict[str, str] | None = None,
    **speeds: list[float],
) -> Ruling:
    """Of contenders by their names, each with all its other repeats still to come; `spread` is that of other races."""
    contenders = [
        Contender(
            trial_id=name,
            name=name,
            speeds=tuple(measured),
            num_left=max(0, most_repeats - len(measured)),
            failure=(failures or {}).get(name, ""),
        )
        for name, measured in speeds.items()
    ]
    total = Spread.sum([spread, *(Spread.of(measured) for measured in speeds.values())])
    return judge(contenders, total, most_repeats)


def test_nothing_is_judged_before_all_have_run_once():
    ruling = race(a=[100.0], b=[10.0], c=[])
    assert (ruling.out, ruling.wanted) == ({}, {"a": 4, "b": 4, "c": 5})


def test_a_wide_gap_decides_after_one_repeat_and_a_narrow_one_does_not():
    ruling = race(a=[100.0], b=[60.0], c=[90.0])
    assert ruling.out == {
        "b": "race: 40.0 % behind a (at least 28.4 %) after 1 repeat; the others would hardly make it lead",
    }
    assert ruling.wanted == {"a": 4, "b": 0, "c": 4}


def test_where_processes_are_alike_a_narrow_gap_decides():
    assert race(a=[100.0], b=[60.0], c=[90.0], spread=QUIET).out.keys() == {"b", "c"}


def test_the_one_that_is_left_runs_twice_so_that_it_has_an_interval():
    ruling = race(a=[100.0], b=[40.0], spread=QUIET)
    assert (ruling.leader, ruling.wanted, ruling.is_over) == ("a", {"a": 1, "b": 0}, False)
    ruling = race(a=[100.0, 101.0], b=[40.0], spread=QUIET)
    assert (ruling.leader, ruling.tied, ruling.is_over) == ("a", (), True)


def test_close_ones_run_all_repeats_and_are_reported_as_a_tie():
    close = {"a": [100.0, 102.0, 99.0, 101.0, 100.0], "b": [101.0, 99.0, 100.0, 102.0, 99.0]}
    for num in range(1, 5):
        assert race(**{name: speeds[:num] for name, speeds in close.items()}).wanted == {
            "a": 5 - num,
            "b": 5 - num,
        }
    ruling = race(**close)
    assert (ruling.leader, ruling.tied, ruling.is_over) == ("a", ("b",), True)


def test_all_can_tie():
    ruling = race(most_repeats=2, a=[100.0, 100.0], b=[100.0, 100.0], c=[100.0, 100.0])
    assert (ruling.tied, ruling.out, ruling.is_over) == (("b", "c"), {}, True)


def test_who_could_hardly_lead_is_out_though_it_may_be_chance():
    steady = {"a": [100.0, 101.0, 100.5, 100.4], "b": [98.9, 99.7, 99.2, 99.3]}
    noisy = Spread(squares=60 * 0.012**2, freedom=60)
    assert race(spread=noisy, **{name: speeds[:2] for name, speeds in steady.items()}).out == {}
    ruling = race(spread=noisy, **steady)
    assert (
        ruling.out["b"]
        == "race: 1.2 % behind a (which may be chance) after 4 repeats; the others would hardly make it lead"
    )
    assert ruling.tied == ()


def test_who_was_put_out_is_no_tie_whatever_its_interval():
    speeds = {"a": [1101.0, 1105.0], "b": [990.0, 1050.0]}
    ruling = race(spread=QUIET, **speeds)
    low, _ = known_ratio_interval(speeds["a"], speeds["b"])
    assert low is not None
    assert low < 1
    assert (ruling.out.keys(), ruling.tied) == ({"b"}, ())


def test_a_tie_is_what_tables_mark_as_one():
    speeds = {
        "a": [103.0, 104.0, 102.0],
        "b": [102.5, 103.5, 101.0],
        "c": [100.1, 100.0, 100.2],
        "d": [101.5],
    }
    ruling = race(most_repeats=3, spread=Spread(squares=60 * 0.05**2, freedom=60), **speeds)
    assert (ruling.leader, ruling.out) == ("a", {})
    marked = [
        name for name in "bcd" if (known_ratio_interval(speeds["a"], speeds[name])[0] or 2) <= 1
    ]
    assert list(ruling.tied) == marked == ["b"]


def test_who_failed_before_completing_anything_is_out():
    ruling = race(a=[100.0], b=[99.0], c=[], failures={"c": "out_of_memory"})
    assert (ruling.out, ruling.wanted) == (
        {"c": "race: it ended as out_of_memory"},
        {"a": 4, "b": 4, "c": 0},
    )


def test_who_failed_later_stays_with_what_it_has():
    ruling = race(a=[100.0, 101.0], b=[99.0], failures={"b": "failed"})
    assert (ruling.out, ruling.wanted["b"]) == ({}, 4)


@pytest.mark.parametrize("num", [2, 3, 4, 5])
def test_a_leader_that_alone_was_repeated_is_not_compared_with_itself(num):
    """Its degrees of freedom counted twice, and of 4 repeats nothing was left to divide by."""
    leader = [100.0, 102.0, 101.0, 100.0, 103.0][:num]
    ruling = race(most_repeats=10, a=leader, b=[99.0])
    assert (ruling.leader, ruling.out, ruling.wanted) == ("a", {}, {"a": 10 - num, "b": 9})
    assert race(most_repeats=10, a=leader, b=[50.0]).out.keys() == {"b"}


def test_a_leader_without_repeats_to_come_is_still_compared_with():
    contenders = [
        Contender(trial_id="a", name="a", speeds=(100.0,), num_left=0, failure="failed"),
        Contender(trial_id="b", name="b", speeds=(50.0, 50.5), num_left=3),
        Contender(trial_id="c", name="c", speeds=(99.0, 100.0), num_left=3),
    ]
    ruling = judge(contenders, QUIET, 5)
    assert ruling.out.keys() == {"b"}
    assert ruling.wanted == {"a": 0, "b": 0, "c": 3}


def test_where_all_others_failed_the_one_that_is_left_leads():
    ruling = race(a=[100.0], b=[], c=[], failures={"b": "failed", "c": "hung"})
    assert (ruling.leader, ruling.wanted) == ("a", {"a": 1, "b": 0, "c": 0})


def test_where_all_failed_nobody_leads():
    ruling = race(a=[], b=[], failures={"a": "failed", "b": "hung"})
    assert (ruling.leader, ruling.tied, ruling.is_over) == (None, (), True)


def test_more_repeats_than_asked_for_are_no_harm():
    ruling = race(most_repeats=2, a=[100.0, 101.0, 99.0, 100.0], b=[100.5])
    assert (ruling.wanted, ruling.leader) == ({"a": 0, "b": 1}, "b")


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_units_do_not_matter(factor):
    plain = race(a=[100.0, 101.0], b=[90.0, 91.0], c=[99.0, 100.0])
    scaled = race(
        a=[100.0 * factor, 101.0 * factor],
        b=[90.0 * factor, 91.0 * factor],
        c=[99.0 * factor, 100.0 * factor],
    )
    assert plain.wanted == scaled.wanted
