"""A program over several hosts is one process per host, which end together."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from command.measuring import NEVER_CHANGES
from scalemark.records.attempt import RANK_LOST
from scalemark.records.machine import DeviceKind
from tests.command.programs import CODES, begin, run, script, spec_of
from tests.slurm import until
from tests.sweeper.processes import assert_gone

pytestmark = pytest.mark.integration

TRAINS = """
import sys, time
rank, num_hosts, main_host, port, per_host, _ = sys.argv[1:]
print("host", rank, "of", num_hosts, "meets at", main_host, port, "with", per_host, flush=True)
for step in range(40):
    print(f"step {step} rate 1000", flush=True)
    time.sleep(0.03)
"""
PLACES = " {host_rank} {num_hosts} {main_host} {free_port} {gpus_per_host} {run_dir}"


def over_two(text: str, **changes):
    return spec_of(script(text) + PLACES, hosts=2, **changes)


def test_each_host_runs_the_program_and_the_first_is_measured():
    result, folder = run(over_two(TRAINS, num_gpus=4))
    assert result.outcome == "completed", folder.log.read_text()
    assert result.measurement.throughput == pytest.approx(1000)
    assert result.measurement.cores_taken_by_others is None
    first = next(line for line in folder.log.read_text().splitlines() if "meets" in line)
    (second,) = (folder.path / "log-worker-1.txt").read_text().splitlines()[:1]
    assert first.startswith("host 0 of 2 meets at 127.0.0.1 ")
    assert second == first.replace("host 0", "host 1")
    assert first.endswith(" with 2")


def test_gpus_that_were_watched_on_the_first_host_only_are_said():
    result, _ = run(over_two(TRAINS, num_gpus=4, device_kind=DeviceKind.GPU))
    said = "clocks and neighbors of GPUs were watched on the first of 2 hosts only"
    assert (result.outcome, result.message) == ("completed", f"{said}; {NEVER_CHANGES}")


STEPS = """
import sys, time
from pathlib import Path
for step in range(40):
    print(f"step {step} rate 1000", flush=True)
    time.sleep(0.01)
"""
LATE = f"""{STEPS}
import os, signal
while sys.argv[1] == "1" and not Path(sys.argv[6], "result.json").exists():
    time.sleep(0.01)
"""
SAVES = f"""{LATE}
time.sleep(0.5)
print("saved", flush=True)
Path("ended-" + sys.argv[1]).touch()
"""


def test_other_hosts_may_finish_after_the_first():
    result, folder = run(over_two(SAVES))
    assert result.outcome == "completed", folder.log.read_text()
    assert "saved" in (folder.path / "log-worker-1.txt").read_text().splitlines()
    assert Path("ended-1").exists()


FAILS_LATE = f"""{LATE}
if sys.argv[1] == "1":
    time.sleep(1)  # the first has its result, and ends
    if sys.argv[-1] == "signal":
        os.kill(os.getpid(), signal.SIGABRT)
    raise ValueError("cannot save")
"""


def test_a_host_that_fails_after_the_first_has_ended_fails_the_trial():
    """A bug: such trials were completed and valid."""
    result, _ = run(over_two(FAILS_LATE))
    assert (result.outcome, result.measurement) == ("failed", None)
    said = "rank worker-1 ended with exit code 1, though worker-0 completed; see log-worker-1.txt"
    assert result.message.startswith(said)
    assert "ValueError: cannot save" in result.message


def test_one_that_a_signal_ends_after_the_first_is_worth_another_attempt():
    spec = over_two(FAILS_LATE)
    process, folder = begin(replace(spec, command=f"{spec.command} signal"))
    assert process.wait() == RANK_LOST
    result = folder.read_result()
    said = "rank worker-1 ended by a signal, though worker-0 completed; see log-worker-1.txt"
    assert (result.outcome, result.message) == ("failed", said)


FAILS = """
import os, sys, time
from pathlib import Path
print("step 0 rate 100", flush=True)
Path(f"pid-{sys.argv[1]}").write_text(str(os.getpid()))
if sys.argv[1] == "1":
    while not Path("pid-0").exists():
        time.sleep(0.01)
    raise ValueError("no route to host 0")
time.sleep(600)
"""


def test_a_host_that_fails_ends_the_others_and_is_named():
    result, _ = run(over_two(FAILS))
    assert result.outcome == "failed"
    assert result.message == (
        "rank worker-1 ended with exit code 1; see log-worker-1.txt: "
        "failed: the program ended with exit code 1: ValueError: no route to host 0"
    )
    for rank in (0, 1):
        assert_gone(int(Path(f"pid-{rank}").read_text()))


CRASHES = """
import os, signal, sys, time
print("step 0 rate 100", flush=True)
if sys.argv[1] == sys.argv[-1]:
    os.kill(os.getpid(), signal.SIGSEGV)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("host", "said"),
    [
        (0, "the program was ended by SIGSEGV: step 0 rate 100"),
        (1, "rank worker-1 ended by a signal; see log-worker-1.txt"),
    ],
)
def test_a_signal_on_any_host_is_worth_another_attempt(host, said):
    spec = over_two(CRASHES)
    process, folder = begin(replace(spec, command=f"{spec.command} {host}"))
    assert process.wait() == RANK_LOST
    result = folder.read_result()
    assert (result.outcome, result.message) == ("failed", said)


WAITS = """
import os, subprocess, sys, time
from pathlib import Path
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
Path(f"pids-{sys.argv[1]}.draft").write_text(f"{os.getpid()} {child.pid}")
os.rename(f"pids-{sys.argv[1]}.draft", f"pids-{sys.argv[1]}")
print("step 0 rate 100", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_of_any_host_outlives_what_started_it(number):
    process, folder = begin(over_two(WAITS))
    pids = []
    for file in (Path("pids-0"), Path("pids-1")):
        until(file.exists)
        pids += file.read_text().split()
    os.kill(process.pid, number)
    code = process.wait()
    for pid in pids:
        assert_gone(int(pid))
    if number == signal.SIGINT:
        assert CODES[code] == folder.read_result().outcome == "interrupted"
