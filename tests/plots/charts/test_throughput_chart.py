"""Bars are numbers of the database with their speed-ups; what did not complete is named."""

import pytest
from matplotlib.figure import Figure

from analysis.titles import number
from scalemark.records.measurement import Outcome, Verdict
from tests.filled import fill
from tests.plots.charts.charting import picture, pictures, resnet, speed, words
from tests.specs import small


def bars(figure: Figure, panel: int = 0) -> dict[str, float]:
    containers = figure.axes[panel].containers
    return {str(bar.get_label()): bar.patches[0].get_height() for bar in containers}


def labels(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def test_bars_are_numbers_of_the_database_with_their_speed_ups():
    entries = [(resnet(way, num), speed(way, num)) for way in (0, 1) for num in (1, 2)]
    fill("results.db", entries)
    figure = picture("throughput")
    assert bars(figure) == pytest.approx(
        {
            f"{name} x {num}": speed(way, num)
            for way, name in enumerate(("replicated_none", "ps_cpu"))
            for num in (1, 2)
        }
    )
    assert sorted(labels(figure)) == ["1.0x", "1.0x", "1.7x", "1.7x"]
    assert "on the bars: speed-up over 1 CPU device" in words(figure)


def test_on_one_number_of_devices_bars_have_their_throughput():
    """A bug: each bar said 1.0x, its speed-up over itself."""
    fill("results.db", [(resnet(way, 1), speed(way, 1)) for way in (0, 1)])
    figure = picture("throughput")
    assert sorted(labels(figure)) == sorted(number(speed(way, 1)) for way in (0, 1))
    assert "on the bars: throughput" in words(figure)


def test_each_model_has_a_panel_and_many_models_a_second_picture():
    models = [f"model{number}" for number in range(7)]
    fill(
        "results.db",
        [(small(model=model, num_gpus=num), 9.0) for model in models for num in (1, 2)],
    )
    first, second = pictures("throughput")
    assert [axes.get_title(loc="left") for axes in first.figure.axes] == models[:6]
    assert (first.name, second.name) == ("", "")


def test_what_did_not_complete_is_named_in_its_place():
    fill(
        "results.db",
        [(resnet(), 100.0), (resnet(num_gpus=2), 150.0), (resnet(num_gpus=4), None)],
        details=[{}, {}, {"outcome": Outcome.HUNG}],
    )
    figure = picture("throughput")
    assert labels(figure) == ["1.0x", "1.5x", "HANG"]
    assert "HANG: its steps stopped" in words(figure)


def test_doubts_are_marked_on_the_bars_and_explained_below():
    fill(
        "results.db",
        [(resnet(), 100.0), (resnet(num_gpus=2), 150.0), (resnet(num_gpus=2), None)],
        details=[{"verdict": Verdict.SUSPECT}, {}, {}],
    )
    figure = picture("throughput")
    assert labels(figure) == ["1.0x*", "1.5x*"], "a speed-up over a doubted number is in doubt"
    assert "*: in doubt" in words(figure)
    assert "some repeats have no number" in words(figure)


def test_without_anything_to_compare_with_throughputs_stand_on_the_bars():
    fill("results.db", [(resnet(way, 2), 100.0 + way) for way in (0, 1)])
    assert sorted(labels(picture("throughput"))) == ["100", "101"]


def test_strategies_beyond_the_colors_are_hatched():
    fill("results.db", [(resnet(way, 2), 100.0 + way) for way in range(12)])
    looks = {
        (bar.patches[0].get_facecolor(), bar.patches[0].get_hatch())
        for bar in picture("throughput").axes[0].containers
    }
    assert len(looks) == 12
