"""A profile of a probe has what was measured, and says of each figure where it is from."""

from dataclasses import replace

import pytest
import yaml

from costs.hardware import Hardware
from sweeper.errors import SweepRefusedError
from sweeper.probing.profile import profile_of, yaml_of
from tests.sweeper.probing.probes import box, figures, probe_of, two_kinds


def profile_from(machine, pair, bus):
    return profile_of("mine", probe_of(machine, figures(len(machine.gpus), pair, bus)), machine)


def test_the_slowest_device_makes_the_figures():
    found = profile_from(box(4, "NVIDIA GeForce RTX 4090"), pair=11e9, bus=9e9)
    assert found.tflops == {"bf16": 140.0, "fp32": 70.0}
    assert (found.memory_gb_per_s, found.pcie_gb_per_s) == (950.0, 25.0)
    assert (found.host_memory_gb_per_s, found.host_sum_gb_per_s) == (180.0, 120.0)
    assert (found.num_gpus, found.memory_gib, found.num_sockets) == (4, 24.0, 1)
    assert found.sources["pcie_gb_per_s"].startswith("measured by scalemark probe, 2026-11-25")


@pytest.mark.parametrize(("pair", "peer_to_peer"), [(11e9, False), (24e9, True)])
def test_copies_at_half_of_pcie_go_by_way_of_the_host(pair, peer_to_peer):
    found = profile_from(box(4, "NVIDIA GeForce RTX 4090"), pair=pair, bus=9e9)
    assert found.peer_to_peer is peer_to_peer


def test_nvlinks_have_the_bus_bandwidth_of_a_reduction():
    found = profile_from(box(8, "NVIDIA H100 80GB HBM3", num_nvlinks=18), pair=380e9, bus=360e9)
    assert (found.nvlink_gb_per_s, found.nvlink_clique, found.hop_us) == (360.0, 8, 3.4)
    assert found.peer_to_peer


def test_pairs_faster_than_pcie_have_nvlinks_that_a_virtual_machine_hides():
    found = profile_from(box(8, "NVIDIA H200"), pair=380e9, bus=360e9)
    assert (found.nvlink_gb_per_s, found.nvlink_clique, found.hop_us) == (360.0, 8, 3.4)


def test_a_box_without_nvlink_has_none():
    found = profile_from(box(4, "NVIDIA L4"), pair=24e9, bus=20e9)
    assert (found.nvlink_gb_per_s, found.nvlink_clique, found.hop_us) == (None, 0, 5.7)


def test_gpus_below_one_switch_are_counted():
    assert profile_from(box(4, "NVIDIA L4", pcie="single_switch"), 24e9, 20e9).gpus_per_switch == 4


def test_two_sockets_have_the_rate_of_a_pair_across_them():
    machine = box(2, "NVIDIA L4", pcie="system")
    first, second = machine.gpus
    machine = replace(machine, gpus=(first, replace(second, numa_node=1)))
    found = profile_from(machine, pair=9e9, bus=8e9)
    assert (found.num_sockets, found.socket_gb_per_s) == (2, 9.0)


def test_cards_of_several_kinds_make_no_profile(snapshot):
    """A bug: of an RTX 3090 and a GTX 1080 Ti it became two RTX 3090."""
    with pytest.raises(SweepRefusedError) as raised:
        profile_from(two_kinds(), pair=11e9, bus=9e9)
    assert str(raised.value) == snapshot


def test_the_file_has_a_source_for_each_figure_and_reads_back():
    hardware = profile_from(box(4, "NVIDIA GeForce RTX 4090"), pair=11e9, bus=9e9)
    values = yaml.safe_load(yaml_of(hardware))["profile"]
    assert Hardware.from_values(values) == hardware
    assert set(values) - {"name", "sources"} == set(values["sources"])


def test_the_file_is_one_that_people_read(snapshot):
    assert yaml_of(profile_from(box(4, "NVIDIA GeForce RTX 4090"), pair=11e9, bus=9e9)) == snapshot


def test_what_was_not_measured_is_named():
    machine = box(1, "NVIDIA L4")
    known = [one for one in figures(1, 1.0, 1.0) if one.what not in ("to_device", "to_host")]
    with pytest.raises(SweepRefusedError, match=r"--profile mine: pcie_gb_per_s was not measured"):
        profile_of("mine", probe_of(machine, tuple(known)), machine)
