"""Whatever waits, every task runs once on devices that exist, and the devices are kept busy."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeper.loop.backlog import Queue, Task

WIDTHS = (1, 2, 4, 8)


def task(key: int, num_gpus: int = 1, expected_s: float | None = 10.0, round: int = 0) -> Task:  # noqa: A002  # named as the field
    return Task(key=key, num_gpus=num_gpus, expected_s=expected_s, round=round)


def queue(*tasks: Task, seed: int = 1, packs: bool = True) -> Queue:
    return Queue(tasks, seed=seed, packs=packs)


def drained(waiting: Queue) -> list[int]:
    """Keys in the order in which they start when there is room for everything."""
    keys = []
    while popped := waiting.pop(lambda _: True, is_idle=True):
        keys.append(popped.key)
    return keys


@dataclass(frozen=True, kw_only=True)
class Played:
    """One task that was played."""

    task: Task
    devices: tuple[int, ...]
    start_s: float
    end_s: float


def play(
    waiting: Queue, durations_s: Mapping[int, float], num_devices: int, most_at_once: int
) -> list[Played]:
    """Run until nothing waits, on a clock of its own."""
    free, ends, now_s = set(range(num_devices)), [], 0.0
    played: list[Played] = []

    def fits(num_gpus: int) -> bool:
        return len(ends) < most_at_once and len(free) >= num_gpus

    while waiting or ends:
        while popped := waiting.pop(fits, is_idle=not ends):
            devices = tuple(sorted(free)[: popped.num_gpus])
            free.difference_update(devices)
            end_s = now_s + durations_s[popped.key]
            ends = sorted([*ends, (end_s, popped.key, devices)])
            played.append(Played(task=popped, devices=devices, start_s=now_s, end_s=end_s))
        now_s, _, freed = ends.pop(0)
        free.update(freed)
    return played


class Watched(Queue):
    """Notes how often nothing was started although something that fits waited."""

    num_idled = 0

    def pop(self, fits: Callable[[int], bool], *, is_idle: bool) -> Task | None:
        popped = super().pop(fits, is_idle=is_idle)
        if popped is None and any(fits(task.num_gpus) for task in self.tasks()):
            self.num_idled += 1
        return popped


@st.composite
def sweeps(draw: st.DrawFn) -> tuple[list[Task], dict[int, float], int, int]:
    """Tasks with estimates that may be missing or wrong, their true durations, and what they are run on."""
    num_devices = draw(st.integers(1, 9))
    most_at_once = draw(st.integers(1, num_devices))
    drawn = draw(
        st.lists(
            st.tuples(
                st.integers(1, num_devices),
                st.integers(0, 2),
                st.floats(0.1, 100),
                st.one_of(st.none(), st.floats(0.1, 9.0)),
            ),
            max_size=40,
        )
    )
    tasks = [
        task(key, width, None if error is None else duration_s * error, round_)
        for key, (width, round_, duration_s, error) in enumerate(drawn)
    ]
    durations_s = {key: duration_s for key, (_, _, duration_s, _) in enumerate(drawn)}
    return tasks, durations_s, num_devices, most_at_once


def devices_in_use(played: list[Played], now_s: float) -> list[int]:
    return [device for one in played if one.start_s <= now_s < one.end_s for device in one.devices]


@settings(deadline=None)
@given(sweeps(), st.integers(0, 3), st.booleans())
def test_every_task_runs_once_on_free_devices(sweep, seed, packs):
    tasks, durations_s, num_devices, most_at_once = sweep
    waiting = queue(*tasks, seed=seed, packs=packs)
    played = play(waiting, durations_s, num_devices, most_at_once)
    assert sorted(one.task.key for one in played) == [one.key for one in tasks]
    for now_s in {one.start_s for one in played}:
        in_use = devices_in_use(played, now_s)
        assert len(in_use) == len(set(in_use))
        assert set(in_use) <= set(range(num_devices))
        assert sum(one.start_s <= now_s < one.end_s for one in played) <= (
            most_at_once if packs else 1
        )


@settings(deadline=None)
@given(sweeps(), st.integers(0, 3))
def test_nothing_that_fits_waits(sweep, seed):
    tasks, durations_s, num_devices, most_at_once = sweep
    waiting = Watched(tasks, seed=seed, packs=True)
    play(waiting, durations_s, num_devices, most_at_once)
    assert waiting.num_idled == 0


@settings(deadline=None)
@given(sweeps(), st.integers(0, 3), st.booleans())
def test_the_same_seed_gives_the_same_order_however_the_tasks_are_listed(sweep, seed, packs):
    tasks, *_ = sweep
    shuffled = random.Random(seed).sample(tasks, len(tasks))
    orders = [drained(queue(*listed, seed=seed, packs=packs)) for listed in (tasks, shuffled)]
    assert orders[0] == orders[1]


def test_each_exclusive_round_has_an_order_of_its_own():
    keys = drained(
        queue(
            *(
                task(100 * round_ + trial, round=round_)
                for round_ in range(3)
                for trial in range(20)
            ),
            packs=False,
        )
    )
    rounds = [[key % 100 for key in keys[first : first + 20]] for first in (0, 20, 40)]
    assert [key // 100 for key in keys] == [0] * 20 + [1] * 20 + [2] * 20
    assert all(sorted(order) == list(range(20)) for order in rounds)
    assert len({tuple(order) for order in [*rounds, list(range(20))]}) == 4


def test_an_interrupted_sweep_goes_on_in_the_order_it_began_with():
    tasks = [task(key) for key in range(20)]
    order = drained(queue(*tasks, packs=False))
    assert (
        drained(queue(*(one for one in tasks if one.key not in order[:7]), packs=False))
        == order[7:]
    )


def test_an_exclusive_task_that_cannot_fit_now_is_passed_over():
    tasks = [task(1, 8), task(2, 2), task(3, 1, round=1)]
    waiting = queue(*tasks, packs=False)
    popped = []
    while chosen := waiting.pop(lambda width: width < 8, is_idle=True):
        popped.append(chosen.key)
    assert popped == [2, 3]
    assert drained(waiting) == [1]


def test_exclusive_tasks_start_only_when_nothing_runs():
    waiting = queue(task(1), packs=False)
    assert waiting.pop(lambda _: True, is_idle=False) is None
    assert waiting.pop(lambda _: True, is_idle=True) == task(1)


def test_packed_tasks_go_by_round_then_the_unknown_then_the_longest():
    tasks = [
        task(1, 1, 5),
        task(2, 1, 50),
        task(3, 1, None),
        task(4, 1, 99, round=1),
        task(5, 2, 20),
    ]
    assert drained(queue(*tasks)) == [3, 2, 5, 1, 4]


def test_what_fits_is_started_before_what_does_not_even_from_a_later_round():
    waiting = queue(task(1, 8, 50), task(2, 1, 5, round=1))
    assert waiting.pop(lambda width: width < 8, is_idle=False) == task(2, 1, 5, round=1)


@pytest.mark.parametrize("packs", [False, True])
def test_a_retry_comes_at_the_end_of_its_round(packs):
    waiting = queue(task(1), task(2), task(3, round=1), packs=packs)
    waiting.push(task(9, expected_s=99))
    assert drained(waiting)[2:] == [9, 3]


@pytest.mark.parametrize("packs", [False, True])
def test_what_is_put_back_waits_at_its_old_place(packs):
    tasks = [task(1), task(2), task(3, round=1)]
    orders = []
    for puts_back in (False, True):
        waiting = queue(*tasks, packs=packs)
        waiting.push(task(9, expected_s=99))
        waiting.push(task(8, expected_s=1))
        popped = [waiting.pop(lambda _: True, is_idle=True) for _ in range(4 if puts_back else 0)]
        for one in popped:
            waiting.put_back(one)
        orders.append(drained(waiting))
    assert orders[0] == orders[1]
    assert set(orders[1][2:4]) == {8, 9}
    assert not packs or orders[1][2:4] == [9, 8]


@pytest.mark.parametrize("packs", [False, True])
def test_what_is_learned_of_a_trial_moves_its_other_repeats(packs):
    tasks = [
        task(1, 1, None),
        task(2, 1, 50),
        task(3, 2, 20),
        task(4, 2, None),
        task(5, 1, None, round=1),
    ]
    waiting = queue(*tasks, packs=packs)
    before = drained(queue(*tasks, packs=packs))
    waiting.expect([1, 5, 77], 30)
    assert sorted(waiting.tasks(), key=lambda one: one.key)[::4] == [
        task(1, 1, 30.0),
        task(5, 1, 30.0, round=1),
    ]
    assert drained(waiting) == ([4, 2, 1, 3, 5] if packs else before)


def test_a_removed_task_does_not_start():
    waiting = queue(task(1), task(2, 2))
    waiting.remove(2)
    assert len(waiting) == 1
    assert drained(waiting) == [1]
    with pytest.raises(KeyError):
        waiting.remove(2)


def efficiency(played: list[Played], num_devices: int) -> float:
    """Lower bound of the makespan / makespan."""
    work_s = sum((one.end_s - one.start_s) * one.task.num_gpus for one in played)
    longest_s = max(one.end_s - one.start_s for one in played)
    return max(work_s / num_devices, longest_s) / max(one.end_s for one in played)


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize(
    "length_s",
    [
        lambda rng, width: rng.uniform(10, 100),
        lambda rng, width: rng.lognormvariate(3.5, 0.8),
        lambda rng, width: rng.uniform(10, 100) * width,
        lambda rng, width: rng.uniform(10, 100) / width,
    ],
    ids=["uniform", "lognormal", "proportional_to_width", "inverse_to_width"],
)
def test_mixed_trials_take_at_most_15_percent_longer_than_they_must(length_s, noise):
    for seed in range(4):
        rng = random.Random(seed)
        widths = [rng.choice(WIDTHS) for _ in range(200)]
        durations_s = {key: length_s(rng, width) for key, width in enumerate(widths)}
        tasks = [
            task(key, width, durations_s[key] * rng.lognormvariate(0, noise))
            for key, width in enumerate(widths)
        ]
        assert efficiency(play(queue(*tasks, seed=seed), durations_s, 8, 8), 8) >= 0.85
