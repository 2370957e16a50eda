"""`python tied.py PID PROGRAM ARGUMENT...` runs PROGRAM, which gets SIGTERM when the process PID,
which started this, dies.

Ray's workers are nicer than others; what is measured is not, where we may say so. A program of its
own, of the standard library: Ray's workers have threads, so no Python may run between their fork
and exec.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h; kept over exec


def main(parent: int, argv: list[str]) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it died before we asked
        sys.exit(128 + signal.SIGTERM)
    _be_as_others()
    os.execv(argv[0], argv)


def _be_as_others() -> None:
    try:
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    except PermissionError:
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        print(
            f"runs at nice {nice}, so that whatever else runs on this host comes first, which only "
            "root may change; start Ray there with RAY_worker_niceness=0 in its environment",
            file=sys.stderr,
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
