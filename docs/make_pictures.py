"""Makes the pictures of README and docs/charts.md from a real sweep: `python -m docs.make_pictures
[RESULTS.db]`.

Without a database it runs the sweep first, in a folder of its own: some four minutes on 2 cores.
The screenshots need chromium (`scripts/install-chromium`).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from analysis.selection import Selection
from plots.pictures import drawing
from plots.pictures.choices import Theme
from plots.source import Source
from tests.browser import find_program, running

PROJECT = Path(__file__).resolve().parent.parent
FOLDER = Path(__file__).resolve().parent / "pictures"
DATABASE = "results.db"
SWEEP = (
    *(
        "-m",
        "model=resnet18_cifar,trivial",
        "num_gpus=1,2,4",
        "strategy=ps_cpu,replicated_none,replicated_pscpu",
    ),
    *("sweep.repeats=3", "sweep.name=pictures"),
)
NUM_COLORS = 64  # small files
WIDTHS_PX = {"report": 1600, "report-narrow": 375}
HEIGHT_PX = 1000


def main(database: Path | None) -> int:
    given = database.resolve() if database else None
    # footers name files as they are named here
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        if given:
            shutil.copy(given, DATABASE)
        else:
            subprocess.run([sys.executable, str(PROJECT / "sweep.py"), *SWEEP], check=True)
        _draw()
        _photograph(Path(folder))
    return 0


def _draw() -> None:
    source = Source(
        selection=Selection(db=DATABASE), command="python -m plots charts --sweep pictures"
    )
    for path in drawing.draw(source, FOLDER, drawing.names()):
        keep(path)
    for path in drawing.draw(source, FOLDER, ("scaling",), themes=(Theme.DARK,)):
        keep(path)


def _photograph(folder: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "plots", "report"],
        check=True,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    program = find_program()
    if program is None:
        raise SystemExit("no chromium on PATH: run scripts/install-chromium")
    with running(program, folder) as browser:
        for name, width_px in WIDTHS_PX.items():
            page = browser.new_page(viewport={"width": width_px, "height": HEIGHT_PX})
            page.goto((folder / "report.html").as_uri())
            page.evaluate("() => window.scalemark.ready")
            path = FOLDER / f"{name}.png"
            page.screenshot(path=path)
            keep(path)


def keep(path: Path) -> None:
    """Small, told, with what the file says of its picture."""
    with Image.open(path) as picture:
        said = PngInfo()
        for name, text in picture.info.items():
            if isinstance(text, str):
                said.add_text(name, text)
        small = picture.convert("RGB").quantize(NUM_COLORS)
        small.save(path, optimize=True, pnginfo=said)
    print(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "database", nargs="?", type=Path, help="draw this one, instead of sweeping anew"
    )
    sys.exit(main(parser.parse_args().database))
