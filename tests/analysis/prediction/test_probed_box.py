"""A probe tells of links what it measured, and nothing that the driver does not know."""

import pytest

from analysis.calibration.environments import Guess
from analysis.prediction.probed_box import _with_links
from costs.probed_links import ProbedLinks
from costs.profiles import profile
from tests.sweeper.probing.probes import box, figures, probe_of


@pytest.mark.parametrize(("node", "num_sockets"), [(None, 2), (0, 1)])
def test_gpus_of_unknown_nodes_leave_the_sockets_of_the_profile(node, num_sockets):
    """A bug: they were taken for GPUs of one socket, as in virtual machines."""
    machine = box(4, "NVIDIA GeForce RTX 4090")
    links = ProbedLinks(
        probe=probe_of(machine, figures(4, pair=1e9, bus=0.8e9)),
        links=machine.links,
        numa_nodes={gpu.uuid: node for gpu in machine.gpus},
    )
    known = Guess(hardware=profile("a10_4"), reason="its words")
    assert known.hardware.num_sockets == 2
    assert _with_links(known, links).hardware.num_sockets == num_sockets
