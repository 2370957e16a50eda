"""The programs of examples/ are swept as their pages say: here those whose library testing has."""

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import PROJECT

EXAMPLES = sorted(path.parent for path in (PROJECT / "examples").glob("*/program.yaml"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_takes_at_most_ten_lines(example):
    text = (example / "program.yaml").read_text()
    assert len(text.splitlines()) <= 10
    assert {"run", "name", "read"} <= yaml.safe_load(text).keys()


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "grid", "columns", "rows"),
    [
        (
            "keras_fit",
            ("num_gpus=2", "optimizer=sgd,adam"),
            "num_gpus, optimizer, item",
            {(2, "sgd", "images"), (2, "adam", "images")},
        ),
        (
            "jax_data_parallel",
            ("num_gpus=1,2", "+axes.width=64"),
            'num_gpus, "axes.width", item',
            {(1, 64, "samples"), (2, 64, "samples")},
        ),
    ],
)
def test_an_example_is_swept(name, grid, columns, rows):
    shutil.copytree(PROJECT / "examples" / name, "example")
    scripts = Path(sys.executable).parent
    swept = subprocess.run(
        [
            *(sys.executable, str(PROJECT / "sweep.py"), "-m", "command=program.yaml"),
            *("batch_size=16", *grid),
        ],
        cwd="example",
        env=os.environ | {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert swept.returncode == 0, swept.stderr
    with sqlite3.connect("example/results.db") as connection:
        found = connection.execute(f"SELECT {columns} FROM throughput WHERE model = ?", [name])
        assert set(found.fetchall()) == rows
