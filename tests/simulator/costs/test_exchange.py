"""Which links a copy and a ring load."""

import pytest

from simulator.costs.box import Hardware, profile
from simulator.costs.exchange import LinkTraffic


def loaded(
    hardware: Hardware, *, ring: int = 0, copy: tuple[int, int] | None = None
) -> dict[str, float]:
    """The longest that a link of each kind is busy, for 1 GB."""
    traffic = LinkTraffic(hardware=hardware)
    if ring:
        traffic.collective([1e9], ring, launchers=1)
    if copy:
        traffic.copy(*copy, 1e9)
    longest: dict[str, float] = {}
    for (kind, _, _), busy_s in traffic.busy_s.items():
        longest[kind] = max(busy_s, longest.get(kind, 0.0))
    return longest


def test_a_ring_through_two_cliques_is_slower_than_in_one():
    mesh = profile("dgx1_v100")
    assert loaded(mesh, ring=8)["nvlink"] > 1.5 * loaded(mesh, ring=4)["nvlink"]


def test_a_pair_of_a_mesh_has_a_part_of_the_nvlinks():
    mesh = profile("dgx1_v100")
    pair_gb_per_s = mesh.nvlink_gb_per_s / mesh.nvlink_clique
    assert loaded(mesh, copy=(0, 1))["nvlink"] == pytest.approx(1 / (0.8 * pair_gb_per_s))
