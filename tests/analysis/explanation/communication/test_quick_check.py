"""Where a machine was probed, the quick check takes the bandwidth that was measured."""

from dataclasses import replace

import pytest

from analysis.explanation.communication.quick_check import Bandwidth, of_probe
from scalemark.records.probe import Figure, Probe, Probed

PROBE = Probe(
    machine="0123456789abcdef",
    host="box",
    device_kind="gpu",
    devices=("NVIDIA L4",) * 4,
    uuids=("GPU-a", "GPU-b", "GPU-c", "GPU-d"),
    measured_at="2026-11-25T12:00:00.000000+00:00",
    is_quick=False,
    all_reduce="nccl",
    figures=(
        Figure(what=Probed.PAIR, value=24e9, source=0, target=1),
        Figure(what=Probed.ALL_REDUCE, value=2e9, num_bytes=2**16),
        Figure(what=Probed.ALL_REDUCE, value=9.4567e9, num_bytes=2**28),
    ),
)


def test_the_largest_bus_bandwidth_is_taken_for_as_many_gpus_as_were_probed() -> None:
    found = Bandwidth(gb_per_s=9.46, known_by="measured by scalemark probe, 2026-11-25")
    assert of_probe(PROBE, 4) == of_probe(PROBE, 2) == found
    assert of_probe(PROBE, 8) is None


@pytest.mark.parametrize("changed", [{"doubts": ("others",)}, {"figures": PROBE.figures[:1]}])
def test_what_is_doubtful_or_was_not_measured_is_not_taken(changed: dict[str, object]) -> None:
    assert of_probe(replace(PROBE, **changed), 2) is None
    assert of_probe(None, 2) is None
