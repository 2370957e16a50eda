"""What a program's ranks wrote of their steps becomes parts of a step, and each rank's own time."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from command import parts, start
from scalemark.records.measurement import TimedPart

EVERY_MOMENT = (0.0, 1000.0)
NOTHING = dict.fromkeys(
    ("input", "launch", "forward", "backward", "optimizer", "collective", "sync", "other"), 0.0
)


def write(rank: int, num_steps: int = 20, core_wait: float = 0.0, idle: float = 0.0, **seconds):
    """Write steps of a rank whose parts take so long, and all of it as CPU time but `idle`."""
    of_parts = NOTHING | seconds
    lasts = sum(of_parts.values())
    step = {
        "rank": rank,
        "device": "cpu",
        "operations": 17,
        "seconds": of_parts,
        "cpu": of_parts | {"other": of_parts["other"] - idle - core_wait},
        "core_wait": core_wait,
    }
    lines = [
        step | {"begin": place * lasts, "end": (place + 1) * lasts} for place in range(num_steps)
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    Path(f"parts-{100 + rank}.jsonl").write_text(text)


def read(window=EVERY_MOMENT):
    return parts.read(Path(), window)


def test_parts_add_up_to_the_step():
    write(0, input=0.2, forward=0.3, backward=0.4, other=0.1)
    profile, times = read()
    assert sum(profile.parts_s.values()) == pytest.approx(1.0)
    assert (profile.step_s, profile.num_operations) == (pytest.approx(1.0), 17)
    assert profile.parts_s[TimedPart.INPUT] == profile.input_wait_s == pytest.approx(0.2)
    assert profile.compute_cpu_s == pytest.approx(0.7)
    assert times is None  # of one rank


def test_a_sleep_computation_and_a_wait_for_a_core_are_told_apart():
    write(0, other=1.0, idle=0.5, core_wait=0.2)
    of_parts = read()[0].parts_s
    assert of_parts[TimedPart.IDLE] == pytest.approx(0.5)
    assert of_parts[TimedPart.HOST] == pytest.approx(0.3)
    assert of_parts[TimedPart.CORE] == pytest.approx(0.2)


def test_what_the_last_rank_takes_is_the_exchange_and_the_rest_is_waiting():
    write(0, forward=0.2, collective=0.8)
    write(1, forward=0.9, collective=0.1)
    profile, times = read()
    assert (
        profile.parts_s[TimedPart.COMMUNICATION]
        == profile.exposed_reduction_s
        == pytest.approx(0.1)
    )
    assert profile.parts_s[TimedPart.RANKS] == pytest.approx(0.35)  # of the two in the mean
    assert sum(profile.parts_s.values()) == pytest.approx(1.0)
    assert times.seconds["rank 0"] == pytest.approx([0.2] * 20)
    assert times.seconds["rank 1"] == pytest.approx([0.9] * 20)


def test_ranks_whose_exchange_is_not_seen_are_not_compared():
    for rank in (0, 1):
        write(rank, forward=0.6, launch=0.4)
    profile, times = read()
    assert profile.parts_s[TimedPart.LAUNCH] == pytest.approx(0.4)
    assert times is None


def test_steps_within_the_window_count():
    write(0, forward=1.0)
    assert read((4.5, 15.5))[0].num_steps == 10
    assert read((4.5, 6.5))[0].num_steps == 10  # too few: the second half of all


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({}, "0 steps were seen from inside"),
        ({"parts-1.jsonl": ""}, "cannot be read"),
        ({"parts-1.jsonl": "[]"}, "cannot be read"),
        ({"parts-1.jsonl": '{"rank": 0'}, "cannot be read"),
        ({"parts-1.jsonl": '{"rank": 0}'}, "cannot be read"),
    ],
)
def test_what_tells_nothing_is_said(written, said):
    for name, text in written.items():
        Path(name).write_text(text)
    with pytest.raises(ValueError, match=said):
        read()


def test_two_programs_that_step_are_not_mixed():
    write(0, forward=1.0)
    Path("parts-7.jsonl").write_text(Path("parts-100.jsonl").read_text())
    with pytest.raises(ValueError, match="several programs took steps"):
        read()


@pytest.mark.parametrize("name", ["torch", "tensorflow", "jax"])
def test_a_framework_without_what_is_timed_runs_as_without_us(name):
    Path(name).mkdir()
    Path(name, "__init__.py").write_text("print('imported')\n")
    ended = subprocess.run(
        [sys.executable, "-c", f"import {name}; print('done')"],
        env={
            "PYTHONPATH": f"{Path(start.__file__).parent / 'inside'}{os.pathsep}{Path.cwd()}",
            "SCALEMARK_PARTS_DIR": str(Path.cwd()),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    said = ended.stdout.splitlines()
    assert (said[0], said[-1], ended.stderr) == ("imported", "done", "")
    assert f"steps of this {name} are not timed" in said[1]


def test_a_program_finds_its_own_sitecustomize_and_folders_as_without_us():
    Path("theirs").mkdir()
    Path("theirs/sitecustomize.py").write_text("print('theirs')\n")
    inside = str(Path(start.__file__).parent / "inside")
    asks = "import sys; print([f for f in sys.path if 'inside' in f], 'torch' in sys.modules)"
    for folders, said in ((inside, ""), (f"{inside}{os.pathsep}theirs", "theirs\n")):
        ended = subprocess.run(
            [sys.executable, "-c", asks],
            env={"PYTHONPATH": folders, "SCALEMARK_PARTS_DIR": str(Path.cwd())},
            capture_output=True,
            text=True,
            check=True,
        )
        assert (ended.stdout, ended.stderr) == (f"{said}[] False\n", "")
    assert list(Path().glob("parts-*")) == []
