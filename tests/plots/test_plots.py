"""Tables and charts show what the database holds, and say what it was made on."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib import image, pyplot

from plots import charts, tables
from store.errors import StoreError
from store.records import STAND_INS_NOTE
from tests.filled import fill
from tests.specs import small

PS = {"variable_update": "parameter_server", "local_parameter_device": "cpu"}
RESULTS = [(small(), 100.0), (small(num_gpus=2), 180.0), (small(**PS), 90.0), (small(num_gpus=2, **PS), None)]


@pytest.fixture
def found():
    fill("results.db", RESULTS)
    return tables.load("results.db")


def test_the_markdown_table_has_the_articles_form(found):
    text = tables.to_markdown(found)
    assert "| strategy | 1 CPU stand-in | 2 CPU stand-ins |" in text
    assert "| replicated_none | 100 (1.00x) | 180 (1.80x) |" in text
    assert "| ps_cpu | 90 (1.00x) | failed |" in text
    assert STAND_INS_NOTE in text
    assert "testbox: 2 cores Testium, CPU stand-ins; TensorFlow 2.21.0" in text


def test_csv_has_one_line_per_trial(found):
    rows = list(csv.DictReader(io.StringIO(tables.to_csv(found))))
    assert {(row["strategy"], row["num_gpus"]): row["images_per_second"] for row in rows} == {
        ("replicated_none", "1"): "100.0",
        ("replicated_none", "2"): "180.0",
        ("ps_cpu", "1"): "90.0",
        ("ps_cpu", "2"): "",
    }


def test_a_missing_baseline_is_said():
    fill("results.db", [(small(num_gpus=2), 10.0)])
    assert "10 (no run on 1)" in tables.to_markdown(tables.load("results.db"))


def test_only_the_trials_of_the_sweep_are_shown_also_those_it_found_finished(found):
    fill("results.db", [(small(seed=5), 7.0)], name="second")
    assert len(tables.load("results.db")) == 2
    (only,) = tables.load("results.db", sweep="second")
    assert only.cells["replicated_none"][1].images_per_second == 7.0


def test_a_chart_has_the_points_of_the_table_and_the_ideal_line(found, monkeypatch):
    drawn = []
    monkeypatch.setattr(pyplot, "close", drawn.append)
    (path,) = charts.draw_all(found, Path("figures"))
    throughput, speed_up = drawn[0].axes
    lines = {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in throughput.lines}
    assert lines == {
        "ps_cpu": ([1], [90.0]),
        "replicated_none": ([1, 2], [100.0, 180.0]),
        "ideal: best on 1, times N": ([1, 2], [100.0, 200.0]),
    }
    assert {line.get_label(): list(line.get_ydata()) for line in speed_up.lines}["replicated_none"] == [1.0, 1.8]
    assert throughput.get_xlabel() == "number of CPU stand-ins"
    assert "CPU stand-ins" in drawn[0].get_supxlabel()
    assert "testbox" in drawn[0].get_supxlabel()
    assert path == Path("figures/trivial.png")
    assert image.imread(path).shape[2] == 4
    monkeypatch.undo()
    pyplot.close("all")


def test_two_settings_of_a_model_get_a_chart_each():
    fill("results.db", [(small(), 1.0), (small(batch_size=8), 1.0)])
    paths = charts.draw_all(tables.load("results.db"), Path("figures"))
    assert len(set(paths)) == 2
    assert sorted(path.name for path in paths) == ["trivial-batch_size=2.png", "trivial-batch_size=8.png"]


def test_nothing_but_failures_draws_nothing():
    fill("results.db", [(small(), None)])
    assert charts.draw_all(tables.load("results.db"), Path("figures")) == []


def test_a_folder_that_cannot_be_written_is_named(found):
    Path("figures").write_text("a file")
    with pytest.raises(StoreError, match=r"figures: .*choose another folder"):
        charts.draw_all(found, Path("figures"))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "plots", *arguments], capture_output=True, text=True, check=False)


def test_the_commands_write_text_json_and_paths(found):
    assert "180 (1.80x)" in run("tables").stdout
    assert json.loads(run("tables", "--json").stdout)[0]["model"] == "trivial"
    assert run("tables", "--format", "csv").stdout.startswith("model,strategy,num_gpus")
    assert json.loads(run("charts", "--out", "pictures", "--json").stdout) == ["pictures/trivial.png"]


def test_an_empty_database_is_told_from_a_missing_one():
    fill("results.db", [])
    assert "results.db: no attempt in it yet; run a sweep first" in run("tables").stderr
    assert run("tables", "--db", "no.db").returncode == 2
