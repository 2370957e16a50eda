"""The map of best strategies: who leads, who ties, what single processes cannot tell, and where the lead changes."""

import pytest
from matplotlib.figure import Figure

from plots.pictures.drawing import NothingToShow
from plots.pictures.theme import Theme
from tests.filled import fill
from tests.plots.charts.charting import checked, details, picture, pictures, resnet, words
from tests.plots.charts.test_scaling_chart import picture_test
from tests.plots.charts.test_throughput_chart import fill_with


@pytest.mark.integration
@picture_test
@pytest.mark.parametrize("num_series", [2, 5, 12])
def test_the_picture_with_no_text_on_another(num_series: int) -> Figure:
    fill_with(num_series, gpus=(1, 2, 4, 8))
    return checked(picture("best_strategy"))


@pytest.mark.integration
@picture_test
def test_the_picture_in_the_dark() -> Figure:
    fill_with(5, gpus=(1, 2, 4, 8))
    return checked(picture("best_strategy", Theme.DARK))


def of(
    strategy: int, num_gpus: int, *throughput: float | None
) -> list[tuple[object, float | None]]:
    return [(resnet(strategy, num_gpus), value) for value in throughput]


def reported(results: list[tuple[object, float | None]]) -> tuple[list[str], str]:
    """Cells by GPU count, and all words."""
    fill("results.db", results)
    figure = picture("best_strategy")
    return [text.get_text().replace("_\n", "_") for text in figure.axes[0].texts], words(figure)


def test_the_leader_is_named_with_its_lead_and_the_crossover():
    cells, every = reported(
        [*of(0, 1, 100, 101), *of(1, 1, 200, 201), *of(0, 2, 300, 301), *of(1, 2, 200, 201)]
    )
    assert cells == ["ps_cpu\n2.00x next", "replicated_none\n1.50x next"]
    assert "resnet50: ps_cpu; from 2 CPU devices on replicated_none" in every


def test_a_tie_is_hatched_and_named_and_no_crossover():
    fill(
        "results.db",
        [*of(0, 1, 100, 101), *of(1, 1, 50, 51), *of(0, 2, 200, 240), *of(1, 2, 210, 245)],
    )
    figure = picture("best_strategy")
    assert figure.axes[0].texts[1].get_text().replace("_\n", "_") == "ps_cpu\n≈ replicated_none"
    assert [patch.get_hatch() for patch in figure.axes[0].patches] == [None, None, "///"]
    assert "hatched, ≈: a tie" in words(figure)
    assert "resnet50: replicated_none, no crossover" in words(figure)


def test_single_processes_are_reported_and_make_a_perhaps():
    cells, every = reported([*of(0, 1, 100), *of(1, 1, 90), *of(0, 2, 100), *of(1, 2, 110)])
    assert cells == ["replicated_none\n1.11x next ?", "ps_cpu\n1.10x next ?"]
    assert "?: single processes; another run could turn it" in every
    assert (
        "resnet50: replicated_none; perhaps from 2 CPU devices on ps_cpu (single run, not conclusive)"
        in every
    )


def test_who_is_alone_and_where_all_failed_is_reported():
    cells, every = reported(
        [*of(0, 1, 100), *of(1, 1, 90), *of(0, 2, 100), *of(1, 2, None), *of(0, 4, None)]
    )
    assert cells == ["replicated_none\n1.11x next ?", "replicated_none\nalone", "FAIL"]
    assert "alone: no other strategy completed there" in every


def test_strategies_that_never_meet_are_nothing_to_show():
    fill("results.db", [*of(0, 1, 100), *of(1, 2, 90)])
    with pytest.raises(
        NothingToShow, match="no two strategies completed on the same number of GPUs"
    ):
        pictures("best_strategy")


def test_only_an_unknown_next_has_a_question_mark():
    cells, every = reported([*of(0, 1, 200, 201), *of(1, 1, 100, 101), *of(2, 1, 50)])
    assert cells == ["replicated_none\n2.00x next"]
    assert "single processes" not in every


def test_a_long_name_of_a_model_has_the_height_it_needs():
    models = [
        "a_network_whose_name_has_many_parts_" * 2 + "and_an_end_in_the_end",
        "another_network_of_many_parts_" * 3,
    ]
    fill(
        "results.db",
        [(resnet(index, model=model), 100.0 - index) for model in models for index in (0, 1)],
    )
    checked(picture("best_strategy"))


def test_a_leader_that_failed_once_is_marked():
    fill("results.db", [*of(0, 1, 100, None), *of(1, 1, 90)])
    figure = picture("best_strategy")
    assert "replicated_none†" in words(figure)
    assert "†: failures" in words(figure)
    reported = "some repeats brought no number: replicated_none x 1 (1 of 2: FAIL)"
    assert reported in details(figure)
