"""Which box an environment is taken to be: by words, and known only where all agrees that is reported."""

from dataclasses import replace
from math import comb

import pytest

from analysis.calibration.environments import Guess, guess_of, guessed, of_gpus
from analysis.results import Environment, Gpus, Origin
from costs.profiles import profile, profiles
from scalemark.records.devices import DeviceKind
from tests.filled import SIMULATED_MACHINE

GIB = 2**30


@pytest.mark.parametrize("name", profiles())
def test_a_machine_with_all_that_a_profile_has_is_known(name: str) -> None:
    there = profile(name)
    gpus = Gpus(name=there.gpu, num=there.num_gpus, num_nvlink_pairs=there.num_nvlink_pairs)
    found = of_gpus(gpus, 1)
    assert (found.hardware.name, found.is_known) == (name, True)


@pytest.mark.parametrize(
    ("name", "gpu"),
    [
        ("NVIDIA TITAN Xp", "TITAN Xp"),
        ("NVIDIA TITAN X (Pascal)", "TITAN Xp"),
        ("NVIDIA RTX A1000", "unknown GPU"),
        ("Quadro P1000", "unknown GPU"),
        ("NVIDIA GH200 480GB", "unknown GPU"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H100 NVL", "H100 PCIe"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "unknown GPU"),
        ("NVIDIA L40", "L40"),
        ("NVIDIA A10G", "A10"),
        ("NVIDIA GeForce RTX 3090 Ti", "GeForce RTX 3090"),
        ("Tesla M40", "Tesla M40"),
        ("", "unknown GPU"),
    ],
)
def test_gpus_that_only_sound_like_others_are_guessed(name: str, gpu: str) -> None:
    """A bug: parts of words were enough, so that a TITAN Xp was a Titan X, and an H100 PCIe had NVLink."""
    found = of_gpus(Gpus(name=name, num=8), 8)
    assert (found.hardware.gpu, found.is_known) == (gpu, False)
    assert found.hardware.nvlink_gb_per_s is None


@pytest.mark.parametrize(
    ("name", "tf32"),
    [
        ("NVIDIA A100-PCIE-40GB", 156),
        ("NVIDIA A10", 62.5),
        ("NVIDIA L4", 60),  # its profile
        ("NVIDIA H100 PCIe", 378),
        ("NVIDIA GeForce RTX 3090", 35.6),  # its profile
        ("Tesla T4", 8.1),
    ],
)
def test_tensorfloat_32_is_half_as_fast_as_fp16_where_there_is_any(name: str, tf32: float) -> None:
    """A bug: it was taken for fp32, of an A100 an eighth of the truth."""
    assert of_gpus(Gpus(name=name, num=2), 2).hardware.tflops["tf32"] == tf32


@pytest.mark.parametrize(
    ("gpus", "said"),
    [
        (
            Gpus(name="Tesla V100-SXM2-16GB", num=8),
            "0 pairs of NVLink is not quite dgx1_v100 (8 GPUs, 16 pairs)",
        ),
        (
            Gpus(name="Tesla V100-SXM2-16GB", num=8, num_nvlink_pairs=comb(8, 2)),
            "28 pairs of NVLink is not quite dgx1_v100 (8 GPUs",
        ),
        (Gpus(name="Tesla V100-PCIE-16GB", num=4), "'4 x Tesla V100-PCIE-16GB' with 0 pairs"),
        (
            Gpus(name="Tesla P100-PCIE-16GB", num=8, num_nvlink_pairs=4),
            "is not quite p100_pcie_8 (8 GPUs, 0 pairs)",
        ),
    ],
)
def test_another_number_of_gpus_or_nvlinks_makes_it_a_guess(gpus: Gpus, said: str) -> None:
    found = of_gpus(gpus, 4)
    assert not found.is_known
    assert said in found.reason
    assert "links are guessed" in found.reason
    assert any(one.hardware.nvlink_gb_per_s for one in found.others) == bool(
        "SXM" in gpus.name or gpus.num_nvlink_pairs
    )


def test_boards_with_two_gpus_each_are_below_one_switch() -> None:
    """A bug: 4 GPUs of K80 ended the command with a traceback, as no two boxes had both GPUs of a board below a switch."""
    found = of_gpus(Gpus(name="Tesla K80", num=4), 4)
    assert {one.hardware.gpus_per_switch for one in found.others} == {2, 4}


def test_the_memory_is_the_machines_own() -> None:
    gpus = Gpus(name="NVIDIA A100-SXM4-80GB", num=8, memory_bytes=79 * GIB, num_nvlink_pairs=28)
    assert (of_gpus(gpus, 8).is_known, of_gpus(gpus, 8).hardware.memory_gib) == (True, 79)


@pytest.mark.parametrize(
    ("name", "gb_per_s"),
    [
        ("NVIDIA A100-SXM4-40GB", 1555),
        ("NVIDIA A100-SXM4-80GB", 2039),
        ("NVIDIA A100-PCIE-40GB", 1555),
        ("NVIDIA A100 80GB PCIe", 1935),
    ],
)
def test_the_memory_of_an_a100_of_80_gb_is_faster(name: str, gb_per_s: float) -> None:
    """A bug: all were taken for those of 40 GB."""
    assert of_gpus(Gpus(name=name, num=8), 8).hardware.memory_gb_per_s == gb_per_s


PLACE = Environment(
    key="p", host="h100-lab", machine="h100-lab: 8 cores k80, driver 535.1", versions="", device_kind=DeviceKind.GPU,
    origin=Origin.MEASURED,
)  # fmt: skip


def test_names_of_hosts_and_cpus_say_nothing() -> None:
    """A bug: a V100 in a host named h100-lab was an H100, an L4 in node-p40 a P40."""
    v100 = replace(PLACE, gpus=Gpus(name="Tesla V100-PCIE-16GB", num=8))
    l4 = replace(PLACE, host="node-p40", gpus=Gpus(name="NVIDIA L4", num=2))
    assert (guess_of(v100, 8).hardware.name, guess_of(l4, 8).hardware.name) == (
        "v100_pcie_8",
        "l4_8",
    )


def test_a_simulated_place_is_its_own_profile() -> None:
    found = guess_of(replace(PLACE, hardware_profile=SIMULATED_MACHINE.hardware_profile), 8)
    assert (replace(found.hardware, sources=profile("dgx1_p100").sources), found.is_known) == (
        profile("dgx1_p100"),
        True,
    )


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("8xK80", "k80_8"),
        ("8x A100-SXM4-80GB", "dgx_a100_80"),
        ("DGX A100 640GB", "dgx_a100_80"),
        ("8 A100 (80 GB)", "dgx_a100_80"),
        ("AWS p4de.24xlarge", "dgx_a100_80"),
        ("4x A100-40GB, 80 GB RAM", "dgx_a100"),
        ("GCE n1-standard-32-k80x8", "k80_8"),
        ("AWS p2.8xlarge 8xK80", "k80_8"),
        ("p3.16xlarge", "dgx1_v100"),
        ("8xV100-SXM2-32GB", "dgx1_v100"),
        ("8xV100", "dgx1_v100"),
        ("4xV100 server", "v100_pcie_8"),
        ("DGX-1P 8xP100", "dgx1_p100"),
        ("4x P100-SXM2", "dgx1_p100"),
        ("8x Titan X 12GB PCIe", "titanx_pcie_8"),
        ("8xH100-SXM-80G HGX", "h100_8"),
        ("DGX A100 8xA100-80G", "dgx_a100_80"),
        ("8x A100 80 GB SXM", "dgx_a100_80"),
        ("DGX A100 8xA100-40G", "dgx_a100"),
        ("DGX A100 8xA100", "dgx_a100"),
        ("8xH100 PCIe", "guessed"),
        ("4x TITAN Xp", "guessed"),
        ("2x RTX A1000", "guessed"),
        ("GH200", "guessed"),
        ("V100 NVLink x 4", "dgx1_v100"),
        ("NVLink V100 x 4", "dgx1_v100"),
        ("4xV100 without NVLink", "v100_pcie_8"),
        ("8x V100-PCIE-16GB", "v100_pcie_8"),
        ("4 nodes x 8xV100", "dgx1_v100"),
        ("V100 in a DGX-1", "dgx1_v100"),
        ("PCIe A100 x 4", "guessed"),
    ],
)
def test_the_words_of_a_source_are_whole_ones(text: str, name: str) -> None:
    assert guessed(text, 4).hardware.name == name


@pytest.mark.parametrize("text", ["10x GTX 1080 Ti", "10xGTX 1080 Ti", "GTX 1080 Ti x 10"])
def test_counts_are_read_on_either_side(text: str) -> None:
    assert guessed(text, 4).hardware.num_gpus == 10


@pytest.mark.parametrize(
    "text",
    [
        "4x RTX 3090 NVLink",
        "2x RTX A6000, NV-Link",
        "Quadro RTX 8000 with NVLinks",
        "8xK80 NVLink",
        "A100 PCIe NVLink",
    ],
)
def test_nvlink_in_a_name_is_heeded_whatever_the_card(text: str) -> None:
    """A bug: cards that no profile has with NVLink were taken to have none, and K80 to be known."""
    found = guessed(text, 4)
    assert not found.is_known
    assert any(one.hardware.nvlink_gb_per_s for one in found.others)


@pytest.mark.parametrize(
    "text", ["4x RTX 3090", "4x RTX 3090 without NVLink", "4x RTX 3090, no NVLink"]
)
def test_cards_without_nvlink_in_their_name_have_none(text: str) -> None:
    assert not any(one.hardware.nvlink_gb_per_s for one in guessed(text, 4).others)


def test_nvlinks_that_a_driver_tells_are_heeded_whatever_the_card() -> None:
    found = of_gpus(Gpus(name="NVIDIA GeForce RTX 3090", num=4, num_nvlink_pairs=2), 4)
    assert any(one.hardware.nvlink_gb_per_s for one in found.others)


@pytest.mark.parametrize(
    "text",
    ["4xGTX1080", "4 x GTX 1080", "4\N{MULTIPLICATION SIGN}GTX 1080?", "GTX1080x4", "GTX 1080 x4"],
)
def test_a_gpu_is_known_by_its_name_however_it_is_counted(text: str) -> None:
    found = guessed(text, 2)
    assert found.hardware.gpu == "GeForce GTX 1080"


@pytest.mark.parametrize(
    "guess",
    [
        guessed("4x RTX 3090 NVLink", 4),
        of_gpus(Gpus(name="NVIDIA GeForce RTX 3090", num=8, num_nvlink_pairs=4), 8),
        of_gpus(Gpus(name="Tesla P100-PCIE-16GB", num=8, num_nvlink_pairs=4), 4),
    ],
)
def test_cards_with_nvlink_may_be_joined_in_pairs_by_bridges(guess: Guess) -> None:
    """A bug: they could be cliques of 4 and 8 alone, which no bridge of such cards makes."""
    cliques = {one.hardware.nvlink_clique for one in guess.others if one.hardware.nvlink_gb_per_s}
    assert cliques == {2, 4, 8}
    (pairs,) = (one.hardware for one in guess.others if one.hardware.is_bridged)
    assert pairs.num_nvlink_pairs == 4
