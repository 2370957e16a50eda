"""Which links a copy and a ring load."""

from dataclasses import replace

import pytest

from simulator.costs.box import Hardware, profile
from simulator.costs.exchange import LinkTraffic

BRIDGED = replace(profile("v100_pcie_8"), nvlink_gb_per_s=50.0, nvlink_clique=2)


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


def test_a_bridge_joins_two_gpus_and_no_nvlink_leads_to_the_next_pair():
    assert set(loaded(BRIDGED, copy=(0, 1))) == {"nvlink"}
    assert "nvlink" not in loaded(BRIDGED, copy=(0, 2))
    assert "nvlink" not in loaded(BRIDGED, copy=(1, 2))
    assert BRIDGED.num_nvlink_pairs == 4


def test_a_ring_through_bridged_pairs_goes_by_pcie():
    assert set(loaded(BRIDGED, ring=2)) == {"nvlink"}
    assert "pcie" in loaded(BRIDGED, ring=4)


def test_a_ring_through_two_cliques_is_slower_than_in_one():
    mesh = profile("dgx1_v100")
    assert loaded(mesh, ring=8)["nvlink"] > 1.5 * loaded(mesh, ring=4)["nvlink"]


def test_a_bridged_pair_has_all_nvlinks_and_a_mesh_pair_a_part():
    mesh = profile("dgx1_v100")
    assert loaded(BRIDGED, copy=(0, 1))["nvlink"] == pytest.approx(1 / (0.8 * 50))
    pair_gb_per_s = mesh.nvlink_gb_per_s / mesh.nvlink_clique
    assert loaded(mesh, copy=(0, 1))["nvlink"] == pytest.approx(1 / (0.8 * pair_gb_per_s))
