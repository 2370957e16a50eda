"""Which of the peers ours is compared with."""

from benchmarks.orchestration.cost import Cost
from benchmarks.orchestration.starts import BEST_FRESH, BEST_REUSED, _ratios
from benchmarks.ratio import Ratio


def costs(*walls_s: float) -> list[Cost]:
    return [Cost(wall_s=wall_s, cpu_s=1.0, peak_bytes=0) for wall_s in walls_s]


def found(rows: list[Ratio], peer: str) -> list[tuple[float, float]]:
    (row,) = [
        row for row in rows if (row.ours, row.peer, row.metric) == ("ours fork", peer, "wall s")
    ]
    return row.pairs


def test_ours_is_compared_with_the_best_peer_of_each_round():
    rows = _ratios(
        {
            "ours fork": costs(1, 2),
            "shell loop": costs(8, 9),
            "Ray Tune": costs(7, 10),
            "joblib": costs(4, 6),
            "Hydra basic": costs(5, 5),
        }
    )
    assert found(rows, BEST_FRESH) == [(1, 7), (2, 9)]
    assert found(rows, BEST_REUSED) == [(1, 4), (2, 5)]


def test_cpu_seconds_that_nobody_knows_are_not_reported():
    rows = _ratios({"ours fork": costs(1), "Ray Tune": costs(7), "joblib": costs(4)})
    assert [row.peer for row in rows if row.metric == "CPU s"] == ["joblib"]


def test_a_kind_of_which_all_peers_broke_has_no_best():
    rows = _ratios({"ours fork": costs(1), "joblib": costs(4)})
    assert BEST_FRESH not in [row.peer for row in rows]
