"""What a program or a Ray task tells of the ranks that it runs."""

import os

from scalemark.records.attempt import Cluster
from trainer.ranks.own_rank import AssignedRanks


def heard(said: str) -> dict[str, int | None]:
    """Name of a rank -> exit code, when this was said, and then no more."""
    reading, writing = os.pipe()
    os.write(writing, said.encode())
    os.close(writing)
    ranks = AssignedRanks(Cluster(worker_hosts=("a:1", "b:1")), reading)
    assert ranks.descriptors == (reading,)
    ended = ranks.look()
    assert ranks.descriptors == ()
    os.close(reading)
    return {rank.name: code for rank, code in ended.items()}


def test_ranks_that_are_ended_with_a_failed_one_are_not_blamed():
    assert heard("rank worker-1 ended: 1\n") == {"worker-1": 1}
    assert heard("rank worker-0 ended: 0\nrank worker-1 ended: -15\n") == {
        "worker-0": 0,
        "worker-1": -15,
    }


def test_nobody_saw_ranks_end_that_ended_with_who_tells(capsys):
    assert heard("rank worker-1 ended: 0\na warning\n") == {"worker-1": 0, "worker-0": None}
    assert capsys.readouterr().err == "a warning\n"


def test_a_rank_that_nobody_saw_end_is_one_that_ended():
    assert heard("rank worker-1 ended: unseen\n")["worker-1"] is None


def test_what_is_reported_in_pieces_is_heard_when_it_is_whole():
    reading, writing = os.pipe()
    ranks = AssignedRanks(Cluster(worker_hosts=("a:1", "b:1")), reading)
    assert ranks.look() == {}
    os.write(writing, b"rank worker-1 en")
    assert ranks.look() == {}
    os.write(writing, b"ded: 137\nrank")
    assert {rank.name: code for rank, code in ranks.look().items()} == {"worker-1": 137}
    os.close(writing)
    os.close(reading)
