"""A chart is one file: put into the folder of charts, the command lists and draws it."""

import sys

import pytest

from plots import charts
from tests.filled import fill
from tests.plots.charts.charting import resnet

CHART = '''
"""How many repeats each strategy has."""

from plots.drawing import Picture
from plots.source import PlotSource

from matplotlib.figure import Figure

ABOUT = "repeats of each strategy"


def draw(source: PlotSource):
    figure = Figure()
    names = [result.strategy for result in source.results]
    figure.subplots().bar(names, [len(result.repeats) for result in source.results])
    yield Picture(name="all", figure=figure, about=["counted"])
'''


@pytest.fixture
def chart_file(tmp_path, monkeypatch):
    """The one file that a new chart is; in a folder of its own, so that ours stays as it is."""
    folder = tmp_path / "charts"
    folder.mkdir()
    (folder / "num_repeats.py").write_text(CHART)
    monkeypatch.setattr(charts, "__path__", [*charts.__path__, str(folder)])
    yield
    sys.modules.pop("plots.charts.num_repeats", None)
    vars(charts).pop("num_repeats", None)


@pytest.mark.usefixtures("chart_file")
def test_a_new_chart_is_one_file_that_the_command_draws(plots, tmp_path):
    fill("results.db", [(resnet(), 100.0), (resnet(1), 90.0)])
    out = tmp_path / "figures"
    drawn = plots("chart", "--chart", "num_repeats", "--out", str(out))
    assert drawn.exit_code == 0
    assert [path.name for path in out.iterdir()] == ["num_repeats-all.png"]


@pytest.mark.usefixtures("chart_file")
def test_a_chart_that_cannot_be_imported_never_stops_the_others(plots, tmp_path):
    (tmp_path / "charts" / "num_repeats.py").write_text("import no_such_module_anywhere\n")
    fill("results.db", [(resnet(), 100.0), (resnet(1), 90.0)])
    drawn = plots("chart", "--out", str(tmp_path / "figures"))
    assert drawn.exit_code == 1
    assert "throughput.png" in drawn.stdout
    assert "num_repeats: not drawn: ModuleNotFoundError" in drawn.stderr
