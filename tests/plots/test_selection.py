"""What the command line chooses, and the commands that pages and tables tell: for other people's eyes, too."""

import sys

import pytest
from matplotlib.figure import Figure

from analysis.pivot import pivot
from analysis.results import BaselineRule
from analysis.selection import Selection, load
from analysis.titles import sweep_notes
from plots.drawing import Picture, described
from plots.layout import lay_out
from plots.source import PlotSource, command
from store.writer import Writer
from tests.filled import NOON, begin, fill
from tests.specs import small

SECRET = "postgresql://u:s3 cret@h/db"
PS = {"variable_update": "parameter_server", "local_parameter_device": "cpu"}
BEST = Selection(db="my.db", baseline=BaselineRule.BEST)


@pytest.mark.parametrize("arguments", [("--db", SECRET), (f"--db={SECRET}",)])
def test_a_password_with_a_space_in_it_stands_in_no_footer(monkeypatch, arguments):
    monkeypatch.setattr(sys, "argv", ["scalemark", "report", *arguments])
    assert "s3" not in command()
    assert "cret" not in command()
    assert command().startswith("scalemark report ")


def test_the_command_that_shows_an_attempt_has_no_password():
    assert Selection(db="results.db").show_command == "scalemark show"
    assert Selection(db="a b.db").show_command == "scalemark show --db 'a b.db'"
    assert Selection(db=SECRET).show_command == "scalemark show --db 'postgresql://u:***@h/db'"


@pytest.fixture
def failing():
    fill("my.db", [(small(), 100.0), (small(**PS), 80.0), (small(num_gpus=2, **PS), None)])


def of_tables():
    (table,) = pivot(load(BEST))
    return lay_out(table, BEST)


def test_tables_name_their_own_baseline_and_database(failing):
    notes = of_tables().notes
    assert "speed-up: against the fastest on 1 CPU device: replicated_none, 100 images/s" in notes
    assert "no number: scalemark show --db my.db 3 says what happened" in notes


def test_the_baseline_of_a_sweep_may_be_another_sweeps():
    fill("r.db", [(small(), 100.0)], name="one")
    fill("r.db", [(small(num_gpus=8), 600.0)], name="eight")
    (result,) = load(Selection(db="r.db", sweep="eight"))
    assert (result.num_gpus, result.speed_up) == (8, pytest.approx(6.0))


def test_a_sweep_shows_no_number_of_a_machine_it_never_ran_on(second_machine):
    fill("r.db", [(small(), 100.0), (small(num_gpus=2), 190.0)], name="x")
    fill("r.db", [(small(), 50.0), (small(num_gpus=2), 90.0)], name="y", machine=second_machine)
    assert {result.environment.host for result in load(Selection(db="r.db", sweep="y"))} == {
        "otherbox"
    }


def test_trials_that_a_sweep_found_finished_are_among_its_own():
    fill("r.db", [(small(), 100.0)], name="first")
    writer = Writer("r.db")
    begin(writer, {small(): 0}, name="second").end(NOON, finished=True)
    writer.close()
    (result,) = load(Selection(db="r.db", sweep="second"))
    assert result.throughput == 100.0


def test_repeats_by_other_sweeps_are_counted_aloud(plots):
    """A bug: tables, charts and reports took them in beside silently."""
    fill("results.db", [(small(), 100.0), (small(num_gpus=2), 190.0)])
    alone = PlotSource(selection=Selection(db="results.db", sweep="first"), command="")
    assert sweep_notes(alone.results) == []
    fill("results.db", [(small(), 101.0), (small(), 102.0)], name="second")
    said = "measured by other sweeps: 2 of 4 repeats"
    assert said in plots("table", "--sweep", "first").stdout
    assert "other sweeps" not in plots("table").stdout
    source = PlotSource(selection=Selection(db="results.db", sweep="first"), command="")
    picture = Picture(name="all", figure=Figure(), results=source.results)
    assert said in described(source, picture)


def test_filters_of_attempts_say_that_medians_and_baselines_are_of_these(plots):
    fill("results.db", [(small(), 90.0), (small(), 110.0)])
    text = plots("table", "throughput>100", "model=trivial").stdout
    assert "only attempts with throughput>100: medians and baselines are of these\n" in text
    assert "only attempts" not in plots("table", "model=trivial").stdout
