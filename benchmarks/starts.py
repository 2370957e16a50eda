"""`python -m benchmarks.starts`: CPU time of commands that read, on a database without attempts.

`python -m benchmarks.starts --sweep model=resnet50,vgg16 num_gpus=1,2,4,8` measures wall time and
peak memory of a sweep instead, all its processes together, on an otherwise idle machine.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks import cost
from benchmarks.asking import head, parser, row
from store.database import open_for_writing

WANTED_S = {
    "--help": 0.4,
    "list": 0.4,
    "status": 0.4,
    "table --origin published model=vgg16": 0.5,
    "advise": 0.8,
}
REFUSED = 2  # there is no attempt to advise on


def main() -> None:
    asked = parser(__doc__, rounds="runs of each command (default 9)")
    asked.add_argument("--sweep", nargs="+", metavar="OVERRIDE", help="measure this sweep instead")
    options = asked.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.sweep:
            head("sweep", "wall s", "CPU s", "peak GB")
            took = cost.run(cost.sweep("-m", *options.sweep), folder, watch_memory=True)
            figures = (f"{took.wall_s:.1f}", f"{took.cpu_s:.1f}", f"{took.peak_bytes / 1e9:.2f}")
            row(" ".join(options.sweep), *figures)
            return
        head("scalemark ...", "least CPU s", "median", "wanted")
        open_for_writing(str(folder / "results.db")).dispose()
        for arguments, wanted_s in WANTED_S.items():
            command = [sys.executable, "-m", "scalemark", *arguments.split()]
            cpu_s = []
            for _ in range((options.rounds or 9) + 1):
                took = cost.run(command, folder, exit_codes=(0, REFUSED))
                cpu_s.append(took.cpu_s)
            del cpu_s[0]  # it compiles what was never imported
            median_s = statistics.median(cpu_s)
            row(arguments, f"{min(cpu_s):.2f}", f"{median_s:.2f}", f"{wanted_s:g}")


if __name__ == "__main__":
    main()
