"""A fault in an unmodified program is named, and of a healthy one nothing wrong is said."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.ran import ran

TORCH = PROJECT / ".venv-torch" / "bin"  # scripts/install-torch makes it
LINES = "regex:step (?P<step>[0-9]+) .*samples/s (?P<throughput>[0-9.]+)"
CAUSES = {"input-bound", "host-bound", "launch-bound", "communication-bound", "slow replica"}
needs_torch = pytest.mark.skipif(not TORCH.exists(), reason="scripts/install-torch was not run")
TORCHRUN = "torchrun --nproc-per-node {num_gpus} --master-port {free_port}"
pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("program", "num_devices", "faults"),
    [
        pytest.param(
            "python torch",
            1,
            {
                "none": None,
                "worker": "input-bound",
                "sleep": "host-bound",
                "kernels": "launch-bound",
            },
            marks=needs_torch,
        ),
        pytest.param(
            f"{TORCHRUN} torch",
            2,
            {"none": None, "rank": "slow replica", "link": "communication-bound"},
            marks=needs_torch,
        ),
        ("python keras", 1, {"python": "host-bound", "eager": "launch-bound"}),
        ("python keras", 2, {"none": None, "input": "input-bound"}),
        (
            "python jax",
            1,
            {
                "beside": None,  # what the host does costs nothing while devices compute
                "input": "input-bound",
                "eager": "launch-bound",
            },
        ),
        ("python jax", 2, {"sleep": "host-bound"}),
    ],
)
def test_a_fault_is_named(program, num_devices, faults):
    launcher, _, framework = program.rpartition(" ")
    script = f"{PROJECT}/tests/{framework}_faults.py"
    read = "keras" if framework == "keras" else LINES
    scripts = TORCH if framework == "torch" else Path(sys.executable).parent
    run = f"{launcher} {script} --fault {{fault}} --devices {{num_gpus}}"
    grid = [f"+axes.fault={','.join(faults)}", f"num_gpus={num_devices}"]
    settings = ["command.takes_apart=true", "command.item=samples", "hardware=cpu"]
    path = os.environ | {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    for arguments in (
        ["sweep", "-m", f"command.run={run}", f"read={read}", *grid, *settings],
        ["explain", "--json"],
    ):
        ended = ran([sys.executable, "-m", "scalemark", *arguments], env=path)
        assert ended.returncode == 0, ended.stdout + ended.stderr
    named = {}
    for explanation in json.loads(ended.stdout):
        fault = explanation["target"]["axes.fault"]
        named[fault] = explanation["diagnosis"]["bound"]
    # where other programs take the cores, contention is right of one that is healthy, or launches
    healthy = {fault for fault, bound in faults.items() if bound is None}
    assert CAUSES.isdisjoint(named.pop(fault) for fault in healthy)
    if named.get("eager") == "contention":
        named["eager"] = "launch-bound"
    assert named == {fault: bound for fault, bound in faults.items() if bound}
