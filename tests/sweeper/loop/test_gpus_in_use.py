"""GPUs that other programs use are not given to trials, which wait for them where they must."""

import pytest

from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import State, Verdict
from sweeper.devices.host_lock import Lock
from sweeper.devices.machine import Inventory
from sweeper.devices.slots import DeviceSlots
from sweeper.loop.dispatch import Rooms
from tests.specs import gpu, small
from tests.sweeper.fake_nvml import FakeDriver, FakeGpu
from tests.sweeper.loop.fakes import NO_PROCESS, Loop, Script

FOUR = Inventory(
    kind=DeviceKind.GPU,
    gpus=tuple(gpu(f"GPU-{number}") for number in range(4)),
    num_devices=4,
)
WAITING = f"waiting: GPU 1 (pid {NO_PROCESS}) is in use by others"
PACKED = {"share_host": True}


@pytest.fixture
def box(monkeypatch):
    found = [FakeGpu(f"GPU-{number}") for number in range(4)]
    FakeDriver(found).install(monkeypatch)
    return found


def take(gpu: FakeGpu) -> None:
    gpu.computing = {NO_PROCESS: 900}


def release(gpu: FakeGpu) -> None:
    gpu.computing = {}


def trial(num_gpus: int, seed: int = 0):
    return small(seed=seed, num_gpus=num_gpus, device_kind="gpu")


def devices(loop: Loop) -> list[tuple[int, ...]]:
    """Those of each attempt, in the order of their ends."""
    return [attempt.placement.devices for attempt in loop.ledger.finished]


@pytest.mark.parametrize("launcher", [{}, PACKED])
def test_trials_run_on_the_gpus_that_are_free(stack, box, launcher):
    take(box[0])
    take(box[2])
    specs = [trial(2, seed=1), trial(1, seed=2), trial(1, seed=3)]
    loop = Loop(stack, specs, inventory=FOUR, launcher=launcher)
    assert loop.run() == {State.COMPLETED: 3}
    assert {device for used in devices(loop) for device in used} == {1, 3}
    assert loop.notes.texts == []


@pytest.mark.parametrize("launcher", [{}, PACKED])
def test_a_wide_trial_waits_while_narrow_ones_run(stack, box, launcher):
    take(box[1])
    specs = [trial(4, seed=1), trial(3, seed=2), trial(1, seed=3)]
    loop = Loop(stack, specs, inventory=FOUR, launcher=launcher)
    loop.at[100.0] = lambda: release(box[1])
    assert loop.run() == {State.COMPLETED: 3}
    assert loop.start.order[-1] == 1
    assert 110.0 <= loop.clock.now_s < 112.0
    assert loop.notes.texts == [WAITING]


@pytest.mark.parametrize("launcher", [{}, PACKED])
def test_a_gpu_taken_meanwhile_is_not_given_out_until_it_is_free(stack, box, launcher):
    loop = Loop(
        stack, [trial(4, seed=seed) for seed in range(3)], inventory=FOUR, launcher=launcher
    )
    loop.at[5.0] = lambda: take(box[1])
    loop.at[60.0] = lambda: release(box[1])
    assert loop.run() == {State.COMPLETED: 3}
    assert 80.0 <= loop.clock.now_s < 82.0, "one before it was taken, two after"
    assert loop.notes.texts == [WAITING]


def test_a_gpu_released_between_two_trials_is_used_by_the_next(stack, box):
    take(box[1])
    specs = [trial(1, seed=1), trial(1, seed=2), trial(4, seed=3)]
    loop = Loop(stack, specs, inventory=FOUR)
    loop.at[15.0] = lambda: release(box[1])
    assert loop.run() == {State.COMPLETED: 3}
    assert loop.clock.now_s == 30.0
    assert loop.notes.texts == []


def test_who_holds_a_gpu_is_said_again_when_another_does(stack, box):
    take(box[1])
    loop = Loop(stack, [trial(4)], inventory=FOUR)
    loop.at[20.0] = lambda: box[1].computing.update({NO_PROCESS: 2000})
    loop.at[30.0] = lambda: setattr(box[1], "computing", {NO_PROCESS + 1: 900})
    loop.at[40.0] = lambda: release(box[1])
    assert loop.run() == {State.COMPLETED: 1}
    assert loop.notes.texts == [WAITING, WAITING.replace(str(NO_PROCESS), str(NO_PROCESS + 1))]


def test_a_stop_ends_the_waiting(stack, box):
    take(box[1])
    loop = Loop(stack, [trial(4)], inventory=FOUR)
    loop.at[30.0] = lambda: loop.stop.ask(1)
    assert loop.run() == {}
    assert (loop.orchestrator.num_left, loop.clock.now_s) == (1, 30.0)


def test_an_attempt_that_others_disturbed_is_tried_again(stack, box):
    loop = Loop(stack, [trial(1, seed=1)], {1: Script(disturbed=1)}, inventory=FOUR)
    assert loop.run() == {State.COMPLETED: 1}
    assert loop.ledger.story[1][1:4] == ["running", "invalid", "pending"]
    assert loop.notes.reasons == ["tried again after disturbed"]
    disturbed, quiet = (attempt.result for attempt in loop.ledger.finished)
    assert (disturbed.message, disturbed.verdict) == (
        "1 other process computed on GPU-0",
        Verdict.INVALID,
    )
    assert disturbed.measurement is not None, "its numbers are kept"
    assert (quiet.message, loop.orchestrator.ran.num_retries) == ("", 1)


def test_after_the_last_retry_a_disturbed_attempt_counts(stack, box):
    loop = Loop(stack, [trial(1, seed=1)], {1: Script(disturbed=9)}, inventory=FOUR)
    assert loop.run() == {State.COMPLETED: 1}
    assert loop.ledger.attempts == {1: 2}


def test_a_crash_uses_up_no_retry_after_a_disturbance(stack, box):
    scripts = {1: Script(crashes=1, disturbed=2)}
    loop = Loop(stack, [trial(1, seed=1)], scripts, inventory=FOUR)
    assert loop.run() == {State.COMPLETED: 1}
    assert loop.notes.reasons == ["tried again after crashed", "tried again after disturbed"]


def test_a_retry_waits_until_the_gpu_is_free_again(stack, box):
    scripts = {1: Script(disturbed=1)}
    loop = Loop(stack, [trial(4, seed=1)], scripts, inventory=FOUR)
    loop.at[5.0] = lambda: take(box[1])
    loop.at[50.0] = lambda: release(box[1])
    assert loop.run() == {State.COMPLETED: 1}
    assert 60.0 <= loop.clock.now_s < 62.0


def test_what_a_sweep_of_another_user_runs_is_not_given_out(box):
    """Its processes do not tell that a sweep started them."""
    take(box[1])
    take(box[2])
    slots = DeviceSlots(FOUR, share_host=True)
    rooms = Rooms(slots, Lock(), FOUR, print, shares_host=True)
    room = rooms.take(trial(2))
    assert room is not None
    assert set(room.grant.devices) == {0, 3}
