"""Tables, charts and pages about a user's own program name nothing that it lacks."""

import json
import re
from datetime import UTC, datetime
from functools import partial

import pytest

from analysis.pivot import varied_tables
from analysis.selection import Selection
from plots.drawing import NothingToShow, names
from plots.report import render
from plots.source import PlotSource
from scalemark.records.measurement import STEPS, Verdict
from tests.analysis.gpu_box import around
from tests.plots.charts.charting import details, pictures, words
from tests.plots.command import plots as run
from tests.programs import (
    COMMAND,
    OTHERS_WORDS,
    REPORTED,
    SEEN_FROM_OUTSIDE,
    fill_programs,
    grid,
    program,
)

OTHER = "python other.py {num_gpus} {zero} {offload}"
OF_OTHER_TRIALS = ("batch_sizes", "history")
"""Charts that find nothing in one night of one batch size."""


@pytest.fixture
def plots(capsys, monkeypatch):
    return partial(run, capsys, monkeypatch)


def source(**selection: object) -> PlotSource:
    chosen = Selection(db="results.db", **selection)  # type: ignore[arg-type]
    return PlotSource(selection=chosen, command="scalemark report")


def foreign_words(text: str) -> list[str]:
    return [word for word in OTHERS_WORDS if word in text]


@pytest.mark.parametrize("form", ["terminal", "markdown", "csv", "json", "tidy"])
def test_tables_name_no_axis_that_a_program_lacks(plots, snapshot, form):
    fill_programs(grid())
    ended = plots("table", "--format", form)
    assert foreign_words(ended.stdout) == []
    if form == "terminal":
        assert ended.stdout == snapshot


def test_numbers_that_programs_print_are_quantities(plots):
    printed = SEEN_FROM_OUTSIDE | {"metrics": {"accuracy": 0.75}, "last_loss": 1.25}
    fill_programs([(program(), 10.0), (program(), 12.0)], measured=printed)
    shown = plots("table", "--show", "loss,accuracy").stdout
    assert "loss 1.25, accuracy 0.75" in shown
    assert "accuracy: last printed value (loss: median of the last tenth), mean of" in shown
    ended = plots("table", "--show", "acuracy")
    assert ended.exit_code == 2
    assert ended.stderr == "table: acuracy: no such quantity; did you mean accuracy?\n"
    fill_programs([(program(num_gpus=2), 20.0)], name="second")  # which printed none
    assert "accuracy unknown" in plots("table", "--show", "accuracy").stdout


def test_an_unknown_precision_is_asked_for_where_a_program_gets_it(plots):
    fill_programs([(program(flops_per_item="6"), 10.0)], measured=SEEN_FROM_OUTSIDE)
    shown = " ".join(plots("table", "--show", "mfu").stdout.split())
    assert "{precision} in the command, or env PRECISION={precision} before it" in shown


def test_free_axes_may_be_down_and_across(plots, snapshot):
    fill_programs(grid())
    shown = plots("table", "num_gpus=8", "--rows", "zero", "--columns", "offload").stdout
    assert foreign_words(shown) == []
    assert shown == snapshot


def test_rows_do_not_repeat_the_axis_across(plots):
    """A bug: each row named the value of its own column, so that a table had one number a row."""
    fill_programs(grid(zeros=(0, 2)))
    shown = plots("table", "num_gpus=8", "offload=cpu", "--columns", "zero").stdout
    heading, row = (line.split() for line in shown.splitlines()[1:3])
    assert heading == ["strategy", "zero", "0", "zero", "2"]
    assert row[0] == "offload=cpu"
    assert len(re.findall("n=3", shown.splitlines()[2])) == 2  # spreads


def test_two_programs_of_one_name_have_a_table_each(plots, snapshot):
    fill_programs([*around(program(), 100.0), *around(program(command=OTHER), 400.0)])
    tables = varied_tables(source().results)
    throughputs = [one.throughput for table in tables for one in table.results]
    assert throughputs == pytest.approx([100.0, 400.0], rel=1e-4)
    assert plots("table").stdout == snapshot


def test_a_curve_of_a_program_names_it_once(plots):
    command = "python train.py {num_gpus} {batch_size}"
    one = partial(program, command=command, free={}, batch_size=4)
    fill_programs([*around(one(), 100.0), *around(one(2), 190.0)])
    assert plots("table").stdout.startswith("train (batch_size 4)\n")


@pytest.mark.parametrize("name", [name for name in names() if name not in OF_OTHER_TRIALS])
def test_charts_name_no_axis_that_a_program_lacks(name):
    fill_programs(grid(batch_size=8))
    found = pictures(name)
    assert found
    for picture in found:
        shown = f"{words(picture.figure)}\n{details(picture.figure)}"
        assert foreign_words(shown) == []
        assert f": {COMMAND}" in shown.replace("\n", " ")


@pytest.mark.parametrize("name", OF_OTHER_TRIALS)
def test_charts_of_what_a_program_lacks_are_not_drawn(name):
    fill_programs(grid(batch_size=8))
    with pytest.raises(NothingToShow):
        pictures(name)


def test_batch_sizes_of_a_program_are_drawn():
    fill_programs([*grid(zeros=(0,), counts=(1,), batch_size=8), *grid((0,), (1,), batch_size=16)])
    (picture,) = pictures("batch_sizes")
    assert foreign_words(words(picture.figure)) == []
    assert "per device" not in words(picture.figure)


def test_a_program_of_unknown_items_has_no_ideal_line():
    fill_programs(grid(zeros=(0,)), measured=SEEN_FROM_OUTSIDE | {"item": STEPS})
    (picture,) = pictures("scaling")
    assert "ideal" not in [line.get_label() for line in picture.figure.axes[0].lines]
    assert "no ideal line: how many items a step has is unknown" in details(picture.figure)


def test_two_programs_of_one_name_have_a_picture_each():
    fill_programs([*grid(zeros=(0,)), *grid(zeros=(0,), command=OTHER)])
    assert [picture.name for picture in pictures("scaling")] == ["train", "train"]


def test_the_page_names_no_axis_that_a_program_lacks():
    fill_programs(grid())
    page = render(source(), datetime(2026, 11, 21, tzinfo=UTC))
    body = re.sub(r"<style>.*?</style>|<script>.*?</script>|data:image[^\"]*", "", page, flags=re.S)
    assert foreign_words(body) == []


def test_the_page_has_the_command_line_in_its_notes():
    fill_programs(grid())
    page = render(source(), datetime(2026, 11, 21, tzinfo=UTC))
    assert COMMAND in page
    assert "offload=cpu zero=10" in page


def test_numbers_that_the_program_reported_are_marked_everywhere(plots, snapshot):
    fill_programs(grid(zeros=(0,), counts=(1, 2)), measured=REPORTED | {"verdict": Verdict.SUSPECT})
    assert plots("table").stdout == snapshot
    (picture,) = pictures("scaling")
    note = "as reported by the program, whose steps were not timed: all numbers"
    assert note in details(picture.figure)
    assert "reported by the program" in words(picture.figure)
    assert note in render(source(), datetime(2026, 11, 21, tzinfo=UTC))
    rows = json.loads(plots("table", "--json").stdout)
    assert [row["is_reported"] for row in rows] == [True] * 4


def test_one_reported_number_among_measured_ones_is_counted():
    fill_programs(around(program(), 100.0), measured=REPORTED)
    fill_programs(around(program(2), 190.0), measured=SEEN_FROM_OUTSIDE, name="second")
    (picture,) = pictures("scaling")
    assert "whose steps were not timed: 1 of 2 numbers" in details(picture.figure)


def test_steps_on_several_numbers_of_gpus_are_no_efficiency():
    rows = [one for num in (1, 2) for one in around(program(num), 100.0 * num**0.9)]
    fill_programs(rows, measured=SEEN_FROM_OUTSIDE | {"item": "steps"})
    with pytest.raises(NothingToShow, match="counts steps: where each of N GPUs"):
        pictures("efficiency")
    assert pictures("scaling")
