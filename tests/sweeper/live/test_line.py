"""A sweep that runs is one line of its terminal: how far it is, what it does, and how long it will take."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from scalemark.records.devices import DeviceKind
from sweeper.live.line import progress_line
from sweeper.live.snapshot import Counts, RunningAttempt, Snapshot

ATTEMPT = RunningAttempt(
    slots=(0, 1, 2, 3),
    label="resnet50-replicated_nccl-x4 precision=fp16",
    repeat=1,
    attempt=1,
    doing="measuring, step 12 of about 40",
    elapsed_s=34.0,
    expected_s=80.0,
)
SNAPSHOT = Snapshot(
    sweep="night",
    machine="host7",
    kind=DeviceKind.GPU,
    slots=tuple(range(8)),
    running=(ATTEMPT,),
    counts=Counts(completed=3, running=1, pending=12),
    eta_s=3730.0,
)


def drawn(snapshot: Snapshot, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=True, color_system=None).print(
        progress_line(snapshot)
    )
    (line,) = out.getvalue().splitlines()
    return line


@pytest.mark.parametrize("width", [40, 80, 120])
def test_it_fits_the_terminal(width, snapshot):
    line = drawn(SNAPSHOT, width)
    assert len(line) < width
    assert line == snapshot


@pytest.mark.parametrize(
    "changes",
    [
        {"running": (), "eta_s": None, "counts": Counts(pending=16)},
        {"running": (), "notes": ("waits for GPU 1, which others use",)},
        {"running": (ATTEMPT, replace(ATTEMPT, elapsed_s=2.0, label="vgg16-ps_cpu-x1"))},
        {"counts": Counts(completed=3, failed={"hung": 1}, running=1, pending=2)},
    ],
    ids=["starting", "waiting", "two", "failed"],
)
def test_it_says_what_there_is_to_know(changes, snapshot):
    assert drawn(replace(SNAPSHOT, **changes), 100) == snapshot
