"""The words by which sources name their hardware, and what they are taken for: so many GPUs on a host, one host or several."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from analysis.reported_hosts import hosts_of, read, why_several
from scalemark.records.references import published

pytestmark = pytest.mark.integration

NAMES = [  # words, GPUs of each host (None: left open), whether they speak of several hosts
    ("1xK80/node", 1, True),
    ("8 x V100 per node", 8, True),
    ("4 nodes x 8xV100", 8, True),
    ("DGX-1", 8, False),
    ("2x DGX A100", 8, True),
    ("n1-standard-8 x 4", None, True),
    ("p3.16xlarge x2", 8, True),
    ("AWS p2.8xlarge x n/8 nodes K80", 8, True),
    ("4 servers x 4 Pascal GPUs?, 25G RoCE?", 4, True),
    ("4xV100 server", 4, False),
    ("NVIDIA DGX-1 P100", 8, False),
    ("NVIDIA DGX-1 8xP100-SXM2 NVLink", 8, False),
    ("GCE n1-standard-32-k80x8", 8, False),
    ("AWS p2.8xlarge 8xK80", 8, False),
    ("4 GPUs (model not stated)", 4, False),
    ("8x Titan X 12GB PCIe", 8, False),
    ("DGX-1V 8xV100", 8, False),
    ("8xV100", 8, False),
    ("1x V100", 1, False),
    ("GCP n1-standard-96, 8 GPUs (model not stated)", 8, False),
    ("8xV100-SXM2-32GB", 8, False),
    ("1x K80", 1, False),
    ("4x V100?", 4, False),
    ("4x P100-SXM2", 4, False),
    ("DGX-2 16xV100-32G", 16, False),
    ("DGX A100 8xA100-80G", 8, False),
    ("8xH100-SXM-80G HGX", 8, False),
    ("GCE 8xV100", 8, False),
    ("8xV100 x 4 nodes", 8, True),
    ("2x8xV100", 8, True),
    ("2 x 8 V100", 8, True),
    ("16 V100 on 2 servers", 8, True),
    ("32 GPUs, 8 per node", 8, True),
    ("8 GPUs/host", 8, True),
    ("8/node", 8, True),
    ("cluster of 4 machines with 8 GPUs each", 8, True),
    ("4-node cluster", None, True),
    ("multi-node V100", None, True),
    ("DGX-1 cluster", 8, True),
    ("8xV100 cluster", None, True),
    ("4 nodes", None, True),
    ("single node 8xV100", 8, False),
    ("1 node x 8xV100", 8, False),
    ("one server with 8 V100", 8, False),
    ("8-GPU server", 8, False),
    ("8xV100 servers", None, True),
    ("4 P100 nodes", None, True),
    ("V100 PCIe x16", None, False),
    ("2x Xeon E5-2690 v4, 4x P100", 4, False),
    ("8x V100, 4x 25 GbE", 8, False),
    ("V100-SXM2-16GB x 8", 8, False),
    ("4 x DGX-1", 8, True),
    ("four DGX-1V", 8, True),
    ("2 p3.16xlarge instances", 8, True),
    ("p3.16xlarge (2 instances)", 8, True),
    ("8 V100, 4 nodes", None, True),
    ("p3.2xlarge", 1, False),
    ("V100", None, False),
    ("10x GTX 1080 Ti", 10, False),
    ("8 x FooCard 9", 8, False),
    ("4 × RTX 3090", 4, False),
    ("K80x8", 8, False),
    ("Summit, 6 V100 per node", 6, True),
    ("a2-highgpu-8g", 8, False),
    ("a2-megagpu-16g x 2", 16, True),
    ("p4d.24xlarge", 8, False),
    ("2 hosts with 4 GPUs", 4, True),
    ("8 GPUs in each of 4 nodes", 8, True),
    ("32 GPUs in 4 nodes", 8, True),
    ("16 V100 on 3 servers", None, True),
    ("4 nodes of p3.8xlarge", 4, True),
    ("Quadro RTX 6000 x 2", 2, False),
    ("TITAN Xp x 4", 4, False),
    ("8x NVIDIA Tesla V100-SXM3-32GB", 8, False),
    ("2 x 4xA100", 4, True),
    ("?", None, False),
    ("", None, False),
    ("64 nodes, 1 K80 each", 1, True),
    ("4 nodes with 8xV100", 8, True),
    ("2 servers (4x P100 each)", 4, True),
    ("g4dn.12xlarge", 4, False),
    ("g4dn.metal", None, False),
    ("Standard_NC24rs_v3", None, False),
    ("8x A100-SXM4-40GB", 8, False),
    ("4x Tesla T4 16 GB", 4, False),
    ("dual GTX 1080 Ti", 2, False),
    ("2 V100 GPUs", 2, False),
    ("DGX SuperPOD", None, True),
    ("3 boxes of 10 x GTX 1080 Ti", 10, True),
    ("0 GPUs per node", None, True),
    ("16 V100 on 0 nodes", None, True),
    ("0xV100/node", None, True),
    ("0 x V100", None, False),
    ("DGX1", 8, False),
    ("4 x GTX1080", 4, False),
    ("8x V100 without NVLink", 8, False),
]


@pytest.mark.parametrize(("hardware", "gpus_per_host", "is_several"), NAMES)
def test_words_say_gpus_per_host_and_whether_hosts_are_several(hardware, gpus_per_host, is_several):
    """Bugs: `1xK80/node` was one box of 64 GPUs, and 8 GPUs of `4 nodes x 8xV100` were refused."""
    reported = read(hardware)
    assert (reported.gpus_per_host, reported.is_several) == (gpus_per_host, is_several)


@pytest.mark.parametrize(
    ("hardware", "num_gpus", "hosts"),
    [
        ("1xK80/node", 1, 1),
        ("1xK80/node", 64, 64),
        ("4 nodes x 8xV100", 8, 1),
        ("4 nodes x 8xV100", 32, 4),
        ("DGX-1", 8, 1),
        ("DGX-1", 64, 8),
        ("n1-standard-8 x 4", 1, 1),
        ("n1-standard-8 x 4", 4, None),
        ("8xV100", 16, None),
        ("8 x K80", 16, 1),
        ("V100", 16, 1),
        ("V100", 64, None),
        ("", 4, 1),
        ("a2-highgpu-4g", 8, 2),
        ("a2-highgpu-2g", 4, 2),
        ("a2-highgpu-1g x 4", 4, 4),
        ("n1-custom-8 x 4", 4, None),
        ("8 x Titan X over 2 hosts", 8, 2),
        ("A100 80GB x 8 x 2 nodes", 16, 2),
    ],
)
def test_a_figure_is_of_as_many_hosts_as_its_gpus_need(hardware, num_gpus, hosts):
    assert hosts_of(hardware, num_gpus) == hosts


_VOCABULARY = [
    "x",
    "*",
    "/",
    "per",
    "each",
    "node",
    "nodes",
    "server",
    "on",
    "in",
    "of",
    "with",
    "GPUs",
    "V100",
    "8xV100",
    "0xV100",
    "xV100",
]
_VOCABULARY += [
    "K80",
    "k80x8",
    "DGX-1",
    "DGX1",
    "p3.16xlarge",
    "n1-standard-8",
    "4-node",
    "NVLink",
    "Xeon",
    "16GB",
    "(",
    ",",
    "?",
    "two",
    "single",
]
_NUMBERS = st.integers(0, 20).map(str) | st.sampled_from(
    ["00", "007", "999999", "9999999", "\N{ARABIC-INDIC DIGIT THREE}"]
)


@given(
    words=st.lists(st.sampled_from(_VOCABULARY) | _NUMBERS, max_size=9),
    between=st.sampled_from([" ", "", "-"]),
)
@example(words=["0", "GPUs", "per", "node"], between=" ")
@example(words=["16", "V100", "on", "0", "nodes"], between=" ")
@example(words=["1"] * 2000, between=" ")
@example(words=["999999", "GPUs"], between=" ")
@settings(max_examples=500, deadline=None)
def test_whatever_words_are_joined_are_read(words, between):
    """A bug: a 0 ended `predict` with a ZeroDivisionError, and a thousand numbers with a RecursionError."""
    hardware = between.join(words)
    for num_gpus in (1, 4, 64):
        hosts = hosts_of(hardware, num_gpus)
        assert hosts is None or 1 <= hosts <= num_gpus
        assert (why_several(hardware, num_gpus) == "") == (hosts == 1)


def test_why_a_figure_may_be_of_several_hosts(snapshot):
    asked = [("4 nodes x 8xV100", 8), ("1xK80/node", 64), ("8xV100", 16), ("V100", 64)]
    assert [why_several(hardware, num_gpus) for hardware, num_gpus in asked] == snapshot


def test_every_figure_that_ships_is_of_a_known_number_of_hosts():
    reported = {
        (one.hardware, one.num_gpus): hosts_of(one.hardware, one.num_gpus) for one in published()
    }
    several = {hardware: hosts for (hardware, _), hosts in reported.items() if hosts != 1}
    assert set(several) == {
        "AWS p2.8xlarge x n/8 nodes K80",
        "4 servers x 4 Pascal GPUs?, 25G RoCE?",
    }
    assert None not in reported.values()
