"""What docs/keras.md says of Keras 3 over several hosts is so: its loop runs, and `fit` does not."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from trainer.ranks import ports

pytestmark = pytest.mark.integration

FIT = """
model.compile(optimizer, loss_of)
model.fit(data.with_options(options), steps_per_epoch=4, verbose=0)
"""


def loop() -> str:
    """Return the page's loop.py."""
    page = (PROJECT / "docs" / "keras.md").read_text()
    (found,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    return found


def run_on_two_workers(script: str) -> list[tuple[int, str]]:
    """Return exit code and output of both."""
    Path("loop.py").write_text(script)
    with ports.reserved(2) as numbers:
        workers = [f"127.0.0.1:{number}" for number in numbers]
        started = [_start(index, workers) for index in range(2)]
        outputs = [each.communicate(timeout=300)[0] for each in started]
    return [(each.returncode, output) for each, output in zip(started, outputs, strict=True)]


def _start(index: int, workers: list[str]) -> subprocess.Popen[str]:
    task = {"type": "worker", "index": index}
    config = json.dumps({"cluster": {"worker": workers}, "task": task})
    return subprocess.Popen(
        [sys.executable, "loop.py"],
        env=os.environ | {"TF_CONFIG": config},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def losses(output: str) -> list[float]:
    (line,) = re.findall(r"^losses (\[.*\])$", output, re.MULTILINE)
    return json.loads(line)


def test_a_loop_of_ones_own_trains_over_two_workers_as_in_one_process():
    ends = run_on_two_workers(loop())
    assert [code for code, _ in ends] == [0, 0], ends
    alone = subprocess.run(
        [sys.executable, "loop.py"], capture_output=True, text=True, timeout=300, check=True
    )
    first, second, expected = (losses(text) for text in (ends[0][1], ends[1][1], alone.stdout))
    assert len(expected) == 8
    assert first == second == pytest.approx(expected, abs=1.5e-4)


def test_fit_does_not_train_over_two_workers():
    """Should this fail, Keras has mended keras#20585: then the page, and this test, must change."""
    before, _, _ = loop().partition("batches = ")
    ends = run_on_two_workers(before + FIT)
    assert [code for code, _ in ends] == [1, 1]
    assert "ValueError: Attempt to convert a value (PerReplica:" in ends[0][1]
