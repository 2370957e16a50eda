"""Runs one attempt: a trainer process in its own session, watched until it ends, its end turned into an outcome."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from store.records import ORCHESTRATOR_VARIABLE, TRAINER_EXIT_CODES, Outcome, Result, RunFolder

PROJECT_ROOT = Path(__file__).resolve().parent.parent
_NO_ERROR = "failed call to cuInit"  # what TensorFlow always says where there is no GPU
_ERROR_LINE = re.compile(r"^[EF]\d{4} |Error\b|Fatal|Check failed|terminate called")
LOOK_EVERY_S = 0.5  # how often progress is shown; the end of the process is noticed at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How the process of an attempt ended."""

    exit_code: int  # -N: by signal N
    duration_s: float
    timed_out: bool
    hung_after: int | None  # the step after which none came for too long; none when it did not hang
    interrupted: bool
    allocation_failed: bool  # a library said std::bad_alloc as its last word
    out_of_memory: bool  # the kernel killed something of this control group for memory meanwhile


def run_process(
    folder: RunFolder,
    *,
    visible_devices: str,
    timeout_s: float,
    step_timeout_s: float,
    grace_s: float,
    on_look: Callable[[], None],
    command: tuple[str, ...] = (sys.executable, "-m", "trainer"),
) -> Ended:
    """Start `python -m trainer` on the folder's trial.json and wait for it.

    On time-out, when no step follows another within `step_timeout_s`, and when `on_look` raises KeyboardInterrupt, the whole
    process group is ended, by SIGTERM and after `grace_s` by SIGKILL.
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
    hung_after = None
    progress = _Progress(folder, step_timeout_s)
    descriptor = os.pidfd_open(process.pid)
    try:

        def look() -> None:
            on_look()
            progress.look()

        timed_out = not _wait(descriptor, timeout_s, look)
    except _HungError as error:
        hung_after = error.last_step
    except KeyboardInterrupt:
        interrupted = True
    finally:
        _end_group(process, descriptor, grace_s)
        os.close(descriptor)
    return Ended(
        exit_code=process.returncode,
        duration_s=time.monotonic() - start,
        timed_out=timed_out,
        hung_after=hung_after,
        interrupted=interrupted,
        allocation_failed="std::bad_alloc" in _last_error(folder.log),
        out_of_memory=_oom_kills() > oom_kills,
    )


def result_of(folder: RunFolder, ended: Ended, timeout_s: float, step_timeout_s: float) -> Result:
    """What the attempt came to: what the trainer wrote, or what its end tells."""
    written = folder.read_result()
    if written and TRAINER_EXIT_CODES.get(ended.exit_code) == written.outcome:
        return written
    outcome, message = _judge(ended, timeout_s, step_timeout_s)
    if outcome is Outcome.FAILED:
        message = f"{message}: {_last_error(folder.log) or 'see log.txt in its run folder'}"
    return Result(outcome=outcome, message=message, measurement=None, op_placement={})


def _judge(ended: Ended, timeout_s: float, step_timeout_s: float) -> tuple[Outcome, str]:
    if ended.interrupted:
        return Outcome.INTERRUPTED, "the sweep was interrupted"
    if ended.timed_out:
        return Outcome.TIMED_OUT, f"not finished within launcher.timeout_s={timeout_s:g}"
    if ended.hung_after is not None:
        return Outcome.HUNG, f"no step within launcher.step_timeout_s={step_timeout_s:g} after step {ended.hung_after}"
    if ended.exit_code == -signal.SIGKILL and ended.out_of_memory:
        return Outcome.OUT_OF_MEMORY, "killed by the kernel for lack of host memory"
    if ended.exit_code == -signal.SIGKILL:
        return Outcome.FAILED, "killed by SIGKILL from outside (perhaps for lack of memory)"
    if ended.exit_code == -signal.SIGABRT and ended.allocation_failed:
        return Outcome.OUT_OF_MEMORY, "out of host memory: std::bad_alloc; try a smaller batch_size or image_px"
    if ended.exit_code < 0:
        return Outcome.FAILED, f"ended by {_signal_name(-ended.exit_code)}"
    return Outcome.FAILED, f"ended with exit code {ended.exit_code} and left no result"


class _HungError(Exception):
    """Steps stopped coming."""

    def __init__(self, last_step: int) -> None:
        super().__init__(last_step)
        self.last_step = last_step


class _Progress:
    """Raises _HungError from `look` when the trainer took steps and then none for too long; building may take its time."""

    def __init__(self, folder: RunFolder, step_timeout_s: float) -> None:
        self._folder, self._step_timeout_s = folder, step_timeout_s
        self._last_step: int | None = None
        self._changed_s = time.monotonic()

    def look(self) -> None:
        if (last_step := self._folder.last_step()) != self._last_step:
            self._last_step, self._changed_s = last_step, time.monotonic()
        elif last_step is not None and time.monotonic() - self._changed_s > self._step_timeout_s:
            raise _HungError(last_step)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # a real-time signal has no name


def _environment(inherited: Mapping[str, str], visible_devices: str) -> dict[str, str]:
    """The trainer runs in its run folder, so folders named relative to ours are made absolute."""
    kept = {name: value for name, value in inherited.items() if name != "HYDRA_FULL_ERROR"}
    if cache := inherited.get("SCALEMARK_CACHE"):
        kept["SCALEMARK_CACHE"] = str(Path(cache).absolute())
    entries = filter(None, inherited.get("PYTHONPATH", "").split(os.pathsep))
    python_path = os.pathsep.join([str(PROJECT_ROOT), *(str(Path(entry).absolute()) for entry in entries)])
    return kept | {
        ORCHESTRATOR_VARIABLE: str(os.getpid()),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": visible_devices,
        "PYTHONPATH": python_path,
    }


def _wait(descriptor: int, timeout_s: float, on_look: Callable[[], None]) -> bool:
    """True when the process ended in time. Sleeps in the kernel: nobody polls beside a measurement."""
    deadline = time.monotonic() + timeout_s
    while (left_s := deadline - time.monotonic()) > 0:
        if _has_ended(descriptor, min(LOOK_EVERY_S, left_s)):
            return True
        on_look()
    return False


def _has_ended(descriptor: int, timeout_s: float) -> bool:
    return bool(select.select([descriptor], [], [], timeout_s)[0])


def _end_group(process: subprocess.Popen[bytes], descriptor: int, grace_s: float) -> None:
    """End what is left of the process and its children; its group has its number because it leads a session.

    The process is reaped last: until then the kernel gives its number to nobody else.
    """
    try:
        if not _has_ended(descriptor, 0):
            _signal_group(process.pid, signal.SIGTERM)
            _has_ended(descriptor, grace_s)
    finally:
        _signal_group(process.pid, signal.SIGKILL)
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


def _last_error(log: Path) -> str:
    """The last line that looks like an error: TensorFlow logs much that is none."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    return next((line[:300] for line in reversed(lines) if _ERROR_LINE.search(line) and _NO_ERROR not in line), "")
