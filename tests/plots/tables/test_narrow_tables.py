"""On a terminal of 80 characters a row is a line: nothing is split, and what is left out is named."""

import io
import re
from collections.abc import Sequence

import pytest

from analysis.pivot import varied_tables
from analysis.selection import Selection, load
from plots import writers
from plots.layout import document
from tests.filled import fill
from tests.specs import small

MODELS = ("resnet50", "vgg16", "resnet18_cifar")
PS = {"variable_update": "parameter_server", "all_reduce": "none"}
STRATEGIES = (
    PS | {"local_parameter_device": "cpu"},
    PS | {"local_parameter_device": "gpu"},
    {"all_reduce": "none"},
    {"all_reduce": "pscpu"},
    {"all_reduce": "hierarchical_copy"},
    {"variable_update": "sharded"},
)
COUNTS = (1, 2, 4, 8)


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def filled() -> None:
    """Four repeats of each, of which those of the first two strategies differ."""
    entries = []
    for place, model in enumerate(MODELS):
        for order, strategy in enumerate(STRATEGIES):
            for num in COUNTS[order == 5 :]:
                speed = 1000 * num * (1 - 0.03 * order) / (1 + place)
                spec = small(model=model, num_gpus=num, **strategy)
                entries += [
                    (spec, speed * (1 + step))
                    for step in ((0, 0.02, 0, 0.02) if order < 2 else (0, 0.0005, 0, 0.0005))
                ]
    fill("results.db", entries)


def drawn(monkeypatch: pytest.MonkeyPatch, width: int, show: Sequence[str] | None = None) -> str:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(width))
    selection, screen = Selection(db="results.db"), Screen()
    writers.chosen("terminal")(document(varied_tables(load(selection)), selection, show), screen)
    return re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())


def test_three_models_and_six_strategies_fit_80_columns(monkeypatch, snapshot):
    text = drawn(monkeypatch, 80)
    assert max(map(len, text.splitlines())) <= 80
    assert text == snapshot


def test_a_wide_terminal_has_the_intervals_too(monkeypatch):
    text = drawn(monkeypatch, 150)
    assert "left out for width" not in text
    assert "images/s [interval]" in text


def test_what_was_asked_for_is_folded_between_its_parts(monkeypatch, snapshot):
    text = drawn(monkeypatch, 80, ("throughput", "interval", "speed-up"))
    assert max(map(len, text.splitlines())) <= 80
    assert text[: text.index("\nvgg16")] == snapshot
