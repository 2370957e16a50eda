"""Servers of tests that end with who started them, however that ends: each is started by a supervisor, a program of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept(what: str, *command: str) -> Iterator[str]:
    """The folder that the supervisor prints once its server runs; it is reported to stop in the end, or finds its input closed."""
    supervisor = subprocess.Popen(
        [sys.executable, "-I", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C and kills of our process group do not reach it
    )
    with supervisor:
        assert supervisor.stdin
        assert supervisor.stdout
        folder = supervisor.stdout.readline().strip()
        if not folder:
            raise RuntimeError(f"{what} did not start; stderr says why")
        try:
            yield folder
        finally:
            supervisor.stdin.write(
                "stop\n"
            )  # closing is not enough while a forked child holds the pipe, too
    if supervisor.returncode:
        raise RuntimeError(f"{what} in {folder} did not stop cleanly; stderr says why")
