"""Ranks are held to their deadlines by numbers that change, and by nobody's clock but the supervisor's."""

import pytest

from scalemark.records.attempt import Cluster, RankLimits
from scalemark.run_folder import RunFolder
from trainer.own_rank import JOINING
from trainer.rank_ends import LOOK_EVERY_S, Pulses

CLUSTER = Cluster(worker_hosts=("a:1", "b:1"), ps_hosts=("a:2", "b:2"))
WORKER_0, PS_0, WORKER_1, PS_1 = CLUSTER.ranks
LIMITS = RankLimits(start_timeout_s=300, timeout_s=30)


class Watched:
    """Looks as often as it is asked for, while ranks that beat do."""

    def __init__(self, folder: RunFolder, limits: RankLimits = LIMITS) -> None:
        self.folder, self.now_s, self.number = folder, 1000.0, 0
        self.pulses = Pulses(folder, CLUSTER, limits, lambda: self.now_s)

    def beat(self, *ranks) -> None:
        self.number += 1
        for rank in ranks:
            self.folder.rank_beat(rank).write_text(str(self.number))

    def look_for(self, duration_s: float, *beating, ended=()):
        """What was missed at the end of it; nothing is before."""
        for _ in range(int(duration_s / LOOK_EVERY_S)):
            assert self.pulses.missed(ended) is None
            self.beat(*beating)
            self.now_s += LOOK_EVERY_S
        return self.pulses.missed(ended)


@pytest.fixture
def watched(tmp_path):
    return Watched(RunFolder(tmp_path))


def test_a_rank_that_never_gives_a_sign_could_not_be_reached(watched):
    assert watched.look_for(300, WORKER_0, PS_0, PS_1) == (
        WORKER_1,
        "could not be reached within 300 s",
    )


def test_worker_0_that_waits_for_another_is_not_blamed(watched):
    rank, _ = watched.look_for(300, PS_0, WORKER_1)
    assert rank == PS_1


def test_a_rank_that_falls_silent_is_known_from_when_its_number_changed(watched):
    assert watched.look_for(100, *CLUSTER.ranks) is None
    assert watched.look_for(30, WORKER_0, WORKER_1, PS_1) == (
        PS_0,
        "gave no sign of life for launcher.rank_timeout_s=30",
    )


def test_a_number_that_is_being_written_is_no_news(watched):
    watched.look_for(10, *CLUSTER.ranks)
    watched.folder.rank_beat(PS_0).write_text("")
    assert watched.look_for(29, WORKER_0, WORKER_1, PS_1) is None


def test_of_a_rank_that_has_done_its_part_nothing_is_expected(watched):
    watched.look_for(10, *CLUSTER.ranks)
    assert watched.look_for(100, WORKER_0, PS_0, PS_1, ended={WORKER_1}) is None


def test_a_rank_that_joins_may_be_silent_for_as_long_as_one_that_starts(watched):
    watched.look_for(10, *CLUSTER.ranks)
    watched.folder.rank_beat(WORKER_1).write_text(f"1000{JOINING}")
    reported = "had not met the others within 300 s"
    assert watched.look_for(300, WORKER_0, PS_0, PS_1) == (WORKER_1, reported)


def test_a_rank_that_has_joined_is_held_to_its_beats_again(watched):
    watched.folder.rank_beat(WORKER_1).write_text(f"1000{JOINING}")
    watched.look_for(100, WORKER_0, PS_0, PS_1)
    watched.beat(WORKER_1)
    reported = "gave no sign of life for launcher.rank_timeout_s=30"
    assert watched.look_for(30, WORKER_0, PS_0, PS_1) == (WORKER_1, reported)


def test_of_ranks_that_join_and_one_that_is_silent_the_silent_one_is_named(watched):
    watched.look_for(10, *CLUSTER.ranks)
    for rank in (PS_0, WORKER_1, PS_1):
        watched.folder.rank_beat(rank).write_text(f"1000{JOINING}")
    rank, reported = watched.look_for(30)
    assert (rank, reported) == (WORKER_0, "gave no sign of life for launcher.rank_timeout_s=30")


def test_a_rank_that_never_started_is_named_before_one_that_joins(watched):
    watched.folder.rank_beat(PS_0).write_text(f"1{JOINING}")
    reported = "could not be reached within 300 s"
    assert watched.look_for(300, WORKER_0, PS_1) == (WORKER_1, reported)


def test_while_the_supervisor_was_stopped_nothing_is_counted(watched):
    watched.look_for(10, *CLUSTER.ranks)
    watched.now_s += 3600
    assert watched.look_for(28.5) is None
    assert watched.look_for(1) == (PS_0, "gave no sign of life for launcher.rank_timeout_s=30")
