"""Pictures become files: named shortly, whole or not at all, in the formats and on the grounds that were asked for."""

import json
import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib import image
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from analysis.selection import Selection
from plots.drawing import (
    FAINT,
    GROUND,
    INK,
    SERIES,
    WIDTH_IN,
    NothingToShow,
    Picture,
    chart,
    draw,
    label,
    names,
    series_style,
)
from plots.source import PictureFormat, PlotSource, in_words
from scalemark.records.references import Origin, published
from store.errors import StoreError
from tests.filled import fill
from tests.plots.charts.charting import resnet
from tests.plots.contrast import contrast
from tests.specs import small

pytestmark = pytest.mark.integration

OURS = ("scaling", "efficiency", "throughput", "memory")


def source(db: str = "results.db", command: str = "scalemark chart") -> PlotSource:
    return PlotSource(selection=Selection(db=db), command=command)


@pytest.fixture
def filled() -> None:
    fill(
        "results.db",
        [
            (resnet(index, num_gpus), 100.0 * num_gpus - index)
            for index in (0, 1)
            for num_gpus in (1, 2)
        ],
    )


@pytest.mark.usefixtures("filled")
def test_files_are_named_by_chart_and_model_in_each_format():
    paths = draw(source(), Path("figures"), ["scaling", "throughput"], list(PictureFormat))
    assert [path.name for path in paths] == [
        "scaling-resnet50.png",
        "scaling-resnet50.svg",
        "scaling-resnet50.pdf",
        "throughput.png",
        "throughput.svg",
        "throughput.pdf",
    ]
    assert sorted(path.name for path in Path("figures").iterdir()) == sorted(
        f"{stem}.{form}" for stem in ("scaling-resnet50", "throughput") for form in PictureFormat
    )


def test_names_hold_no_paths_and_stay_short_and_different():
    fill(
        "results.db",
        [
            (small(model=model, num_gpus=num), 1.0)
            for model in ("../../a b", "../../a_b", "x" * 300, "x" * 299 + "y")
            for num in (1, 2)
        ],
    )
    found = [path.name for path in draw(source(), Path("figures"), ["scaling"])]
    assert len(set(found)) == 4
    assert len(list(Path("figures").iterdir())) == 4
    assert all(len(name) < 130 for name in found)


@pytest.mark.usefixtures("filled")
def test_the_same_results_are_the_same_bytes():
    first, second = (
        {
            path.name: path.read_bytes()
            for path in draw(source(), Path(folder), OURS, list(PictureFormat))
        }
        for folder in ("a", "b")
    )
    assert len(first) == 12
    assert first == second


@pytest.mark.usefixtures("filled")
def test_a_picture_that_fails_leaves_the_old_one_and_no_draft(monkeypatch):
    Path("scaling-resnet50.png").write_text("old")

    def break_down(path: Path) -> None:
        path.write_text("half of it")
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(
        "plots.drawing.write",
        lambda figure, path, *_: break_down(path),
    )
    with pytest.raises(StoreError, match="No space left on device"):
        list(draw(source(), Path(), ["scaling"]))
    assert Path("scaling-resnet50.png").read_text() == "old"
    assert list(Path().glob(".*.png")) == []


@pytest.mark.usefixtures("filled")
def test_the_ground_is_white():
    (path,) = draw(source(), Path(), ["scaling"], [PictureFormat.PNG])
    corner = image.imread(path)[2, 2, :3]
    assert corner == pytest.approx(to_rgb(GROUND), abs=0.01)


@pytest.mark.usefixtures("filled")
def test_text_in_svg_stays_text():
    (path,) = draw(source(), Path(), ["scaling"], [PictureFormat.SVG])
    assert "replicated_none</text>" in path.read_text()


def test_a_dollar_is_no_formula_and_markup_is_text():
    fill("$x_{$.db", [(small(model="<script>$\\alpha$", num_gpus=num), 1.0) for num in (1, 2)])
    (path,) = draw(
        source("$x_{$.db", "scalemark chart --db '$x_{$.db'"),
        Path(),
        ["scaling"],
        [PictureFormat.SVG],
    )
    assert "<script>" not in path.read_text()
    assert "$x_{$.db" in path.read_text().replace("</text>", "")


def test_an_empty_chart_is_passed_over_with_its_reason():
    fill("results.db", [(resnet(), 100.0)])
    reported: dict[str, str] = {}
    assert list(draw(source(), Path(), OURS[:3], passed_over=reported.setdefault)) == []
    two = "nothing to show: no strategy completed on two GPU counts"
    assert reported == {
        "scaling": two,
        "efficiency": "nothing to show: no strategy has an efficiency on two GPU counts",
        "throughput": "nothing to show: there is one number alone",
    }


@pytest.mark.usefixtures("filled")
def test_a_folder_that_cannot_be_written_is_named_with_what_to_do():
    Path("figures").write_text("a file")
    with pytest.raises(StoreError, match=r"figures: File exists; choose another folder with --out"):
        list(draw(source(), Path("figures"), ["scaling"]))


@pytest.mark.usefixtures("filled")
def test_matplotlibs_settings_are_nobody_elses():
    before = dict(matplotlib.rcParams)
    next(iter(draw(source(), Path(), ["scaling"])))
    assert dict(matplotlib.rcParams) == before


@pytest.mark.usefixtures("filled")
def test_a_file_of_each_format_says_how_it_was_made():
    for path in draw(source(), Path(), ["scaling"], list(PictureFormat)):
        if path.suffix == ".png":
            with Image.open(path) as opened:
                said = {name: str(text) for name, text in opened.info.items()}
            assert said["Title"].startswith("resnet50: images/s (weak scaling)")
            assert said["Source"] == "database results.db"
            text = said["Description"]
        elif path.suffix == ".pdf":
            text = path.read_bytes().decode("latin-1")
            assert "/Title" in text
            continue
        else:
            text = path.read_text(encoding="utf-8")
        assert "made by: scalemark chart" in text
        assert "TensorFlow 2.21.0" in text
        assert "ideal: replicated_none on 1 CPU device, the best there" in text


def test_long_names_break_between_their_parts_and_lose_nothing():
    for name in ("a_name_of_parts_with_no_space_at_all_in_it", "x" * 100, "bell \a and 漢"):
        lines = label(name).split("\n")
        assert max(map(len, lines)) <= 30
        shown = name.replace("\a", "\\x07").replace("漢", "\\u6f22")
        assert "".join(lines).replace(" ", "") == shown.replace(" ", "")


def test_the_color_blind_and_grey_tell_series_apart():
    assert min(contrast(INK, GROUND), contrast(FAINT, GROUND)) > 4.5
    assert min(contrast(color, GROUND) for color in SERIES[:5]) > 3
    for seen in _SEEN.values():
        colors = [np.clip(np.array(seen) @ _linear(color), 0, 1) for color in SERIES]
        assert (
            min(np.abs(_gamma(one) - _gamma(other)).max() for one, other in combinations(colors, 2))
            > 0.09
        )
    styles = [series_style(index) for index in range(12)]
    assert len({style["marker"] for style in styles}) == 12
    assert len({(style["color"], style["linestyle"]) for style in styles}) == 12


_SEEN = {  # Machado, Oliveira, Fernandes (2009), severity 1
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def _linear(color: str) -> np.ndarray:
    part = np.array(to_rgb(color))
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def _gamma(part: np.ndarray) -> np.ndarray:
    return np.where(part <= 0.0031308, part * 12.92, 1.055 * part ** (1 / 2.4) - 0.055)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scalemark", "chart", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def without_progress(stderr: str) -> str:
    """Without the lines that come where drawing takes seconds, as it does on a busy machine."""
    return re.sub(r"^chart: \d+ files so far, .* the last\n", "", stderr, flags=re.MULTILINE)


@pytest.mark.usefixtures("filled")
def test_the_command_prints_paths_also_as_json():
    assert (
        run("--chart", "scaling", "--chart", "throughput", "--out", "a").stdout
        == "a/scaling-resnet50.png\na/throughput.png\n"
    )
    asked = run("--chart", "scaling", "--format", "png", "--format", "svg", "--json")
    assert json.loads(asked.stdout) == [
        "figures/scaling-resnet50.png",
        "figures/scaling-resnet50.svg",
    ]
    assert without_progress(asked.stderr) == ""


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["--chart", "speedup"], "speedup: no such chart; "),
        (["model=none"], "results.db: no attempt is like model=none"),
    ],
)
def test_what_cannot_be_drawn_is_reported_in_one_line(arguments, reported):
    ended = run(*arguments)
    assert ended.returncode == 2
    assert reported in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_why_a_chart_asked_for_has_nothing_is_reported():
    fill("results.db", [(resnet(), 100.0), (resnet(1), 90.0)])
    both = run("--chart", "scaling", "--chart", "throughput")
    assert (both.returncode, both.stdout) == (0, "figures/throughput.png\n")
    why = "nothing to show: no strategy completed on two GPU counts\n"
    assert without_progress(both.stderr) == f"chart: scaling: {why}"
    assert f"chart: scaling: {why}" in run().stderr
    alone = run("--chart", "scaling")
    assert alone.returncode == 2
    assert f"scaling: {why}" in alone.stderr


def test_only_failures_are_reported():
    fill("results.db", [(resnet(), None)])
    ended = run(*[part for name in OURS for part in ("--chart", name)])
    assert ended.returncode == 2
    assert "throughput: nothing to show: no trial completed" in ended.stderr
    assert "no picture: nothing of this selection can be drawn; see scalemark table" in ended.stderr


@pytest.mark.usefixtures("filled")
def test_a_chart_that_cannot_be_written_is_named_and_the_others_are_drawn():
    Path("figures/scaling-resnet50.png").mkdir(parents=True)
    ended = run("--chart", "scaling", "--chart", "throughput")
    assert (ended.returncode, ended.stdout) == (1, "figures/throughput.png\n")
    why = "figures/scaling-resnet50.png: Is a directory; choose another folder with --out"
    assert f"chart: scaling: not drawn: {why}\n" in ended.stderr
    alone = run("--chart", "scaling")
    assert (alone.returncode, alone.stdout, alone.stderr) == (
        1,
        "",
        f"chart: scaling: not drawn: {why}\n",
    )
    of_all = run()
    assert of_all.returncode == 1
    assert "chart: scaling: not drawn: " in of_all.stderr
    assert "figures/throughput.png" in of_all.stdout.splitlines()


@pytest.mark.usefixtures("filled")
def test_a_chart_that_crashes_is_reported_with_what_it_drew_before(monkeypatch):
    class Broken:
        ABOUT = "one figure, then a mistake"

        def draw(self, source):
            yield Picture(name="x", figure=Figure(), about=[])
            raise ZeroDivisionError("a mistake of ours")

    found = {"scaling": Broken(), "throughput": chart("throughput")}
    monkeypatch.setattr("plots.drawing.chart", found.__getitem__)
    failed: dict[str, Exception] = {}
    paths = draw(source(), Path(), list(found), failed=failed.setdefault)
    assert [path.name for path in paths] == ["scaling-x.png", "throughput.png"]
    assert [(name, in_words(error)) for name, error in failed.items()] == [
        ("scaling", "ZeroDivisionError: a mistake of ours")
    ]


@pytest.mark.usefixtures("filled")
def test_files_are_reported_before_the_error_of_their_chart_is_raised(monkeypatch):
    class Broken:
        ABOUT = "one figure, then a mistake"

        def draw(self, source):
            yield Picture(name="x", figure=Figure(), about=[])
            raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr("plots.drawing.chart", lambda name: Broken())
    paths = draw(source(), Path(), ["scaling"])
    assert next(paths).name == "scaling-x.png"
    with pytest.raises(ZeroDivisionError, match="a mistake of ours"):
        next(paths)


SOURCES = sorted({reference.source for reference in published()})


@pytest.mark.parametrize("name", SOURCES)
def test_every_chart_is_drawn_or_has_nothing_of_each_published_source(name: str):
    chosen = Selection(db="nothing.db", origin=Origin.PUBLISHED, source=name)
    empty: dict[str, str] = {}
    paths = draw(
        PlotSource(selection=chosen, command="scalemark chart"),
        Path(),
        names(),
        passed_over=empty.setdefault,
    )
    drawn = {path.name.removesuffix(".png").split("-")[0] for path in paths}
    assert drawn | set(empty) == set(names())
    if name == "TensorFlow benchmarks page (2017)":
        assert drawn == {"throughput", "scaling", "batch_sizes", "efficiency"}


def test_published_figures_name_a_database_only_where_there_is_one():
    chosen = Selection(db="results.db", origin=Origin.PUBLISHED)
    of_published = PlotSource(selection=chosen, command="scalemark chart")
    assert of_published.stored_in == "published figures that come with scalemark"
    fill("results.db", [(resnet(), 100.0)])
    assert of_published.stored_in == "database results.db"


def test_nothing_to_show_is_reported_in_the_charts_words(monkeypatch, filled):
    class Silent:
        ABOUT = "what is not there"

        def draw(self, source):
            yield from ()

    monkeypatch.setattr("plots.drawing.chart", lambda name: Silent())
    reported: dict[str, str] = {}
    assert list(draw(source(), Path(), ["scaling"], passed_over=reported.setdefault)) == []
    assert reported == {"scaling": "nothing to show: this chart is of what is not there"}
    assert issubclass(NothingToShow, StoreError)


def test_names_that_are_cleaned_to_the_same_are_distinguished(monkeypatch, filled):
    class Several:
        ABOUT = "several sweeps"

        def draw(self, source):
            for name in ("a b", "a_b", "", ""):
                yield Picture(name=name, figure=Figure(), about=[])

    monkeypatch.setattr("plots.drawing.chart", lambda name: Several())
    names = [path.name for path in draw(source(), Path(), ["history"])]
    assert names == ["history-a_b.png", "history-a_b-2.png", "history.png", "history-2.png"]


@pytest.mark.usefixtures("filled")
def test_a_png_has_240_pixels_per_inch():
    assert run("--chart", "scaling").returncode == 0
    width_px = image.imread("figures/scaling-resnet50.png").shape[1]
    wanted = round(WIDTH_IN * 240)
    assert abs(width_px - wanted) <= 1
