"""The programs of examples/ are swept as their pages say: here those whose library testing has."""

import os
import shutil
import sqlite3
import sys
from pathlib import Path

import pytest

from conf import program
from scalemark.records.machine import DeviceKind
from sweeper.grid.arguments import with_program
from tests.conf.test_resolve import config
from tests.conftest import PROJECT
from tests.ran import ran

TORCH = PROJECT / ".venv-torch" / "bin"  # scripts/install-torch makes it
AXES = {
    "hugging_face": ["+axes.accumulate=4", "+axes.optim=sgd"],
    "jax_data_parallel": ["+axes.width=64"],
    "keras_fit": ["optimizer=sgd"],
    "pytorch_llama": [
        "+axes.parallel=fsdp",
        "+axes.accumulate=2",
        "+axes.checkpoint=no",
        "+axes.compile=no",
    ],
    "tf_cnn_benchmarks": ["+axes.update=replicated"],
}


@pytest.mark.parametrize("name", AXES)
def test_an_example_is_a_trial_in_at_most_ten_lines(name):
    path = PROJECT / "examples" / name / "program.yaml"
    assert len(path.read_text().splitlines()) <= 10
    arguments = with_program([f"command={path}", "num_gpus=2", "batch_size=32", *AXES[name]])
    spec = program.trial_of(config(*arguments), DeviceKind.CPU_DEVICE)
    assert (spec.model, spec.batch_size, spec.num_gpus) == (name, 32, 2)


def test_every_example_is_known():
    assert {path.parent.name for path in PROJECT.glob("examples/*/program.yaml")} == set(AXES)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "grid", "columns", "rows"),
    [
        (
            "keras_fit",
            ("num_gpus=2", "batch_size=2", "optimizer=adam"),
            "num_gpus, optimizer, item",
            {(2, "adam", "images")},
        ),
        (
            "jax_data_parallel",
            # of less work a step takes less than its line does, which its rate leaves out
            ("num_gpus=1,2", "batch_size=64", "+axes.width=256"),
            'num_gpus, "axes.width", item',
            {(1, 256, "samples"), (2, 256, "samples")},
        ),
        pytest.param(
            "pytorch_llama",
            (
                *("num_gpus=2", "batch_size=2", "precision=bf16", "+axes.parallel=ddp,fsdp"),
                *("+axes.accumulate=2", "+axes.checkpoint=yes", "+axes.compile=no"),
            ),
            'num_gpus, precision, "axes.parallel", item',
            {(2, "bf16", "ddp", "tokens"), (2, "bf16", "fsdp", "tokens")},
            marks=pytest.mark.skipif(
                not TORCH.exists(), reason="scripts/install-torch was not run"
            ),
        ),
    ],
)
def test_an_example_is_swept(name, grid, columns, rows):
    shutil.copytree(PROJECT / "examples" / name, "example")
    scripts = Path(sys.executable).parent
    if name == "pytorch_llama":
        scripts = TORCH
    swept = ran(
        [
            *(sys.executable, str(PROJECT / "sweep.py"), "-m", "command=program.yaml"),
            *grid,
        ],
        cwd="example",
        env=os.environ | {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"},
    )
    assert swept.returncode == 0, swept.stderr
    with sqlite3.connect("example/results.db") as connection:
        found = connection.execute(f"SELECT {columns} FROM throughput WHERE model = ?", [name])
        assert set(found.fetchall()) == rows
