"""Parts of the loop, each by itself, on a clock of its own."""

import pytest

from store.errors import AwayError, LockedError, LostDatabaseError
from store.sweeps.ledger import LostError
from sweeper.devices.gpu_users import GpuUsers
from sweeper.devices.host_lock import Held
from sweeper.devices.slots import Slots
from sweeper.loop.drawing import Backoff
from sweeper.loop.heartbeat import Heartbeat
from sweeper.loop.room import Rooms
from sweeper.loop.stopping import Stopping
from sweeper.stop import Stop
from tests.specs import small
from tests.sweeper.loop.fakes import FakeClock, FakeSource
from tests.sweeper.world import EIGHT


class World:
    """A heartbeat and what writes between its beats."""

    def __init__(self, *, is_leased: bool) -> None:
        self.clock, self.reported, self.stop = FakeClock(), [], Stop()
        self.source = FakeSource({}, is_leased=is_leased)
        self.stopping = Stopping(self.stop, [], self.reported.append)
        self.heartbeat = Heartbeat(
            self.source,
            self.stopping,
            60.0,
            lambda: None,
            lambda: None,
            self.reported.append,
            self.clock,
        )

    def fail(self, error: Exception) -> None:
        self.source.fails = lambda _: error

    def pass_s(self, seconds: float) -> None:
        self.clock.now_s += seconds
        self.heartbeat.beat_if_due()

    def pass_for_s(self, num: int) -> None:
        for _ in range(num):
            self.pass_s(1.0)


def test_a_beat_is_given_when_it_is_due_and_not_before():
    world = World(is_leased=True)
    world.pass_for_s(20)
    assert world.source.num_beats == 2


@pytest.mark.parametrize("is_leased", [False, True])
def test_a_database_that_is_away_for_a_moment_ends_nothing(is_leased):
    world = World(is_leased=is_leased)
    world.fail(AwayError("away"))
    for _ in range(3):
        world.pass_s(10.0)
    world.source.fails = lambda _: None
    world.pass_s(10.0)
    assert (world.reported, world.stopping.failure) == (["away; trying again"], None)


def test_a_lease_is_lost_before_others_may_take_over():
    world = World(is_leased=True)
    world.fail(AwayError("away"))
    with pytest.raises(LostError):
        world.pass_for_s(60)
    assert world.clock.now_s == 40.0


def test_a_local_sweep_that_cannot_beat_starts_nothing_more():
    world = World(is_leased=False)
    world.fail(LostDatabaseError("gone"))
    world.pass_s(10.0)
    assert (str(world.stopping.failure), world.stopping.is_stopping) == ("gone", True)


@pytest.mark.parametrize("num_locked", [3, 100])
def test_a_write_to_a_locked_database_is_tried_ten_times(num_locked):
    world, left = World(is_leased=False), [LockedError("locked")] * num_locked

    def write() -> str:
        if left:
            raise left.pop()
        return "written"

    if num_locked < 10:
        assert world.heartbeat.write(write) == "written"
    else:
        with pytest.raises(LockedError):
            world.heartbeat.write(write)
        assert len(left) == num_locked - 10


def test_an_agent_beats_while_it_waits_for_a_locked_database():
    world = World(is_leased=True)

    def write() -> None:
        world.clock.now_s += 30.0
        raise LockedError("locked")

    with pytest.raises(LockedError):
        world.heartbeat.write(write)
    assert (world.clock.now_s, world.source.num_beats) == (300.0, 9)


def test_a_second_stop_waits_for_no_database():
    world = World(is_leased=True)
    world.stop.ask(2)

    def write() -> None:
        raise AwayError("away")

    with pytest.raises(AwayError):
        world.heartbeat.write(write)


def test_misses_in_a_row_are_spaced_out_until_something_comes():
    clock, reported = FakeClock(), []
    backoff = Backoff(clock, reported.append)
    waits_s = []
    for _ in range(5):
        backoff.wait_longer("others run it", is_idle=True)
        waits_s.append(backoff.ask_again_s - clock.now_s)
    backoff.reset()
    backoff.wait_longer("others run it", is_idle=True)
    assert [*waits_s, backoff.ask_again_s] == [1.0, 2.0, 4.0, 5.0, 5.0, 1.0]
    assert reported == ["waiting: others run it"]


def test_a_busy_loop_does_not_tell_what_it_waits_for():
    reported = []
    backoff = Backoff(FakeClock(), reported.append)
    backoff.wait("others run it", is_idle=False)
    assert (reported, backoff.text) == ([], "waiting: others run it")


class FakeLock:
    """A host whose devices another sweep has, or none."""

    held_by, num_orphans = "", 0
    taken: str | None = None

    def __init__(self, by: str) -> None:
        self.by = by

    def try_hold(self, uuids: object = (), *, shares_host: bool) -> Held | None:
        self.held_by = self.by
        return None if self.by else Held()

    def is_anothers(self, uuid: str) -> bool:
        return bool(self.by)


def test_a_room_that_another_sweep_has_is_free_again_for_us():
    reported, lock = [], FakeLock("process 7")
    slots = Slots(EIGHT, share_host=False, max_parallel=None)
    users = GpuUsers(EIGHT, 64.0)
    rooms = Rooms(slots, lock, EIGHT, reported.append, shares_host=False, gpu_users=users)
    assert rooms.take(small()) is None
    assert (rooms.held_by, rooms.most_free()) == ("process 7", 0)
    lock.by, lock.num_orphans = "", 2
    slots.clear_taken()
    assert rooms.most_free() == 8
    room = rooms.take(small(num_gpus=8))
    assert room is not None
    assert rooms.most_free() == 0
    rooms.leave(room)
    assert rooms.most_free() == 8
    assert reported == ["killed what an earlier sweep left running on this host: 2 processes"]
