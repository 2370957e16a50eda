"""A database with the same trials measured and simulated: no command, chart or page puts one beside the other."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from matplotlib.text import Text

from analysis import badges
from analysis.selection import Selection, load
from plots import at_end, drawing, writers
from plots.report import compose, render
from plots.source import PlotSource
from scalemark.records.machine import DeviceKind
from scalemark.records.references import Origin
from scalemark.records.trial import TrialSpec
from simulator.costs.box import profile
from store.errors import StoreError
from sweeper.devices.machine import machine_of
from tests.filled import TWO_GPUS, fill
from tests.plots.charts.charting import details, pictures, resnet, steps

MEASURED, SIMULATED = ("113", "227", "131", "251", "109"), ("617", "829", "643", "859", "607")
"""Images/s on 1 and 2, of batch 4, in bf16, and by ps_cpu: no number of one origin is part of what shows the other."""


def trials(kind: DeviceKind) -> list[TrialSpec]:
    axes = [{}, {"num_gpus": 2}, {"batch_size": 4}, {"precision": "bf16"}]
    return [
        *(resnet(device_kind=kind, image_px=224, **of) for of in axes),
        resnet(1, device_kind=kind, image_px=224),
    ]


def fill_measured() -> None:
    reported = zip(trials(DeviceKind.GPU), map(float, MEASURED), strict=True)
    fill(
        "results.db",
        list(reported),
        name="measured",
        machine=TWO_GPUS,
        details=[{"steps": steps(0.1)}] * 5,
    )


def fill_simulated() -> None:
    reported = zip(trials(DeviceKind.SIMULATED_GPU), map(float, SIMULATED), strict=True)
    fill("results.db", list(reported), name="simulated", details=[{"steps": steps(0.1)}] * 5)


@pytest.fixture
def both() -> None:
    fill_measured()
    fill_simulated()


def has(text: str, numbers: tuple[str, ...]) -> bool:
    return re.search(rf"(?<![\w.#])({'|'.join(numbers)})(?![\w%])", text) is not None


def check(text: str, origin: Origin) -> None:
    own, other = (MEASURED, SIMULATED) if origin is Origin.MEASURED else (SIMULATED, MEASURED)
    assert has(text, own)
    assert not has(text, other)
    assert ("simulated" in text.casefold()) == (origin is Origin.SIMULATED)


OF_BOTH = pytest.mark.parametrize("origin", [Origin.MEASURED, Origin.SIMULATED])


@OF_BOTH
@pytest.mark.parametrize("form", writers.names())
def test_tables_are_of_one_origin_in_every_format(both, plots, origin, form):
    ended = plots("table", "--origin", origin, "--format", form)
    assert ended.exit_code == 0
    check(ended.stdout, origin)
    if form in ("terminal", "markdown") and origin is Origin.SIMULATED:
        assert badges.foot(["simulated"]) in " ".join(ended.stdout.split())


@OF_BOTH
@pytest.mark.parametrize(
    "asked",
    [
        ("--rows", "precision"),
        ("--columns", "device_kind"),
        ("--rows", "model,strategy", "--columns", "batch_size,device_kind"),
        ("--baseline", "best"),
    ],
)
def test_no_pivot_joins_them(both, plots, origin, asked):
    check(plots("table", *asked, "--origin", origin).stdout, origin)


@pytest.mark.integration
@OF_BOTH
def test_a_chart_of_simulated_numbers_says_so_above_its_axes_and_below(both, origin):
    found = []
    for name in drawing.names():
        try:
            found += [(name, picture) for picture in pictures(name, origin=origin)]
        except drawing.NothingToShow:
            continue
    assert {name for name, _ in found} >= {
        "scaling",
        "throughput",
    }
    for name, picture in found:
        reported = [text.get_text() for text in picture.figure.findobj(Text)]
        title = str(picture.figure.get_label())
        assert ("simulated" in title) == (origin is Origin.SIMULATED), name
        footer = picture.figure.get_supxlabel()
        assert ("simulated" in footer) == (origin is Origin.SIMULATED), name
        assert (DeviceKind.SIMULATED_GPU.note in details(picture.figure)) == (
            origin is Origin.SIMULATED
        ), name
        assert not has("\n".join(reported), SIMULATED if origin is Origin.MEASURED else MEASURED), (
            name
        )


@pytest.mark.integration
def test_charts_of_both_have_files_of_their_own_names(both, plots):
    first = plots("chart", "--chart", "scaling", "--origin", "measured").stdout.split()
    second = plots("chart", "--chart", "scaling", "--origin", "simulated").stdout.split()
    assert len(first) == len(second) == len({*first, *second}) / 2


@OF_BOTH
def test_a_report_is_of_one_origin_and_says_of_which(both, origin):
    source = PlotSource(
        selection=Selection(db="results.db", origin=origin), command="scalemark report"
    )
    page = compose(source, datetime.now(UTC))
    own = MEASURED if origin is Origin.MEASURED else SIMULATED
    assert sorted(float(trial.cells[-3]) for trial in page.trials) == sorted(map(float, own))
    is_simulated = origin is Origin.SIMULATED
    assert any(doubt.startswith("simulated") for doubt in page.doubts) == is_simulated
    assert ("simulated GPUs" in page.title) == is_simulated
    for trial in page.trials:
        command = dict(trial.facts)["run it again"]
        assert ("engine=simulated hardware=dgx1_p100" in command) == is_simulated
    assert (DeviceKind.SIMULATED_GPU.note in render(source, datetime.now(UTC))) == is_simulated


def test_a_sweep_that_was_simulated_ends_with_files_that_say_so(both, capsys):
    reported: list[str] = []
    assert at_end.show(
        "results.db", "simulated", Path("figures"), reported.append, Origin.SIMULATED
    )
    check(capsys.readouterr().out, Origin.SIMULATED)
    files = sorted(path.name for path in Path("figures").iterdir())
    assert files[0] == "report.html"
    assert all("-simulated-dgx1_p100" in name for name in files[1:])
    assert "scalemark report --sweep simulated" in Path("figures/report.html").read_text()


def test_the_newest_report_is_always_at_one_place(both, plots):
    for origin in ("measured", "simulated"):
        assert plots("report", "--origin", origin).stdout == "figures/report.html\n"
    assert [path.name for path in Path("figures").iterdir()] == ["report.html"]


def test_sweeps_of_two_profiles_leave_the_files_of_both():
    """A bug: the pictures of the second had the names of the first."""
    fill_simulated()
    again = [(one, 100.0) for one in trials(DeviceKind.SIMULATED_GPU)]
    fill("results.db", again, name="h100", machine=machine_of(profile("h100_8")))
    names = []
    for sweep in ("simulated", "h100", None):
        chosen = Selection(db="results.db", sweep=sweep, origin=Origin.SIMULATED)
        source = PlotSource(selection=chosen, command="plots charts")
        names.append({path.name for path in drawing.draw(source, Path("figures"), ["scaling"])})
    first, second, both = names
    assert "scaling-simulated-h100_8-resnet50.png" in second
    assert len(first | second | both) == len(first) + len(second) + len(both)


@pytest.mark.parametrize("command", [("table",), ("report",), ("chart",)])
def test_who_asks_for_what_there_is_none_of_is_reported_of_the_other(plots, command):
    fill_simulated()
    ended = plots(*command, "--origin", "measured")
    assert (ended.exit_code, ended.stderr) == (
        2,
        f"{command[0]}: results.db: only simulated numbers in it; show them with --origin simulated\n",
    )
    reported = f"{command[0]}: results.db: only simulated numbers are like model=resnet50; show them with --origin simulated\n"
    assert plots(*command, "model=resnet50", "--origin", "measured").stderr == reported


def test_who_asks_for_simulated_ones_and_has_measured_ones_is_reported_so():
    fill_measured()
    with pytest.raises(
        StoreError,
        match=r"^results\.db: only measured numbers in it; show them with --origin measured$",
    ):
        load(Selection(db="results.db", origin=Origin.SIMULATED))


def test_a_table_for_scripts_tells_the_origin_of_each_number(both, plots):
    rows = json.loads(plots("table", "--json", "--origin", "simulated").stdout)
    assert {row["origin"] for row in rows} == {"simulated"}
    assert {row["device_kind"] for row in rows} == {"simulated_gpu"}
    (machine,) = {row["machine"] for row in rows}
    assert (
        machine
        == "simulated dgx1_p100: 8 simulated GPUs like Tesla P100-SXM2-16GB, by a cost model"
    )
    (versions,) = {row["versions"] for row in rows}
    assert versions == "simulated by scalemark 0.1.0, hardware profile dgx1_p100"
