"""Predictions as people read them, on narrow terminals too."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from analysis.calibration.doubts import width_doubt
from analysis.calibration.environments import Guess
from analysis.prediction.predictions import Learned, Prediction, cells, predictions
from analysis.prediction.text import show
from analysis.results import Environment, Origin
from costs.profiles import profile
from costs.step import Rates
from scalemark.records.devices import DeviceKind
from tests.analysis.calibration.test_fit import row


@pytest.fixture(scope="module")
def found() -> list[Prediction]:
    environment = Environment(
        key="a",
        host="box",
        machine="a box",
        versions="",
        device_kind=DeviceKind.GPU,
        origin=Origin.MEASURED,
    )
    rows = tuple(row("vgg16", num, "ps_cpu", Rates()) for num in (1, 2, 4))
    known = Learned(
        environment=environment,
        item="images",
        free={},
        guess=Guess(hardware=profile("p100_pcie_8"), reason=""),
        results=(),
        rows=rows,
        left_out=(),
    )
    return predictions(known, cells(rows, {"num_gpus": ["8"], "strategy": ["replicated_pscpu"]}))


@pytest.mark.parametrize("width", [80, 200])
def test_names_are_never_cut(found, width) -> None:
    stream = io.StringIO()
    show(Console(file=stream, width=width, force_terminal=True, color_system=None), found, [])
    header, line = stream.getvalue().splitlines()[1:3]
    assert {"model", "GPUs", "strategy", "images/s"} <= set(header.split())
    assert "replicated_pscpu" in line
    assert "\u2026" not in stream.getvalue()
    assert f"{found[0].predictive.throughput:.0f}" in line


def test_one_row_is_one(found) -> None:
    stream = io.StringIO()
    show(
        Console(file=stream, width=200),
        [replace(one, rests_on=one.rests_on[:1]) for one in found],
        [],
    )
    assert stream.getvalue().startswith("Predicted, not measured: a box, from 1 row\n")


def test_a_heading_names_another_box_first(found) -> None:
    """A bug: numbers of another box below the name of the rows' own."""
    stream = io.StringIO()
    show(Console(file=stream, width=200), found, [], "h100_8")
    assert stream.getvalue().startswith(
        "Predicted for h100_8, not measured: from 3 rows of a box\n"
    )


def test_what_makes_all_uncertain_is_said_once(found) -> None:
    """A bug: a note for each width, with every cell by name."""
    wide = [
        replace(one, predictive=replace(one.predictive, low=low, high=2000.0, reasons=()))
        for one in found
        for low in (1.0, 50.0)
    ]
    stream = io.StringIO()
    show(Console(file=stream, width=200), wide, [])
    said = f"uncertain, all {len(wide)}: the interval is wide: over 25% to each side\n"
    assert stream.getvalue().count("the interval is wide") == 1
    assert said in stream.getvalue()


def test_a_wide_interval_is_doubted() -> None:
    assert width_doubt(0.4) == "the interval is wide: over 25% to each side"
    assert width_doubt(0.1) == ""
