"""Whatever waits, every task runs once on devices that exist, none waits for ever, and the devices are kept busy."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeper.devices.slots import Blocks
from sweeper.planning.simulate import remaining_s
from sweeper.running.schedule import PATIENCE, Queue, Running, Task

WIDTHS = (1, 2, 4, 8)


def gpus(*order: int) -> Blocks:
    return Blocks(order=order, aligned=True, most_at_once=len(order))


def cpu_devices(num: int, most_at_once: int) -> Blocks:
    return Blocks(order=tuple(range(num)), aligned=False, most_at_once=most_at_once)


EIGHT = gpus(*range(8))


def task(key: int, num_gpus: int = 1, expected_s: float | None = 10.0, round: int = 0) -> Task:  # noqa: A002  # named as the field
    return Task(key=key, num_gpus=num_gpus, expected_s=expected_s, round=round)


def queue(*tasks: Task, blocks: Blocks = EIGHT, seed: int = 1, packs: bool = True) -> Queue:
    return Queue(tasks, blocks=blocks, seed=seed, packs=packs)


def started(*devices: int, end_s: float | None, start_s: float = 0.0) -> Running:
    return Running(devices=devices, started_s=start_s, expected_end_s=end_s)


def drained(waiting: Queue) -> list[int]:
    """Keys in the order in which they start when there is room for everything."""
    keys = []
    while popped := waiting.pop(lambda _: True, [], 0.0):
        keys.append(popped.key)
    return keys


@dataclass(frozen=True, kw_only=True)
class Played:
    """One task that was played."""

    task: Task
    devices: tuple[int, ...]
    start_s: float
    end_s: float


def play(waiting: Queue, durations_s: Mapping[int, float], blocks: Blocks) -> list[Played]:
    """Run until nothing waits, on a clock of its own."""
    free, ends, now_s = set(blocks.order), [], 0.0
    played: list[Played] = []

    def fits(num_gpus: int) -> bool:
        return len(ends) < blocks.most_at_once and blocks.fits(num_gpus, free)

    while waiting or ends:
        while popped := waiting.pop(fits, [attempt for _, _, attempt in ends], now_s):
            devices = blocks.rooms(popped.num_gpus, free)[0][: popped.num_gpus]
            free.difference_update(devices)
            end_s = now_s + durations_s[popped.key]
            expected_s = popped.expected_s
            running = started(
                *devices, start_s=now_s, end_s=None if expected_s is None else now_s + expected_s
            )
            ends = sorted([*ends, (end_s, popped.key, running)], key=lambda end: end[:2])
            played.append(Played(task=popped, devices=devices, start_s=now_s, end_s=end_s))
        now_s, _, ended = ends.pop(0)
        free.update(ended.devices)
    return played


class Watched(Queue):
    """Notes every moment at which nothing was started although something that fits waited and nothing was reserved."""

    idled: list[float]

    def pop(
        self, fits: Callable[[int], bool], running: Sequence[Running], now_s: float
    ) -> Task | None:
        popped = super().pop(fits, running, now_s)
        if popped is None and self.reserved is None and any(fits(width) for width in self._lines):
            self.idled.append(now_s)
        return popped


@st.composite
def sweeps(draw: st.DrawFn) -> tuple[list[Task], dict[int, float], Blocks]:
    """Tasks with estimates that may be missing or wrong, their true durations, and what they are run on."""
    num_devices = draw(st.integers(1, 9))
    order = draw(st.permutations(range(num_devices)))
    blocks = Blocks(
        order=tuple(order),
        aligned=draw(st.booleans()),
        most_at_once=draw(st.integers(1, num_devices)),
    )
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
    return tasks, {key: duration_s for key, (_, _, duration_s, _) in enumerate(drawn)}, blocks


def devices_in_use(played: list[Played], now_s: float) -> list[int]:
    return [device for one in played if one.start_s <= now_s < one.end_s for device in one.devices]


@settings(deadline=None)
@given(sweeps(), st.integers(0, 3), st.booleans())
def test_every_task_runs_once_on_free_devices(sweep, seed, packs):
    tasks, durations_s, blocks = sweep
    played = play(queue(*tasks, blocks=blocks, seed=seed, packs=packs), durations_s, blocks)
    assert sorted(one.task.key for one in played) == [one.key for one in tasks]
    for now_s in {one.start_s for one in played}:
        in_use = devices_in_use(played, now_s)
        assert len(in_use) == len(set(in_use))
        assert set(in_use) <= set(blocks.order)
        assert sum(one.start_s <= now_s < one.end_s for one in played) <= (
            blocks.most_at_once if packs else 1
        )


@settings(deadline=None)
@given(sweeps(), st.integers(0, 3))
def test_nothing_that_fits_waits_unless_devices_are_reserved(sweep, seed):
    tasks, durations_s, blocks = sweep
    waiting = Watched(tasks, blocks=blocks, seed=seed, packs=True)
    waiting.idled = []
    play(waiting, durations_s, blocks)
    assert waiting.idled == []


@settings(deadline=None)
@given(sweeps(), st.integers(0, 3), st.booleans())
def test_the_same_seed_gives_the_same_order_however_the_tasks_are_listed(sweep, seed, packs):
    tasks, _, blocks = sweep
    shuffled = random.Random(seed).sample(tasks, len(tasks))
    orders = [
        drained(queue(*listed, blocks=blocks, seed=seed, packs=packs))
        for listed in (tasks, shuffled)
    ]
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
    while chosen := waiting.pop(lambda width: width < 8, [], 0.0):
        popped.append(chosen.key)
    assert popped == [2, 3]
    assert drained(waiting) == [1]


def test_exclusive_tasks_start_only_when_nothing_runs():
    waiting = queue(task(1), packs=False)
    assert waiting.pop(lambda _: True, [started(0, end_s=5)], 0.0) is None
    assert waiting.pop(lambda _: True, [], 0.0) == task(1)


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
    assert waiting.pop(lambda width: width < 8, [started(0, end_s=9)], 0.0) == task(
        2, 1, 5, round=1
    )


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
        popped = [waiting.pop(lambda _: True, [], 0.0) for _ in range(4 if puts_back else 0)]
        for one in popped:
            waiting.put_back(one)
        orders.append(drained(waiting))
    assert orders[0] == orders[1]
    assert set(orders[1][2:4]) == {8, 9}
    assert not packs or orders[1][2:4] == [9, 8]
    with pytest.raises(KeyError):
        queue(*tasks).put_back(task(7))


def test_what_is_put_back_comes_before_retries():
    waiting = queue(task(1, 8, 20), task(2, 1, 50), task(3, 1, 40))
    popped = pop_beside_one(waiting, 0.0, 10.0)
    waiting.push(task(9, 1, 1))
    waiting.put_back(popped)
    assert pop_beside_one(waiting, 0.0, 10.0) == popped == task(2, 1, 50)
    assert pop_beside_one(waiting, 1e4, 1e4 + 10) == task(3, 1, 40)
    assert waiting.reserved is None, "both were before it"


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


def test_a_task_that_can_never_fit_and_one_that_waits_already_are_refused():
    with pytest.raises(ValueError, match="repeat 7 wants 9 devices; there are 8"):
        queue(task(7, 9))
    with pytest.raises(ValueError, match="repeat 7 waits already"):
        queue(task(7), task(7))


def pop_beside_one(waiting: Queue, now_s: float, end_s: float) -> Task | None:
    """With 4 to 7 of 8 devices free, and one held since 10 s ago until `end_s`."""
    return waiting.pop(
        lambda width: width <= 4, [started(7, start_s=now_s - 10, end_s=end_s)], now_s
    )


def test_a_wide_task_that_is_overtaken_for_too_long_is_reserved():
    waiting = queue(
        task(1, 8, 200), *(task(key, 1, 150) for key in range(2, 6)), task(6, 1, 90), task(7, 1, 80)
    )
    waits_s = PATIENCE * 200
    assert pop_beside_one(waiting, 0.0, 100.0).num_gpus == 1  # from now on it is overtaken
    assert pop_beside_one(waiting, waits_s, waits_s + 100).expected_s == 150
    assert waiting.reserved is None
    now_s = waits_s + 1
    assert pop_beside_one(waiting, now_s, now_s + 100) is None, "nothing else starts until it does"
    assert waiting.reserved.key == 1
    assert waiting.pop(lambda _: True, [], now_s + 150) == task(1, 8, 200)
    assert waiting.reserved is None


def test_a_task_is_not_overtaken_by_those_whose_turn_is_before_its_own():
    waiting = queue(task(1, 8, 20), *(task(key, 1, 150) for key in range(2, 6)))
    for now_s in (0.0, 1e3, 1e4, 1e5):
        assert pop_beside_one(waiting, now_s, now_s + 100).num_gpus == 1
    assert waiting.reserved is None


def test_nothing_is_kept_free_for_a_task_whose_devices_another_sweep_has():
    waiting = queue(task(1, 8, 20), *(task(key, 1, 10) for key in range(2, 6)))
    pop_beside_one(waiting, 0.0, 10.0)
    pop_beside_one(waiting, 1e4, 1e4 + 10)
    assert waiting.reserved
    assert waiting.pop(lambda width: width == 1, [], 1e5).num_gpus == 1
    assert waiting.reserved is None
    assert waiting.pop(lambda width: width == 1, [], 1e6).num_gpus == 1, "nor is it reserved anew"


def test_a_task_that_fits_is_not_overtaken_by_a_retry_of_an_earlier_round():
    waiting = queue(task(1, 4, 20, round=1), *(task(key, 1, 5, round=2) for key in range(2, 6)))
    waiting.push(task(9, 1, 10))
    assert waiting.pop(lambda _: True, [], 0.0) == task(9, 1, 10)
    assert waiting.pop(lambda width: width == 1, [], 1e4).num_gpus == 1
    assert waiting.reserved is None


@pytest.mark.integration
@settings(deadline=None)
@given(
    st.sampled_from([2, 4, 8]),
    st.one_of(st.none(), st.floats(1, 40)),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_no_wide_task_starves_while_narrow_ones_keep_arriving(width, expected_s, known, rng):
    """Each narrow one that starts is followed by a new one of its round or an earlier; they take 1 to 20 s."""
    waiting = queue(
        task(0, width, expected_s, round=1),
        *(task(key, 1, 20 if known else None) for key in range(1, 9)),
    )
    free, ends, now_s, num_arrived = set(range(8)), [], 0.0, 9

    def fits(num_gpus: int) -> bool:
        return EIGHT.fits(num_gpus, free)

    while True:
        while popped := waiting.pop(fits, [attempt for _, _, attempt in ends], now_s):
            if popped.key == 0:
                return
            end_s = now_s + rng.uniform(1, 20)
            devices = EIGHT.rooms(1, free)[0][:1]
            free.difference_update(devices)
            running = Running(
                devices=devices, started_s=now_s, expected_end_s=now_s + 20 if known else None
            )
            ends = sorted([*ends, (end_s, popped.key, running)], key=lambda end: end[:2])
            waiting.push(
                task(
                    num_arrived, 1, rng.uniform(1, 20) if known else None, round=rng.choice((0, 1))
                )
            )
            num_arrived += 1
        now_s, _, ended = ends.pop(0)
        free.update(ended.devices)
        assert now_s < 1000, f"{width} devices were never free at once"


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
        assert efficiency(play(queue(*tasks, seed=seed), durations_s, EIGHT), 8) >= 0.85


def test_the_remaining_time_counts_all_that_runs_and_waits():
    two_devices = {"blocks": gpus(0, 1), "seed": 1, "packs": True}
    assert remaining_s([], **two_devices) == 0
    assert remaining_s([task(1, 1, None)], **two_devices) is None
    assert remaining_s([task(1, 1, 10), task(2, 1, None), task(3, 2, 5)], **two_devices) == 10 + 5
    assert (
        remaining_s([task(1, 1, 10)], **two_devices, running=[started(0, 1, end_s=30)], now_s=25.0)
        == 5 + 10
    )
    assert (
        remaining_s([task(1, 1, 10)], **two_devices, running=[started(0, 1, end_s=20)], now_s=25.0)
        == 10
    ), "overdue"
    assert remaining_s([], **two_devices, running=[started(0, end_s=30)], now_s=25.0) == 5
    assert (
        remaining_s([task(1, 1, 10), task(2, 1, 20)], blocks=gpus(0, 1), seed=1, packs=False) == 30
    )


def test_the_remaining_time_knows_how_many_may_run_at_once():
    tasks = [task(key, 1, 60) for key in range(16)]
    assert remaining_s(tasks, blocks=cpu_devices(16, 16), seed=1, packs=True) == 60
    assert remaining_s(tasks, blocks=cpu_devices(16, 2), seed=1, packs=True) == 480
    running = [started(0, end_s=30)]
    assert (
        remaining_s(tasks[:1], blocks=cpu_devices(16, 1), seed=1, packs=True, running=running) == 90
    )


def test_what_can_never_start_has_no_remaining_time():
    with pytest.raises(ValueError, match="1 tasks wait for devices that nobody holds"):
        remaining_s(
            [task(1, 4)],
            blocks=Blocks(order=(0, 1, 2, 3), aligned=False, most_at_once=0),
            seed=1,
            packs=True,
        )
