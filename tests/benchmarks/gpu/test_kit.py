"""The kit runs from start to end on CPU devices, and its grids of GPUs can be planned."""

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from benchmarks.gpu.stages import peers, plain, scaling, xla
from tests.benchmarks.gpu.boxes import H100, V100, box
from tests.conftest import PROJECT
from tests.ran import ran
from tests.sweeper import fake_box

pytestmark = pytest.mark.integration


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.gpu", "--device", "cpu", *arguments]
    return ran(command, cwd=PROJECT)


def test_stages_leave_numbers_verdicts_a_report_and_a_file_to_attach(tmp_path):
    out, answers = tmp_path / "kit", tmp_path / "answers.json"
    stages = ("--stages", "smoke,scaling", "--minutes", "9")
    ended = run(*stages, "--out", str(out), "--json", str(answers))
    assert ended.returncode == 0, ended.stderr
    printed = ended.stdout.splitlines()
    assert any(line.startswith("smoke  lenet5 fp32 batch 16 NHWC: ") for line in printed)
    for strategy in ("replicated_none", "replicated_ring", "process_per_gpu_ring"):
        assert f"scaling  lenet5 fp32 batch 16 NHWC {strategy} on 2, efficiency: " in ended.stdout
    assert printed[-1] == "3 met, 0 missed, 0 open, 12 not run"
    lines = {line["line"]: line for line in json.loads(answers.read_text())["lines"]}
    assert (lines["trial"]["verdict"], lines["pinning"]["verdict"]) == ("met", "not run")
    assert (lines["sums"]["verdict"], lines["sums"]["why"]) == ("met", "4 of 4 trials")
    assert (lines["losses"]["verdict"], lines["efficiency"]["verdict"]) == ("met", "not run")
    assert "| a trial runs from start to end | **met** |" in (out / "report.md").read_text()
    with tarfile.open(out / "gpu-kit.tar.gz") as archive:
        assert {"gpu-kit/report.md", "gpu-kit/kit.json", "gpu-kit/results.db"} <= set(
            archive.getnames()
        )


def test_gpus_that_tensorflow_does_not_see_pass_nothing(tmp_path):
    """The driver lists them, as where CUDA's libraries are missing: nothing may run on the CPU instead."""
    found = tmp_path / "found.json"
    ended = ran(
        [
            *(sys.executable, "-m", "benchmarks.gpu", "--device", "gpu", "--stages", "smoke"),
            *("--out", str(tmp_path / "kit"), "--json", str(found), "--minutes", "9"),
        ],
        env=fake_box.make(tmp_path, num_gpus=2),
    )
    assert ended.returncode == 1, ended.stderr
    verdicts = {line["line"]: line["verdict"] for line in json.loads(found.read_text())["lines"]}
    assert verdicts.pop("trial") == "missed"
    assert set(verdicts.values()) == {"not run"}
    assert "TensorFlow sees 0 GPUs where the trial wants 1" in ended.stdout


@pytest.mark.parametrize(
    "overrides",
    [
        plain.grid(box(H100)),
        [*xla.grid(box(V100)), *peers.images_grid(box(V100))[-3:]],
        *peers.tokens_grids(box(H100)),
        scaling.grid(box(*8 * [H100])),
    ],
    ids=lambda overrides: " ".join(overrides)[:60],
)
def test_what_is_swept_on_gpus_can_be_planned(overrides):
    """By the cost model, which knows nothing of the time of warm-up: no GPU is at hand."""
    overrides = [one for one in overrides if not one.startswith("min_warm_up_s=")]
    simulated = ["engine=simulated", "hardware=h100_8", "sweep.dry_run=true"]
    ended = ran([sys.executable, str(PROJECT / "sweep.py"), "-m", *overrides, *simulated])
    assert ended.returncode == 0, ended.stderr
    assert Path("results.db").exists() is False
