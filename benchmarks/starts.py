"""`python -m benchmarks.starts`: CPU time of commands that read, on a database without attempts."""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from store.database import open_for_writing

WANTED_S = {
    "--help": 0.4,
    "store list": 0.4,
    "status": 0.4,
    "plots tables --origin published model=vgg16": 0.8,
    "analysis advise": 0.8,
}


def cpu_s(command: Sequence[str], folder: Path) -> float:
    """Return the user and system time of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="runs of each command")
    rounds = parser.parse_args().rounds
    print("| scalemark ... | least CPU s | median | wanted |\n|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        open_for_writing(str(folder / "results.db")).dispose()
        for arguments, wanted_s in WANTED_S.items():
            command = [sys.executable, "-m", "scalemark", *arguments.split()]
            cpu_s(command, folder)  # compiles what was never imported
            found = [cpu_s(command, folder) for _ in range(rounds)]
            median = statistics.median(found)
            print(f"| {arguments} | {min(found):.2f} | {median:.2f} | {wanted_s:g} |")


if __name__ == "__main__":
    main()
