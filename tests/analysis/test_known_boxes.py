"""Which profile describes a box: by whole words, and only where all agrees that is reported."""

from dataclasses import replace

import pytest

from analysis.known_boxes import known_box
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


def name_of(environment: Environment) -> str | None:
    box = known_box(environment, 4)
    return box.name if box else None


@pytest.mark.parametrize(
    ("gpus", "name"),
    [
        (Gpus(name="Tesla V100-SXM2-16GB", num=8, num_nvlink_pairs=16), "dgx1_v100"),
        (Gpus(name="NVIDIA A100-SXM4-80GB", num=8, num_nvlink_pairs=28), "dgx_a100_80"),
        (Gpus(name="Tesla V100-PCIE-16GB", num=8), "v100_pcie_8"),
        # another number of GPUs or of NVLinks
        (Gpus(name="Tesla V100-SXM2-16GB", num=8), None),
        (Gpus(name="Tesla V100-PCIE-16GB", num=4), None),
        (Gpus(name="Tesla P100-PCIE-16GB", num=8, num_nvlink_pairs=4), None),
        # names that only sound alike
        (Gpus(name="NVIDIA TITAN X (Pascal)", num=8), None),
        (Gpus(name="NVIDIA H100 PCIe", num=8), None),
        (Gpus(name="NVIDIA A100-SXM4-40GB MIG 1g.5gb", num=8, num_nvlink_pairs=28), None),
        (Gpus(name="", num=8), None),
    ],
)
def test_gpus_and_their_links_tell_a_box(gpus: Gpus, name: str | None) -> None:
    """The host is named h100-lab and its processor k80: neither says anything."""
    assert name_of(replace(PLACE, gpus=gpus)) == name


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("8xK80", "k80_8"),
        ("8x A100-SXM4-80GB", "dgx_a100_80"),
        ("DGX A100 640GB", "dgx_a100_80"),
        ("AWS p4de.24xlarge", "dgx_a100_80"),
        ("4x A100-40GB, 80 GB RAM", "dgx_a100"),
        ("GCE n1-standard-32-k80x8", "k80_8"),
        ("p3.16xlarge", "dgx1_v100"),
        ("8xV100-SXM2-32GB", "dgx1_v100"),
        ("4xV100 server", "v100_pcie_8"),
        ("DGX-1P 8xP100", "dgx1_p100"),
        ("8x Titan X 12GB PCIe", "titanx_pcie_8"),
        ("8xH100-SXM-80G HGX", "h100_8"),
        ("V100 NVLink x 4", "dgx1_v100"),
        ("4xV100 without NVLink", "v100_pcie_8"),
        ("8xH100 PCIe", None),
        ("4x TITAN Xp", None),
        ("2x RTX A1000", None),
        ("GH200", None),
        ("PCIe A100 x 4", None),
        ("8xK80 NVLink", None),
    ],
)
def test_the_words_of_a_source_tell_a_box(words: str, name: str | None) -> None:
    assert name_of(replace(PLACE, machine=words, origin=Origin.PUBLISHED)) == name


def test_a_simulated_box_is_its_own_profile() -> None:
    profile = SIMULATED_MACHINE.hardware_profile
    assert name_of(replace(PLACE, hardware_profile=profile)) == "dgx1_p100"


def test_a_box_has_room_for_what_is_asked() -> None:
    box = known_box(replace(PLACE, machine="8xK80", origin=Origin.PUBLISHED), 16)
    assert box is not None
    assert box.num_gpus == 16
