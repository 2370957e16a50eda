"""Draws a simulated year of nights, and writes what `guard` says of it into docs/judging.md:
`python -m docs.make_guard`.

The year is one of `benchmarks/guarding/years.py`: 50 trials, three processes a night each, drift, a
season, and three regressions, of which one is mended. It is written as a table, and taken in as
anybody's table would be.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np

from analysis.selection import Selection
from benchmarks.guarding.years import AXES, FIRST, NUM_NIGHTS, Kind, Year, year
from docs.make_pictures import FOLDER, keep
from plots import drawing
from plots.source import PlotSource
from scalemark.records.references import Origin
from scalemark.text.wording import CsvLines

PAGE = Path(__file__).resolve().parent / "judging.md"
TABLE, DATABASE = "nights.csv", "results.db"
KIND = Kind(name="of the page", sizes=(0.05, 0.03, 0.08))
SEED = 48
MENDED_AFTER = 40  # nights, of the last
_BLOCK = re.compile(r"^```console\n\$ (scalemark [^\n]+)\n.*?^```$", re.MULTILINE | re.DOTALL)


def drawn() -> Year:
    """Return the year, whose first two regressions come with new versions, and the third with
    none.
    """
    found = year(KIND, np.random.default_rng(SEED))
    last = found.hits[-1]
    found.logs[last.cells, last.night + MENDED_AFTER :] -= np.log1p(-last.size)
    return found


def rows(of: Year) -> Iterator[list[str]]:
    yield ["date", *AXES[0], "tensorflow", "driver", "images_per_s"]
    first, second, _ = of.hits
    for night in range(NUM_NIGHTS):
        day = str(FIRST + timedelta(days=night))
        tensorflow = "2.20.0" if night < first.night else "2.21.0"
        driver = "570.86" if night < second.night else "580.65"
        for cell, axes in enumerate(AXES):
            value = np.exp(of.logs[cell, night])
            yield [day, *map(str, axes.values()), tensorflow, driver, f"{value:.5g}"]


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
        env={"PYTHONPATH": str(PAGE.parent.parent)},
    )
    if run.returncode not in (0, 1):
        raise SystemExit(run.stderr)
    return f"```console\n$ {command}\n{run.stdout.rstrip()}\n```"


def write_table() -> None:
    with Path(TABLE).open("w", newline="", encoding="utf-8") as file:
        CsvLines(file).write_rows(rows(drawn()))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_table()
        PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        source = PlotSource(
            selection=Selection(db=DATABASE, origin=Origin.ELSEWHERE),
            command="scalemark chart --chart history",
        )
        for path in drawing.draw(source, FOLDER, ("history",)):
            keep(path)


if __name__ == "__main__":
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    main()
