"""Parts of the loop, each by itself, on a clock of its own."""

import pytest

from store.errors import AwayError, LockedError, LostDatabaseError
from sweeper.devices.host_lock import Held
from sweeper.devices.slots import DeviceSlots
from sweeper.loop.dispatch import Backoff, Rooms
from sweeper.loop.supervision import Heartbeat, Stop, Stopping
from tests.specs import small
from tests.sweeper.loop.fakes import FakeClock, FakeLedger
from tests.sweeper.world import EIGHT


class World:
    """A heartbeat and what writes between its beats."""

    def __init__(self) -> None:
        self.clock, self.reported, self.stop = FakeClock(), [], Stop()
        self.ledger = FakeLedger({})
        self.stopping = Stopping(self.stop, [], self.reported.append)
        self.heartbeat = Heartbeat(
            self.ledger, self.stopping, 60.0, self.reported.append, self.clock
        )

    def fail(self, error: Exception) -> None:
        self.ledger.fails = lambda _: error

    def pass_s(self, seconds: float) -> None:
        self.clock.now_s += seconds
        self.heartbeat.beat_if_due()

    def pass_for_s(self, num: int) -> None:
        for _ in range(num):
            self.pass_s(1.0)


def test_a_beat_is_given_when_it_is_due_and_not_before():
    world = World()
    world.pass_for_s(20)
    assert world.ledger.num_beats == 2


def test_a_database_that_is_away_for_a_moment_ends_nothing():
    world = World()
    world.fail(AwayError("away"))
    for _ in range(3):
        world.pass_s(10.0)
    world.ledger.fails = lambda _: None
    world.pass_s(10.0)
    assert (world.reported, world.stopping.failure) == (["away; trying again"], None)


def test_a_local_sweep_that_cannot_beat_starts_nothing_more():
    world = World()
    world.fail(LostDatabaseError("gone"))
    world.pass_s(10.0)
    assert (str(world.stopping.failure), world.stopping.is_stopping) == ("gone", True)


@pytest.mark.parametrize(
    ("error", "num_tries"), [(LockedError("locked"), 10), (AwayError("away"), 60)]
)
@pytest.mark.parametrize("num_failing", [3, 100])
def test_a_write_to_a_database_that_is_locked_or_away_is_tried_again(error, num_tries, num_failing):
    world, left = World(), [error] * num_failing

    def write() -> str:
        if left:
            raise left.pop()
        return "written"

    if num_failing < 10:
        assert world.heartbeat.write(write) == "written"
    else:
        with pytest.raises(type(error)):
            world.heartbeat.write(write)
        assert len(left) == num_failing - num_tries


def test_a_busy_loop_does_not_tell_what_it_waits_for():
    reported = []
    backoff = Backoff(FakeClock(), reported.append)
    backoff.wait("others run it", is_idle=False)
    assert (reported, backoff.text) == ([], "waiting: others run it")


def test_two_that_are_waited_for_in_turn_are_each_told_once_in_ten_minutes():
    reported, clock = [], FakeClock()
    backoff = Backoff(clock, reported.append)
    for clock.now_s in (0.0, 30.0, 300.0, 630.0):
        backoff.wait("process 7 holds it", is_idle=True)
        backoff.wait("it is its turn", is_idle=True)
    assert reported == ["waiting: process 7 holds it", "waiting: it is its turn"] * 2


class FakeLock:
    """A host whose devices another sweep has, or none."""

    held_by, num_orphans = "", 0
    taken: str | None = None

    def __init__(self, by: str) -> None:
        self.by = by

    def try_hold(self, uuids: object = (), *, shares_host: bool) -> Held | None:
        self.held_by = self.by
        return None if self.by else Held()


def test_a_room_that_another_sweep_has_is_free_again_for_us():
    reported, lock = [], FakeLock("process 7")
    slots = DeviceSlots(EIGHT, share_host=False)
    rooms = Rooms(slots, lock, EIGHT, reported.append, shares_host=False)
    assert rooms.take(small()) is None
    assert (rooms.held_by, slots.fits(1)) == ("process 7", False)
    lock.by, lock.num_orphans = "", 2
    slots.clear_taken()
    room = rooms.take(small(num_gpus=8))
    assert room is not None
    assert not slots.fits(1)
    rooms.leave(room)
    assert slots.fits(8)
    assert reported == ["killed what an earlier sweep left running on this host: 2 processes"]
