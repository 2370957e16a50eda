"""`batch_size=max` and `+axes.mbs=max(1,64)` find what an exhaustive search finds, once."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from scalemark.records.trial import TrialSpec
from simulator.costs.box import Hardware
from simulator.costs.step import costs
from tests.forked_sweeps import SCRIPTED, ran

pytestmark = pytest.mark.integration

TINY = [sys.executable, SCRIPTED, "sweep.name=s"]
PROGRAM = """
import os, pathlib, sys, time
batch, limit, mood = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
seen = pathlib.Path(f"seen-{batch}")
if mood == "hangs" and batch > limit:
    time.sleep(600)
if batch > limit or (mood == "varies" and batch == limit and seen.exists()):
    raise SystemExit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB")
if mood == "varies":
    seen.touch()
if mood == "fails" or (mood == "odd" and batch % 2):
    raise SystemExit("KeyError: 'no such thing'")
for step in range(5):
    print(f"images/sec: {100 * min(batch, 8) + step}", flush=True)
"""
OUT_OF_MEMORY = 902  # a seed of tests.tiny_trainer, whose batches are 4 at most


def sweep(*arguments: str, name: str = "s") -> subprocess.CompletedProcess[str]:
    return ran(SCRIPTED, f"sweep.name={name}", *arguments)


def program(*arguments: str) -> subprocess.CompletedProcess[str]:
    Path("train.py").write_text(PROGRAM)
    given = (
        f"command={sys.executable} train.py {{mbs}} {{limit}} {{mood}}",
        "read=regex:images/sec: ([0-9.]+)",
        "hardware=cpu",
        "launcher.share_host=true",
    )
    return sweep(*given, *arguments)


def rows(query: str) -> list[tuple]:
    with closing(sqlite3.connect("results.db")) as connection:
        return connection.execute(query).fetchall()


def frontier(stdout: str, *, cell: str) -> str:
    """What the table of the largest values says of a cell."""
    (line,) = [line for line in stdout.splitlines() if cell in line.split()]
    return " ".join(line.split())


def test_ten_cells_of_a_program_have_the_batch_of_an_exhaustive_search():
    limits = (0, 1, 2, 7, 8, 31, 33, 63, 64, 99)
    asked = ",".join(map(str, limits))
    done = program("+axes.mbs=max(1,64)", f"+axes.limit={asked}", "+axes.mood=good")
    assert " CPU devices largest mbs " in frontier(done.stdout, cell="beyond")
    for limit in limits:
        found = frontier(done.stdout, cell=f"limit={limit}")
        what = f"{min(limit, 64)} "
        if not limit:
            what = "none 1 out of memory"
        assert f"mood=good 1 {what}" in found, done.stderr
    attempts = rows(
        "SELECT count(*) FROM attempts JOIN sweeps ON sweeps.id = sweep_id JOIN trials ON "
        "trials.id = trial_id WHERE sweeps.name = 's.search' GROUP BY "
        "json_extract(trials.spec, '$.free.limit')"
    )
    assert len(attempts) == len(limits)
    assert max(attempts)[0] <= 8


def test_ten_cells_of_models_have_the_batch_of_an_exhaustive_search():
    models = ("resnet50", "vgg16", "alexnet", "inception3", "resnet152")
    done = sweep(
        *("engine=simulated", "hardware=p100_pcie_8", f"model={','.join(models)}"),
        *("strategy=ps_cpu,replicated_nccl", "num_gpus=4", "batch_size=max(16,1024,16)"),
        "launcher.share_host=true",
    )
    assert done.returncode == 0, done.stderr
    ((hardware,),) = rows("SELECT hardware_profile FROM machines")
    box = Hardware.from_json(hardware)
    found = [
        TrialSpec.from_json(text)
        for (text,) in rows(
            "SELECT spec FROM trials JOIN attempts ON trials.id = trial_id WHERE deleted_at IS NULL"
        )
    ]
    assert {spec.model for spec in found} == set(models)
    assert len(found) == 10, "attempts of few steps count nowhere"
    for spec in found:
        fitting = []
        for batch_size in range(16, 1025, 16):
            needed = costs(replace_batch(spec, batch_size), box).memory_bytes
            if needed <= box.memory_gib * 2**30:
                fitting.append(batch_size)
        assert spec.batch_size == max(fitting)
    tried = rows(
        "SELECT count(*) FROM attempts JOIN trials ON trials.id = trial_id WHERE deleted_at IS NOT "
        "NULL GROUP BY model, variable_update"
    )
    assert len(tried) == 10
    assert max(tried)[0] <= 8


def replace_batch(spec: TrialSpec, batch_size: int) -> TrialSpec:
    return TrialSpec.of_axes({**spec.axes, "batch_size": batch_size})


def test_a_search_that_was_killed_tries_nothing_twice():
    words = ("hardware=cpu", "model=trivial", f"seed={OUT_OF_MEMORY}", "batch_size=max(1,64)")
    with Path("killed.txt").open("w") as log:
        running = subprocess.Popen([*TINY, *words], stderr=log, stdout=log)
    while running.poll() is None and Path("killed.txt").read_text().count("search: tries") < 3:
        time.sleep(0.02)
    os.kill(running.pid, signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL
    done = sweep(*words)
    assert done.returncode == 0, done.stderr
    assert " 1 4 " in frontier(done.stdout, cell="trivial")
    ended = rows(
        "SELECT batch_size, outcome FROM attempts JOIN trials ON trials.id = trial_id "
        "WHERE outcome IN ('completed', 'out_of_memory')"
    )
    tried = sorted(batch for batch, _ in ended)
    assert tried == sorted([*set(tried), 4]), "one attempt each, and 4 was measured, too"
    again = sweep(*words, name="other")
    assert "search: tries" not in again.stderr
    assert "1 finished earlier" in again.stderr


def test_bad_programs_are_said_as_what_they_are():
    done = program(
        "+axes.mbs=max(4,6)",
        "+axes.limit=5",
        "+axes.mood=hangs,varies,fails,odd",
        *("launcher.timeout_s=20", "launcher.grace_s=0.2", "sweep.repeats=2"),
    )
    assert done.returncode == 1
    assert " 1 5 " in frontier(done.stdout, cell="mood=hangs"), done.stderr
    assert frontier(done.stdout, cell="mood=hangs").endswith("6 timed out")
    assert " 1 4 " in frontier(done.stdout, cell="mood=varies")
    assert frontier(done.stdout, cell="mood=varies").endswith("5 out of memory")
    assert frontier(done.stdout, cell="mood=fails").endswith(
        "1 unknown 5 failed, not for lack of memory"
    )
    assert frontier(done.stdout, cell="mood=odd").endswith(
        "1 unknown 5 failed, not for lack of memory"
    )
    odd = program("+axes.mbs=max(1,8)", "+axes.limit=4", "+axes.mood=odd")
    assert frontier(odd.stdout, cell="train.py").endswith(" 3 failed, not for lack of memory"), (
        "4 may run"
    )


def test_the_best_batch_is_the_last_that_gains():
    done = program("+axes.mbs=best(1,64)", "+axes.limit=6,99", "+axes.mood=good")
    assert done.returncode == 0, done.stderr
    assert " 1 4 " in frontier(done.stdout, cell="limit=6")
    assert " 1 8 " in frontier(done.stdout, cell="limit=99")
    assert frontier(done.stdout, cell="limit=99").endswith("no gain")


def test_a_search_within_a_budget_is_measured_with_half_of_it():
    asked = ("+axes.mbs=max(1,64)", "+axes.limit=7,40", "+axes.mood=good", "sweep.repeats=3")
    done = program(*asked, "sweep.budget=1h")
    assert done.returncode == 0, done.stderr
    assert "budget: train.py: fastest so far limit=40 mbs=40 mood=good x1" in done.stderr
    assert frontier(done.stdout, cell="limit=7").endswith("8 out of memory")
    cut = program(*asked, "sweep.budget=0.001s", "sweep.rerun=true")
    assert "it is shorter than one trial, which ran alone" in cut.stderr
    assert frontier(cut.stdout, cell="limit=7").endswith("1 unknown 1 not tried")
    assert frontier(cut.stdout, cell="limit=40").endswith("not tried")


def test_multiples_rules_and_a_margin_are_kept():
    simulated = ("engine=simulated", "hardware=p100_pcie_8", "model=resnet50")
    done = sweep(
        *simulated, "batch_size=max(8,512,8)", "sweep.exclude=batch_size>100", "sweep.margin=0.1"
    )
    assert done.returncode == 0, done.stderr
    assert " 1 80 " in frontier(done.stdout, cell="resnet50")


def test_a_plan_says_between_what_it_will_search():
    done = sweep(
        *("engine=simulated", "hardware=p100_pcie_8", "model=resnet50", "sweep.dry_run=true"),
        *("batch_size=max(8,512,8)", "sweep.budget=2h"),
    )
    assert done.returncode == 0, done.stderr
    assert "surely makes the first attempt of a search; searches take half" in done.stderr
    assert "surely runs 0 attempts" not in done.stdout
    assert (
        "resnet50-replicated_nccl-x1: searches batch_size between 8 and 512 with at most 7 short "
        "attempts, then measures the largest" in done.stderr
    )
    assert not Path("results.db").exists()
