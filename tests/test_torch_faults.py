"""A fault in an unmodified program of PyTorch is named, and of a healthy one nothing wrong is said."""

import json
import os
import sys

import pytest

from tests.conftest import PROJECT
from tests.ran import ran

TORCH = PROJECT / ".venv-torch" / "bin"  # scripts/install-torch makes it
READ = "read=regex:step (?P<step>[0-9]+) .*samples/s (?P<throughput>[0-9.]+)"
CAUSES = {"input-bound", "host-bound", "launch-bound", "communication-bound", "slow replica"}
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not TORCH.exists(), reason="scripts/install-torch was not run"),
]


@pytest.mark.parametrize(
    ("program", "num_ranks", "faults"),
    [
        (
            "python",
            1,
            {
                "none": None,
                "worker": "input-bound",
                "sleep": "host-bound",
                "kernels": "launch-bound",
            },
        ),
        (
            "torchrun --nproc-per-node {num_gpus} --master-port {free_port}",
            2,
            {"none": None, "rank": "slow replica", "link": "communication-bound"},
        ),
    ],
    ids=["alone", "two ranks"],
)
def test_a_fault_is_named(program, num_ranks, faults):
    run = f"{program} {PROJECT}/tests/torch_faults.py --fault {{fault}} --ranks {{num_gpus}}"
    grid = [f"+axes.fault={','.join(faults)}", f"num_gpus={num_ranks}"]
    settings = ["command.takes_apart=true", "command.item=samples", "hardware=cpu"]
    path = os.environ | {"PATH": f"{TORCH}{os.pathsep}{os.environ['PATH']}"}
    for arguments in (
        ["sweep", "-m", f"command.run={run}", READ, *grid, *settings],
        ["explain", "--json"],
    ):
        ended = ran([sys.executable, "-m", "scalemark", *arguments], env=path)
        assert ended.returncode == 0, ended.stdout + ended.stderr
    named = {}
    for explanation in json.loads(ended.stdout):
        fault = explanation["target"]["axes.fault"]
        named[fault] = explanation["diagnosis"]["bound"]
    # where other programs take the cores, contention is right of a healthy one
    assert named.pop("none") not in CAUSES
    assert named == {fault: bound for fault, bound in faults.items() if bound}
