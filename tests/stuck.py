"""What every process of a stuck program is at, for the message of the test that waited for it."""

import os
import select
import signal
import stat
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import psutil

TELLS = {"PYTHONFAULTHANDLER": "1"}
"""In the environment of a program: its Pythons, and what they fork, write their stacks when they are ended."""

END_S = 10.0
MOST_TOLD = 20_000  # characters of what a process wrote


def stacks(pid: int) -> str:
    """All are ended, those below first: Linux ends ranks with the process that started them, and one that is left goes on."""
    family, reported = _suspended(psutil.Process(pid))
    with ExitStack() as stack:
        logs = {}
        for process in family:
            log = Path(f"/proc/{process.pid}/fd/2")
            if process.status() != psutil.STATUS_ZOMBIE and stat.S_ISREG(log.stat().st_mode):
                logs.setdefault(
                    (log.stat().st_dev, log.stat().st_ino),
                    (log.readlink(), stack.enter_context(log.open())),
                )
        for process in family:
            _end(process)
        return "\n".join([*reported, *(f"-- {name}\n{_last(log)}" for name, log in logs.values())])


def of_descriptor(descriptor: int) -> str:
    """The same of the process of a pidfd."""
    lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
    (pid,) = (int(line.split()[1]) for line in lines if line.startswith("Pid:"))
    return stacks(pid) if pid > 0 else "it has ended"


def _suspended(process: psutil.Process) -> tuple[list[psutil.Process], list[str]]:
    """It and all below it, and what each was at. None of them is reaped any more."""
    waits_in = Path(f"/proc/{process.pid}/wchan").read_text()
    own = f"{process.pid} {process.name()}, {process.status()} in {waits_in}: {str(process.cmdline())[:200]}"
    process.suspend()
    below = [_suspended(child) for child in process.children()]
    return [each for family, _ in below for each in family] + [process], [
        own,
        *(line for _, reported in below for line in reported),
    ]


def _end(process: psutil.Process) -> None:
    if process.status() == psutil.STATUS_ZOMBIE:
        return
    descriptor = os.pidfd_open(process.pid)
    process.rlimit(psutil.RLIMIT_CORE, (0, 0))  # gigabytes of TensorFlow
    process.send_signal(signal.SIGABRT)
    process.resume()
    if not select.select([descriptor], [], [], END_S)[0]:
        process.kill()
    os.close(descriptor)


def _last(log: IO[str]) -> str:
    return "\n".join(
        line for line in log.read().splitlines() if not line.startswith("Extension modules: ")
    )[-MOST_TOLD:]
