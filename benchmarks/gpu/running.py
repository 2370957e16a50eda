"""Runs the stages one after the other, each in its share of the time, and keeps what they find.

The folder of a kit belongs to one machine and one process at a time.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

import filelock

from benchmarks.gpu.kit import (
    Ended,
    Finding,
    Judged,
    Kit,
    Note,
    NotRunError,
    Number,
    OutOfTimeError,
    StageResult,
    Verdict,
    limited,
    logged,
    say,
)
from benchmarks.gpu.stages import Stage
from benchmarks.trainer import BrokenError
from scalemark.host import software

_IDENTITY = "box.json"  # what the numbers of a folder were made on
_LOCK = "lock"
_HOLDER = "lock-pid"  # who locks a file may empty it first: the number stands in another
AGAIN_S = 1.0  # after which a second Ctrl-C is another; `timeout` sends two signals at once


def minutes(stages: Iterable[Stage], size: str) -> float:
    """Return what these stages should take together on a box of this size."""
    return sum(stage.MINUTES[size] for stage in stages)


def share_s(left_s: float, stages: Sequence[Stage], size: str) -> float:
    """Return what the first of these stages may take: what others leave goes to those after."""
    return max(0.0, left_s) * stages[0].MINUTES[size] / minutes(stages, size)


def run_stages(
    kit: Kit,
    stages: Mapping[str, Stage],
    total_s: float,
    tell: Callable[[str, Finding], None],
) -> Iterator[StageResult]:
    """Run these stages, and write each one's result into the kit's folder once it has ended; an
    interruption ends the last.
    """
    over_s = time.monotonic() + total_s
    names = list(stages)
    for position, name in enumerate(names):
        waiting = [stages[one] for one in names[position:]]
        limit_s = share_s(over_s - time.monotonic(), waiting, kit.box.size)
        say(f"{name}: {stages[name].ABOUT} (up to {limit_s:.0f} s)")
        result = run_stage(kit, name, stages[name], limit_s, tell)
        path = result_file(kit, name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(result.to_json() + "\n")
        yield result
        if result.ended == Ended.INTERRUPTED:
            return


def run_stage(
    kit: Kit, name: str, stage: Stage, limit_s: float, tell: Callable[[str, Finding], None]
) -> StageResult:
    """Run one stage; what it found before it ran out of time, was interrupted or broke is kept."""
    start_s, began_at = time.monotonic(), datetime.now(UTC)
    commit = software.own_checkout()["commit"]
    found: list[Finding] = []
    ended, why = Ended.COMPLETED, ""
    try:
        with limited(limit_s):
            for finding in stage.run(kit):
                found.append(finding)
                tell(name, finding)
    except NotRunError as error:
        ended, why = Ended.NOT_RUN, str(error)
    except OutOfTimeError as error:
        ended, why = Ended.OUT_OF_TIME, str(error)
    except KeyboardInterrupt:
        ended = Ended.INTERRUPTED
        why = f"after {time.monotonic() - start_s:.0f} s; the same command runs the stage again"
    except BrokenError as error:
        ended, why = Ended.BROKEN, logged(kit, f"{name}-broken", str(error))
    except Exception:  # a defect of ours: the other stages and the report are still worth it
        ended, why = Ended.BROKEN, logged(kit, f"{name}-broken", traceback.format_exc())
    judged = {one.line: one for one in found if isinstance(one, Judged)}
    for line in stage.LINES:
        if line not in judged:
            judged[line] = Judged(line=line, verdict=Verdict.NOT_RUN, why=ended.in_words(why))
            tell(name, judged[line])
    return StageResult(
        stage=name,
        ended=ended,
        why=why,
        took_s=round(time.monotonic() - start_s, 1),
        numbers=tuple(one for one in found if isinstance(one, Number)),
        judged=tuple(judged.values()),
        notes=tuple(one for one in found if isinstance(one, Note)),
        began_at=began_at,
        commit=commit,
    )


def result_file(kit: Kit, name: str) -> Path:
    return kit.folder / "stages" / f"{name}.json"


def earlier_results(kit: Kit, names: Sequence[str]) -> dict[str, StageResult]:
    """Return the results of stages that an earlier run of the kit has ended in this folder."""
    found = {}
    for name in names:
        path = result_file(kit, name)
        if path.exists():
            found[name] = StageResult.from_json(path.read_text())
    return found


class ClaimError(Exception):
    """Raised for a folder or file that cannot be used. The text says why, and what to do."""


@contextmanager
def claimed(kit: Kit) -> Iterator[None]:
    """Begin or go on in a folder, and keep others out of it. Raises ClaimError."""
    folder = kit.folder
    try:
        _identify(kit)
        lock = filelock.FileLock(folder / _LOCK, timeout=0)
        lock.acquire()
        (folder / _HOLDER).write_text(str(os.getpid()))
    except filelock.Timeout:
        holder = folder / _HOLDER
        pid = holder.read_text() if holder.exists() else "that has just begun"
        raise ClaimError(
            f"--out {folder}: in use by process {pid}; wait for it, or choose another folder"
        ) from None
    except OSError as error:
        raise ClaimError(
            f"--out {folder}: {error.strerror}; choose a folder that can be written"
        ) from None
    try:
        yield
    finally:
        lock.release()


def check_writable(option: str, path: Path) -> None:
    """Raise ClaimError where a file cannot be written."""
    try:
        if path.is_dir():
            raise ClaimError(f"{option} {path}: a folder, wanted a file")
        path.touch()
    except OSError as error:
        raise ClaimError(
            f"{option} {path}: {error.strerror}; choose a file that can be written"
        ) from None


def found_python(name: str) -> str:
    """Return the whole path of --torch-python. Raises ClaimError where it does not start."""
    path = shutil.which(name)
    if path is None:
        raise ClaimError(f"--torch-python {name}: found no such program, wanted a Python")
    try:
        ended = subprocess.run(
            [path, "-c", "import sys; print(sys.version_info[0])"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        raise ClaimError(f"--torch-python {name}: {error.strerror}; wanted a Python") from None
    if ended.stdout.strip() != "3":
        raise ClaimError(f"--torch-python {name}: found another program, wanted a Python")
    return str(Path(path).absolute())  # not resolved: an environment's is a link


def _identify(kit: Kit) -> None:
    """Write what the numbers of a new folder are made on; compare it in one that is there."""
    identity = {
        "machine": kit.box.machine.key,
        "hardware": kit.box.hardware,
        "gpus": [gpu.uuid for gpu in kit.box.gpus],
    }
    text = json.dumps(identity, indent=1) + "\n"
    path = kit.folder / _IDENTITY
    if path.exists():
        if path.read_text() != text:
            raise ClaimError(
                f"--out {kit.folder}: it has the numbers of another machine or device; choose "
                "another folder"
            )
        return
    if kit.folder.exists() and not kit.folder.is_dir():
        raise ClaimError(f"--out {kit.folder}: a file, wanted a folder")
    if kit.folder.exists() and any(kit.folder.iterdir()):
        raise ClaimError(
            f"--out {kit.folder}: found other files, wanted a new folder or one of the kit's"
        )
    kit.folder.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt in the block at the first of these signals.

    Those that follow change nothing, so that programs are ended and the report is written; but a
    Ctrl-C a second later raises again. SIGHUP is not heard where `nohup` ignores it; SIGINT also
    where a shell has it ignored in the background, as the programs that it shall end would.
    """
    received_s: list[float] = []

    def receive(number: int, _frame: FrameType | None) -> None:
        received_s.append(time.monotonic())
        # else a stage could run out of time while it ends its programs, and the next would begin
        signal.setitimer(signal.ITIMER_REAL, 0)
        is_again = number == signal.SIGINT and received_s[-1] - received_s[0] > AGAIN_S
        if len(received_s) == 1 or is_again:
            raise KeyboardInterrupt

    heard = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        heard.append(signal.SIGHUP)
    before = {number: signal.signal(number, receive) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
