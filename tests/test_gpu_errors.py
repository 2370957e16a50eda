"""Errors of GPUs, as the user of a sweep sees them: real processes, and a driver that answers from files."""

import pytest

from tests.test_gpus_of_others import Sweep, rows

pytestmark = pytest.mark.integration

PROGRAM = """
import os, pathlib, sys, time

run_dir, fails = pathlib.Path(sys.argv[1]), {fails}
xid = pathlib.Path(os.environ["SCALEMARK_TEST_BOX"]) / os.environ["CUDA_VISIBLE_DEVICES"] / "xid"

def is_written(name):
    return (run_dir / name).exists() and (run_dir / name).read_text()

step, happens = 0, False
while step < 40 or not is_written("gpu_errors.jsonl"):
    time.sleep(0.02)
    step += 1
    print(f"step {{step}} of ours", flush=True)
    if not happens and is_written("telemetry.jsonl"):
        xid.with_suffix(".draft").write_text("{xid}")
        xid.with_suffix(".draft").rename(xid)
        happens = True
sys.exit(3 if fails else 0)
"""


def swept(*, fails: bool, xid: int) -> str:
    sweep = Sweep(1, "num_gpus=1", program=PROGRAM.format(fails=fails, xid=xid))
    sweep.start()
    sweep.process.wait()
    return sweep.text


def test_a_failure_names_the_error_that_its_gpu_reported():
    text = swept(fails=True, xid=79)
    said = "GPU-0 reported Xid 79 (see docs.nvidia.com/deploy/xid-errors)"
    ((outcome, message),) = rows("SELECT outcome, message FROM attempts")
    assert outcome == "failed", text
    assert message.startswith("the program ended with exit code 3: ")
    assert message.endswith(f"; {said}")


def test_a_number_beside_an_error_is_suspect():
    text = swept(fails=False, xid=63)
    ((verdict, reasons),) = rows("SELECT verdict, verdict_reasons FROM measurements")
    assert verdict == "suspect", text
    assert "GPU-0 reported Xid 63 (" in reasons
