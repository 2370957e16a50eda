"""Wall time and peak memory of the README's main command, all its processes together.

`python benchmarks/main_command.py [OVERRIDE ...]` runs it in a new folder on an otherwise idle
machine and prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)  # beside this file lies another `trainer`

from benchmarks.memory import tree_bytes

SWEEP = ROOT / "sweep.py"
MAIN = ["-m", "model=resnet50,vgg16", "num_gpus=1,2,4,8"]
SAMPLE_EVERY_S = 0.25


def main(overrides: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        process = psutil.Popen([sys.executable, str(SWEEP), *(overrides or MAIN)], cwd=folder)
        peak_bytes = 0
        while True:
            try:
                exit_code = process.wait(SAMPLE_EVERY_S)
                break
            except psutil.TimeoutExpired:
                peak_bytes = max(peak_bytes, tree_bytes(process))
        wall_s = time.monotonic() - start
    print(
        json.dumps(
            {
                "exit_code": exit_code,
                "wall_s": round(wall_s, 1),
                "peak_gb": round(peak_bytes / 1e9, 2),
            }
        )
    )
    return exit_code


if __name__ == "__main__":
    _, overrides = argparse.ArgumentParser(
        usage="%(prog)s [-h] [OVERRIDE ...]", description=__doc__
    ).parse_known_args()
    sys.exit(main(overrides))
