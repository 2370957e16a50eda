"""Runs one attempt: a trainer process in its own session, watched until it ends, its end turned into an outcome."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from store.records import TRAINER_EXIT_CODES, Outcome, Result, RunFolder

PROJECT_ROOT = Path(__file__).resolve().parent.parent
LOOK_EVERY_S = 0.5  # how often progress is shown; the end of the process is noticed at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How the process of an attempt ended."""

    exit_code: int  # -N: by signal N
    duration_s: float
    timed_out: bool
    interrupted: bool
    out_of_memory: bool  # the kernel killed something of this control group for memory meanwhile


def run_process(
    folder: RunFolder,
    *,
    visible_devices: str,
    timeout_s: float,
    grace_s: float,
    on_look: Callable[[], None],
    command: tuple[str, ...] = (sys.executable, "-m", "trainer"),
) -> Ended:
    """Start `python -m trainer` on the folder's trial.json and wait for it.

    On time-out and on KeyboardInterrupt the whole process group is ended, by SIGTERM and after `grace_s` by SIGKILL.
    """
    oom_kills = _oom_kills()
    start = time.monotonic()
    with folder.log.open("ab") as log:
        process = subprocess.Popen(
            [*command, str(folder.trial), str(folder.path)],
            env=_environment(os.environ, visible_devices),
            cwd=folder.path,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    timed_out = interrupted = False
    try:
        timed_out = not _wait(process, timeout_s, on_look)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        _end_group(process, grace_s)
    return Ended(
        exit_code=process.returncode,
        duration_s=time.monotonic() - start,
        timed_out=timed_out,
        interrupted=interrupted,
        out_of_memory=_oom_kills() > oom_kills,
    )


def result_of(folder: RunFolder, ended: Ended, timeout_s: float) -> Result:
    """What the attempt came to: what the trainer wrote, or what its end tells."""
    written = folder.read_result()
    if written and not ended.interrupted and TRAINER_EXIT_CODES.get(ended.exit_code) == written.outcome:
        return written
    outcome, message = _judge(ended, timeout_s)
    if outcome is Outcome.FAILED and (last := _last_line(folder.log)):
        message = f"{message}: {last}"
    return Result(outcome=outcome, message=message, measurement=None, op_placement={})


def _judge(ended: Ended, timeout_s: float) -> tuple[Outcome, str]:
    if ended.interrupted:
        return Outcome.INTERRUPTED, "the sweep was interrupted"
    if ended.timed_out:
        return Outcome.TIMED_OUT, f"not finished within launcher.timeout_s={timeout_s:g}"
    if ended.exit_code == -signal.SIGKILL and ended.out_of_memory:
        return Outcome.OUT_OF_MEMORY, "killed by the kernel for lack of host memory"
    if ended.exit_code < 0:
        return Outcome.FAILED, f"ended by {signal.Signals(-ended.exit_code).name}"
    return Outcome.FAILED, f"ended with exit code {ended.exit_code} and left no result"


def _environment(inherited: Mapping[str, str], visible_devices: str) -> dict[str, str]:
    kept = {name: value for name, value in inherited.items() if name != "HYDRA_FULL_ERROR"}
    python_path = os.pathsep.join(filter(None, [str(PROJECT_ROOT), inherited.get("PYTHONPATH")]))
    return kept | {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": visible_devices,
        "PYTHONPATH": python_path,
    }


def _wait(process: subprocess.Popen[bytes], timeout_s: float, on_look: Callable[[], None]) -> bool:
    """True when the process ended in time. Sleeps in the kernel: nobody polls beside a measurement."""
    deadline = time.monotonic() + timeout_s
    descriptor = os.pidfd_open(process.pid)
    try:
        while (left_s := deadline - time.monotonic()) > 0:
            ready, _, _ = select.select([descriptor], [], [], min(LOOK_EVERY_S, left_s))
            if ready:
                process.wait()
                return True
            on_look()
    finally:
        os.close(descriptor)
    return False


def _end_group(process: subprocess.Popen[bytes], grace_s: float) -> None:
    """End what is left of the process and its children; its group has its number because it leads a session."""
    try:
        if process.poll() is None:
            _signal_group(process.pid, signal.SIGTERM)
            process.wait(grace_s)
    except subprocess.TimeoutExpired:
        pass  # it did not listen
    finally:  # also when a second Ctrl-C cuts the grace short
        _signal_group(process.pid, signal.SIGKILL)
        process.kill()  # should it ever not lead the group
        process.wait()


def _signal_group(group: int, which: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # nothing is left of it, which is what was wanted
        os.killpg(group, which)


def _oom_kills() -> int:
    """How many processes of our control group the kernel has killed for memory; 0 where it does not say."""
    try:
        group = Path("/proc/self/cgroup").read_text().strip().rpartition(":")[2]
        events = Path(f"/sys/fs/cgroup{group}/memory.events").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in events.splitlines() if line.startswith("oom_kill ")), 0)


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
