"""Makes the pictures of README and docs/results.md from a simulated sweep, in a folder of its own:
`python -m docs.make_pictures`. The screenshots need chromium (`scripts/install-chromium`).
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from analysis.selection import Selection
from plots import drawing
from plots.source import PlotSource
from scalemark.records.references import Origin
from tests.browser import find_program, running

PROJECT = Path(__file__).resolve().parent.parent
FOLDER = Path(__file__).resolve().parent / "pictures"
DATABASE = "results.db"
SWEEP = (
    *("engine=simulated", "hardware=h100_8", "-m", "model=resnet50,vgg16", "num_gpus=1,2,4,8"),
    *("strategy=ps_cpu,replicated_none,replicated_pscpu,replicated_nccl", "sweep.repeats=4"),
    "sweep.name=pictures",
)
NUM_COLORS = 64  # small files
HEIGHT_PX = 1000


def main() -> int:
    # footers name files as they are named here
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        subprocess.run([sys.executable, str(PROJECT / "sweep.py"), *SWEEP], check=True)
        _draw()
        _photograph(Path(folder))
    return 0


def _draw() -> None:
    source = PlotSource(
        selection=Selection(db=DATABASE, origin=Origin.SIMULATED),
        command="scalemark chart --sweep pictures",
    )
    for path in drawing.draw(source, FOLDER, ("throughput",)):
        keep(path)
    chosen = replace(source.selection, filters=("model=resnet50",))
    of_resnet = replace(source, selection=chosen)
    for path in drawing.draw(of_resnet, FOLDER, ("scaling",)):
        keep(path)


def _photograph(folder: Path) -> None:
    program = find_program()
    if program is None:
        raise SystemExit("no chromium on PATH: run scripts/install-chromium")
    with running(program, folder) as browser:
        for name, width_px in (("report", 1600),):
            page = browser.new_page(viewport={"width": width_px, "height": HEIGHT_PX})
            page.goto((folder / "figures" / "report.html").as_uri())
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
    argparse.ArgumentParser(description=__doc__).parse_args()
    sys.exit(main())
