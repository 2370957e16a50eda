"""`python -m benchmarks.starts`: CPU time of commands that read, on a database without attempts.

`python -m benchmarks.starts --sweep model=resnet50,vgg16 num_gpus=1,2,4,8` measures wall time and
peak memory of a sweep instead, all its processes together, on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks import cost
from store.database import open_for_writing

WANTED_S = {
    "--help": 0.4,
    "store list": 0.4,
    "status": 0.4,
    "plots tables --origin published model=vgg16": 0.8,
    "analysis advise": 0.8,
}
REFUSED = 2  # there is no attempt to advise on


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9, help="runs of each command")
    parser.add_argument("--sweep", nargs="+", metavar="OVERRIDE", help="measure this sweep instead")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.sweep:
            print("| sweep | wall s | CPU s | peak GB |\n|---|---:|---:|---:|")
            took = cost.run(cost.sweep("-m", *options.sweep), folder, watch_memory=True)
            figures = f"{took.wall_s:.1f} | {took.cpu_s:.1f} | {took.peak_bytes / 1e9:.2f}"
            print(f"| {' '.join(options.sweep)} | {figures} |")
            return
        print("| scalemark ... | least CPU s | median | wanted |\n|---|---:|---:|---:|")
        open_for_writing(str(folder / "results.db")).dispose()
        for arguments, wanted_s in WANTED_S.items():
            command = [sys.executable, "-m", "scalemark", *arguments.split()]
            cpu_s = []
            for _ in range(options.rounds + 1):
                took = cost.run(command, folder, exit_codes=(0, REFUSED))
                cpu_s.append(took.cpu_s)
            del cpu_s[0]  # it compiles what was never imported
            median_s = statistics.median(cpu_s)
            print(f"| {arguments} | {min(cpu_s):.2f} | {median_s:.2f} | {wanted_s:g} |", flush=True)


if __name__ == "__main__":
    main()
