"""Whatever is killed, stopped, locked or filled: the repeated command completes every repeat exactly once, and leaves nothing."""

import subprocess
from pathlib import Path

import pytest

from tests.fault_campaign import FAULTS, PROGRAM_FAULTS, campaign, possible, small_disk

pytestmark = pytest.mark.integration

KILL, SIDE_BY_SIDE = "kill -9 orchestrator", "launcher.share_host=true"
LOCK = "locked database"
OF_PROGRAMS = [
    *(KILL, "kill -9 program", "kill -9 trainer", "kill -9 watcher and guard"),
    *("SIGTERM sweep, running", "SIGINT sweep, running", "SIGINT twice sweep, running"),
]
WHILE_IT_LOADS_AND_DRAWS = ["SIGINT sweep, imports", "SIGHUP sweep, drawing"]

SHORT = {  # what is swept, which faults, and how
    "kills and locks": ("tensorflow", [KILL, "kill -9 trainer", LOCK], {}),
    "struck in any phase": ("tiny", (), {"num_faults": 3, "seed": 2}),
    "a program": ("program", OF_PROGRAMS, {"seed": 3}),
    "loading and drawing": ("simulated", WHILE_IT_LOADS_AND_DRAWS, {"seed": 1}),
}
BESIDE = {"overrides": [SIDE_BY_SIDE], "num_rivals": 2}
MANY = {"num_trials": 4, "repeats": 2}
OF_WATCHER = [*PROGRAM_FAULTS, "kill -9 trainer", "SIGSTOP trainer", LOCK]
LONG = {
    "everything breaks once": ("tensorflow", (), {"num_faults": len(FAULTS), "repeats": 2}),
    "a sweep beside a killed one": ("tensorflow", [KILL], {"seed": 1, **BESIDE}),
    "forked attempts": ("tensorflow", (), {"num_faults": 5, **MANY}),
    "spawned attempts": (
        "tensorflow",
        (),
        {"num_faults": 2, "overrides": ["launcher.start=spawn"], **MANY},
    ),
    "two sweeps at once": ("tensorflow", (), {"num_faults": 4, "num_rivals": 2, **MANY}),
    "two sweeps side by side": ("tensorflow", (), {"num_faults": 4, **BESIDE, **MANY}),
    "a forked program": ("program", OF_WATCHER, {"overrides": ["launcher.start=fork"]}),
    "a spawned program": ("program", OF_WATCHER, {"overrides": ["launcher.start=spawn"]}),
    "a program in all phases": ("program", possible("program"), {}),
    "two programs in all phases": ("program", possible("program"), {"num_rivals": 2}),
    "two sweeps are struck": ("tiny", (), {"num_faults": 3, "seed": 4, "num_rivals": 2}),
    "all strikes": ("tiny", possible("tiny"), {}),
    "all strikes on two": ("tiny", possible("tiny"), {"num_rivals": 2}),
    "all strikes on what draws": ("simulated", possible("simulated"), {}),
}
CASES = [
    *(pytest.param(*case, id=name) for name, case in SHORT.items()),
    *(pytest.param(*case, id=name, marks=pytest.mark.slow) for name, case in LONG.items()),
]


@pytest.mark.parametrize(("swept", "faults", "how"), CASES)
def test_every_repeat_is_completed_once(tmp_path: Path, swept, faults, how):
    fills_disk = swept == "tensorflow" and not faults
    mounted = fills_disk and small_disk(tmp_path, 200)
    try:
        asked = campaign(swept, tmp_path, faults, **{"seed": 5, **how})
        asked.run()
        assert asked.problems() == []
        assert asked.injected.total() == asked.num_faults
        if len(faults) == asked.num_faults:
            assert set(asked.injected) == set(faults)
        assert swept != "simulated" or list(tmp_path.glob("figures/*.png"))
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)
