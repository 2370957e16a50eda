"""How many GPUs have fast links: by whole words, and only where all agrees that is reported."""

from dataclasses import replace

import pytest

from analysis.known_boxes import fast_group
from analysis.results import Environment, Gpus
from scalemark.records.machine import DeviceKind
from scalemark.records.references import Origin
from tests.filled import SIMULATED_MACHINE

PLACE = Environment(
    key="p",
    host="h100-lab",
    machine="h100-lab: 8 cores k80, driver 535.1",
    versions="",
    device_kind=DeviceKind.GPU,
    origin=Origin.MEASURED,
)


@pytest.mark.parametrize(
    ("gpus", "ring", "others"),
    [
        (Gpus(name="Tesla V100-SXM2-16GB", num=8, num_nvlink_pairs=16), 4, None),
        (Gpus(name="NVIDIA A100-SXM4-80GB", num=8, num_nvlink_pairs=28), 8, None),
        (Gpus(name="Tesla V100-PCIE-16GB", num=8), 4, 4),
        # another number of GPUs or of NVLinks
        (Gpus(name="Tesla V100-SXM2-16GB", num=8), None, None),
        (Gpus(name="Tesla V100-PCIE-16GB", num=4), None, None),
        (Gpus(name="Tesla P100-PCIE-16GB", num=8, num_nvlink_pairs=4), None, None),
        # names that only sound alike
        (Gpus(name="NVIDIA TITAN X (Pascal)", num=8), None, None),
        (Gpus(name="NVIDIA H100 PCIe", num=8), None, None),
        (Gpus(name="", num=8), None, None),
    ],
)
def test_gpus_and_their_links_tell_a_box(gpus: Gpus, ring: int, others: int) -> None:
    """The host is named h100-lab and its processor k80: neither says anything."""
    environment = replace(PLACE, gpus=gpus)
    assert fast_group(environment, 8, by_ring=True) == ring
    assert fast_group(environment, 8, by_ring=False) == others


CLIQUES, SWITCH, SOCKETS, UNKNOWN = (4, None), (8, None), (4, 4), (None, None)


@pytest.mark.parametrize(
    ("words", "groups"),
    [
        ("8xK80", UNKNOWN),
        ("GCE n1-standard-32-k80x8", UNKNOWN),
        ("8xK80 NVLink", UNKNOWN),
        ("8x A100-SXM4-80GB", SWITCH),
        ("AWS p4de.24xlarge", SWITCH),
        ("4x A100-40GB, 80 GB RAM", SWITCH),
        ("8xH100-SXM-80G HGX", SWITCH),
        ("DGX-2 16xV100-32G", (16, None)),
        ("p3.16xlarge", CLIQUES),
        ("8xV100-SXM2-32GB", CLIQUES),
        ("DGX-1P 8xP100", CLIQUES),
        ("V100 NVLink x 4", CLIQUES),
        ("4xV100 server", SOCKETS),
        ("4xV100 without NVLink", SOCKETS),
        ("8x Titan X 12GB PCIe", SOCKETS),
        ("8xH100 PCIe", UNKNOWN),
        ("4x TITAN Xp", UNKNOWN),
        ("2x RTX A1000", UNKNOWN),
        ("GH200", UNKNOWN),
        ("PCIe A100 x 4", UNKNOWN),
    ],
)
def test_the_words_of_a_source_tell_a_box(words: str, groups: tuple[int, int]) -> None:
    environment = replace(PLACE, machine=words, origin=Origin.PUBLISHED)
    assert tuple(fast_group(environment, 8, by_ring=ring) for ring in (True, False)) == groups


def test_a_simulated_box_is_its_own_profile() -> None:
    profile = SIMULATED_MACHINE.hardware_profile  # DGX-1 with P100
    environment = replace(PLACE, hardware_profile=profile)
    assert fast_group(environment, 8, by_ring=True) == 4


def test_half_of_a_larger_box_is_at_one_socket() -> None:
    environment = replace(PLACE, machine="16x P100", origin=Origin.PUBLISHED)
    assert fast_group(environment, 16, by_ring=True) == 8
