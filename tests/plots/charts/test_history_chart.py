"""The chart of a history shows all trials of a machine, and those that changed together."""

import shutil

import pytest

from plots.drawing import NothingToShow
from tests.filled import ENVIRONMENT, fill
from tests.nights import fill_nights, slower, steady, with_packages
from tests.plots.charts.charting import checked, details, pictures, resnet, words
from tests.specs import small

HISTORY = {
    spec: slower(steady(26, 100.0 * (place + 1), place), 20, 0.9 if place < 2 else 1.0)
    for place, spec in enumerate([resnet(), resnet(1), small(), small(num_gpus=2)])
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("nights") / "results.db"
    software = [ENVIRONMENT] * 20 + [with_packages(tensorflow="2.22.0")]
    fill_nights(str(path), HISTORY, environments=software)
    return path


def test_what_changed_together_has_a_track_below_that_of_all(made):
    shutil.copy(made, "results.db")
    (found,) = pictures("history")
    all_trials, changed = found.figure.axes
    assert len(all_trials.lines) == 1  # the points alone
    (points, mark) = changed.lines
    assert points.get_ydata()[:20].mean() == pytest.approx(100, abs=0.5)
    assert points.get_ydata()[20:].mean() == pytest.approx(90, abs=0.5)
    assert mark.get_linestyle() == "-"
    reported = words(found.figure)
    assert "throughput of 4 trials over 26 nights" in reported
    assert "model=resnet50 -10" in reported
    assert "(tensorflow 2.21.0 -> 2.22.0)" in reported
    assert "line: regression · dotted: other change" in reported
    assert "CPU devices" in reported
    assert "made by: scalemark chart history" in details(found.figure)
    checked(found.figure)


def test_a_few_nights_are_no_history():
    fill("results.db", [(resnet(), 100.0)])
    with pytest.raises(NothingToShow, match="nothing was measured in 14 nights or more"):
        pictures("history")
