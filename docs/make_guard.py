"""Simulates some months of nights, and writes what `guard` says of them into docs/judging.md:
`python -m docs.make_guard`.

Eight trials are measured each night, with 2 % noise between nights and three regressions, of which
one is mended. The numbers are drawn; they are written as those of a nightly sweep are.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import numpy as np

from analysis.selection import Selection
from docs.make_pictures import FOLDER, keep
from plots import drawing
from plots.source import PlotSource
from scalemark.records.machine import DeviceKind
from scalemark.records.references import Origin
from tests.filled import SIMULATED_MACHINE
from tests.nights import fill_nights, with_packages
from tests.specs import small

PAGE = Path(__file__).resolve().parent / "judging.md"
DATABASE = "results.db"
SEED = 48
NUM_NIGHTS = 120
FIRST = datetime(2026, 3, 1, 2, tzinfo=UTC)
NOISE = 0.02
SLOWER, NCCL_SLOWER, WIDE_SLOWER, MENDED = 30, 95, 55, 75  # the nights from which on
_BLOCK = re.compile(r"^```console\n\$ (scalemark [^\n]+)\n.*?^```$", re.MULTILINE | re.DOTALL)


def write_nights() -> None:
    """Write a sweep each night: the first regression comes with a new version, the others with
    none.
    """
    random = np.random.default_rng(SEED)
    history = {}
    for model, all_reduce, num_gpus in product(("resnet50", "vgg16"), ("nccl", "pscpu"), (1, 8)):
        spec = small(
            model=model,
            all_reduce=all_reduce,
            num_gpus=num_gpus,
            batch_size=64,
            device_kind=DeviceKind.SIMULATED_GPU,
        )
        factors = np.exp(NOISE * random.normal(size=NUM_NIGHTS))
        factors[SLOWER:] *= 0.95
        if all_reduce == "nccl":
            factors[NCCL_SLOWER:] *= 0.96
        if num_gpus == 8:
            factors[WIDE_SLOWER:MENDED] *= 0.92
        history[spec] = [float(300 * num_gpus * factor) for factor in factors]
    software = [with_packages(tensorflow="2.20.0")] * SLOWER + [with_packages(tensorflow="2.21.0")]
    box = (SIMULATED_MACHINE,)
    fill_nights(DATABASE, history, machines=box, environments=software, first=FIRST)


def renewed(page: str) -> str:
    """Return the page with what its commands print on stdout now, in the current folder."""
    return _BLOCK.sub(lambda found: _block(found[1]), page)


def _block(command: str) -> str:
    run = subprocess.run(
        f"{sys.executable} -m {command}",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(PAGE.parent.parent), "PATH": str(Path(sys.executable).parent)},
    )
    if run.returncode not in (0, 1):
        raise SystemExit(run.stderr)
    return f"```console\n$ {command}\n{run.stdout.rstrip()}\n```"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_nights()
        PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        source = PlotSource(
            selection=Selection(db=DATABASE, origin=Origin.SIMULATED),
            command="scalemark chart --chart history",
        )
        for path in drawing.draw(source, FOLDER, ("history",)):
            keep(path)


if __name__ == "__main__":
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    main()
