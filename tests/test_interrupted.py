"""Ctrl-C ends a command at once: quietly, with 130, and without a fragment of what it was making."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.filled import fill
from tests.specs import small
from tests.sweeper.processes import wait_for_end, wait_until
from tests.test_entry_points import interrupted_sweep

pytestmark = pytest.mark.integration

COUNTS = (1, 2, 4, 8)
WHOLE_PNG = b"IEND\xaeB`\x82"


@pytest.fixture
def filled() -> None:
    seeds = range(5)
    fill("results.db", [(small(num_gpus=num, seed=seed), 9.0) for num in COUNTS for seed in seeds])


def interrupted(
    *arguments: str, when: Callable[[psutil.Process], bool], times: int = 1
) -> tuple[int, str, str]:
    """How a command ends that gets so many Ctrl-C as soon as something is so."""
    process = subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        descriptor = os.pidfd_open(process.pid)
        wait_until(lambda: when(psutil.Process(process.pid)), descriptor)
        for _ in range(times):
            process.send_signal(signal.SIGINT)
        wait_for_end(descriptor)
        os.close(descriptor)
        out, said = process.communicate()
    return process.returncode, out, said


@pytest.mark.parametrize("times", [1, 2])
def test_charts_that_are_interrupted_are_whole_or_those_of_before(filled, times):
    folder = Path("figures")
    folder.mkdir()
    before = folder / "memory-trivial.png"  # that is drawn last
    before.write_text("of before")
    code, out, said = interrupted(
        *("-m", "scalemark", "chart"),
        when=lambda _: len(list(folder.glob("*.png"))) > 1,
        times=times,
    )
    assert (code, said) == (130, "")
    drawn = set(folder.iterdir()) - {before}
    assert drawn >= {Path(line) for line in out.splitlines()}
    assert all(path.read_bytes().endswith(WHOLE_PNG) for path in drawn)
    assert before.read_text() == "of before"


@pytest.mark.slow  # it must be caught in the tenth of a second in which it reads
def test_advice_that_is_interrupted_ends_quietly(filled):
    def has_begun(process: psutil.Process) -> bool:
        return any(Path(file.path).name == "results.db" for file in process.open_files())

    code, _, said = interrupted("-m", "scalemark", "advise", "--all", when=has_begun)
    assert (code, said) == (130, "")


def test_a_sweep_that_is_interrupted_twice_ends_with_its_results_stored():
    said = interrupted_sweep(times=2)
    assert "Traceback" not in said
    assert "sweep: interrupted; repeat the command to run what is left" in said
    assert not Path("figures").exists()
