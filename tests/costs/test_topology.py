"""Which links a copy and a ring load."""

from dataclasses import replace

import pytest

from costs.hardware import Hardware
from costs.profiles import profile
from costs.topology import BETWEEN_CLIQUES, Traffic

BRIDGED = replace(profile("v100_pcie_8"), nvlink_gb_per_s=50.0, nvlink_clique=2)


def kinds(hardware: Hardware, *, ring: int = 0, copy: tuple[int, int] | None = None) -> set[str]:
    traffic = Traffic(hardware=hardware)
    if ring:
        traffic.ring(ring, 1e9)
    if copy:
        traffic.copy(*copy, 1e9)
    return {kind for kind, _, _ in traffic.busy_s}


def test_a_bridge_joins_two_gpus_and_no_nvlink_leads_to_the_next_pair():
    assert kinds(BRIDGED, copy=(0, 1)) == {"nvlink"}
    assert "nvlink" not in kinds(BRIDGED, copy=(0, 2))
    assert "nvlink" not in kinds(BRIDGED, copy=(1, 2))
    assert BRIDGED.num_nvlink_pairs == 4


def test_a_ring_through_bridged_pairs_is_as_slow_as_their_links():
    assert kinds(BRIDGED, ring=2) == {"nvlink"}
    assert BETWEEN_CLIQUES not in kinds(BRIDGED, ring=4)
    of_pairs, without = (
        Traffic(hardware=BRIDGED),
        Traffic(hardware=replace(BRIDGED, nvlink_gb_per_s=None, nvlink_clique=0)),
    )
    for traffic in (of_pairs, without):
        traffic.ring(8, 1e9)
    assert of_pairs.busiest() == without.busiest()


def test_a_bridged_pair_has_all_nvlinks_and_a_mesh_pair_a_part():
    traffic = Traffic(hardware=BRIDGED)
    traffic.copy(0, 1, 1e9)
    assert traffic.busiest()[1] == pytest.approx(1 / 50)
    assert kinds(profile("dgx1_v100"), ring=8) == {BETWEEN_CLIQUES}
