"""`scalemark table`: what it selects, pivots and compares, and what it says when it cannot."""

import csv
import io
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from plots import layout
from tests.filled import MACHINE, fill
from tests.specs import small

PS = {"variable_update": "parameter_server", "local_parameter_device": "cpu"}
RESULTS = [
    (small(), 100.0),
    (small(num_gpus=2), 180.0),
    (small(**PS), 90.0),
    (small(num_gpus=2, **PS), None),
]


@pytest.fixture
def filled():
    fill("results.db", RESULTS)


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "scalemark", *arguments], capture_output=True, text=True, check=False
    )


def test_the_command_itself_prints_tables(filled):
    ended = run("table")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert re.search(r"replicated_none +100 \(1\.00x\) +180 \(1\.80x\)", ended.stdout)


def test_a_table_that_fails_is_named_and_the_others_are_printed(plots, filled, monkeypatch):
    fill("results.db", [(small(model="vgg16"), 7.0)])
    usual = layout.titles.model_notes

    def broken(table):
        if table.setting["model"] == "trivial":
            raise ZeroDivisionError("a mistake of ours")
        return usual(table)

    monkeypatch.setattr(layout.titles, "model_notes", broken)
    ended = plots("table", "--format", "tidy")
    assert ended.exit_code == 1
    assert [row["model"] for row in rows(ended.stdout)] == ["vgg16"]
    assert "table: no table trivial" in ended.stderr
    assert ended.stderr.endswith(": ZeroDivisionError: a mistake of ours\n")


def test_trials_that_the_sweep_found_finished_are_shown(plots, filled):
    fill("results.db", [(small(seed=5), 7.0)], name="second")
    assert len(rows(plots("table", "--format", "tidy").stdout)) == 5
    (only,) = rows(plots("table", "--sweep", "second", "--format", "tidy").stdout)
    assert only["throughput"] == "7.0"


def test_filters_of_axes_choose_what_is_shown_and_leave_baselines_alone(plots, filled):
    (only,) = rows(
        plots("table", "num_gpus=2", "strategy=replicated_none", "--format", "tidy").stdout
    )
    assert (only["throughput"], float(only["speed_up"])) == ("180.0", pytest.approx(1.8))


def test_axes_go_where_they_are_reported(plots, filled):
    text = plots("table", "--rows", "num_gpus", "--columns", "strategy").stdout
    assert re.search(
        r"CPU devices +ps_cpu +replicated_none\n1 +90\.0 \(1\.00x\) +100 \(1\.00x\)", text
    )
    assert plots("table", "--rows", "num_gpus").stdout == text, "what is free goes across"
    assert plots("table", "--columns", "strategy").stdout == text


def test_what_is_not_reported_goes_where_there_is_room(plots, filled):
    text = plots("table", "--rows", "strategy,num_gpus").stdout
    assert re.search(r"strategy +CPU devices +trivial\nps_cpu +1 +90\.0 \(1\.00x\)\n", text)


def test_two_axes_can_go_across(plots):
    fill(
        "results.db",
        [
            (small(num_gpus=num, precision=precision), 10.0 * num)
            for num in (1, 2)
            for precision in ("fp32", "bf16")
        ],
    )
    text = plots("table", "--columns", "precision,num_gpus").stdout
    assert re.search(
        r"bf16, 1 CPU device +bf16, 2 CPU devices +fp32, 1 CPU device +fp32, 2 CPU devices",
        text,
    )


def test_a_single_point_is_a_table(plots):
    fill("results.db", [(small(num_gpus=2), 10.0)])
    ended = plots("table")
    assert re.search(r"replicated_none +10\.0\n", ended.stdout)
    assert (
        "no speed-up of replicated_none: no number on 1 CPU device; --baseline fewest"
        in ended.stdout
    )


def test_rows_without_a_speed_up_are_not_the_whole_strategy(plots):
    """A bug: a strategy that had speed-ups in other rows was said to have none."""
    fill(
        "results.db", [(small(), 9.0), (small(num_gpus=2), 18.0), (small(num_gpus=2, xla="on"), 1)]
    )
    said = "no speed-up of some rows of replicated_none: no number on 1 CPU device"
    assert said in plots("table").stdout


@pytest.mark.parametrize("form", ["terminal", "markdown", "csv", "json", "tidy"])
def test_0_throughput_divide_nothing(plots, form):
    fill(
        "results.db",
        [(small(), 0.0), (small(), 0.0), (small(num_gpus=2), 10.0), (small(num_gpus=2), 11.0)],
    )
    ended = plots("table", "--format", form)
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert not re.search(r"\b(nan|inf)\b", ended.stdout, re.IGNORECASE)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--rows", "modle"), "modle: no such axis; did you mean model?"),
        (("--columns", "num_gpus,num_gpus"), "num_gpus: wanted down or across, once"),
        (("--show", "speedup"), "speedup: no such quantity; did you mean speed-up?"),
        (("--show", ""), "an empty name: no such quantity; there are throughput, interval"),
        (("modle=resnet50",), "modle: no such filter; did you mean model?"),
        (
            ("model=resnet50",),
            "results.db: no attempt is like model=resnet50; model is trivial there; see scalemark list",
        ),
        (("--sweep", "none"), "none: no such sweep; the newest are first"),
        (
            ("--source", "tf-benchmarks-2017"),
            "--source tf-benchmarks-2017: of published figures only; add --origin published; scalemark compare SIDE tf-benchmarks-2017",
        ),
        (("--source", "nope"), "nope: no such source; there are tf-benchmarks-2017, "),
        (("--db", "no.db"), "no.db: no such database; run a sweep first"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(plots, filled, arguments, said):
    ended = plots("table", *arguments)
    assert ended.exit_code == 2
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""


def test_an_empty_database_is_distinguished_from_a_missing_one(plots):
    fill("results.db", [])
    ended = plots("table")
    assert (ended.exit_code, ended.stderr) == (
        2,
        "table: results.db: no attempt in it yet; run a sweep first\n",
    )


def test_a_full_disk_is_reported(filled):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    ended = run("report", "--out", "/dev/full")
    assert (ended.returncode, ended.stderr) == (
        2,
        "report: /dev/full: No space left on device; choose another file with --out\n",
    )


def test_tables_import_neither_numpy_nor_pandas_nor_scipy_nor_matplotlib(filled):
    fill("results.db", [(small(), 101.0), (small(**PS), 91.0)], name="second")
    script = "import sys; from plots.commands import table; table('results.db'); print(sorted({'numpy', 'pandas', 'scipy', 'matplotlib', 'jinja2'} & set(sys.modules)), file=sys.stderr)"
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert ended.stderr.splitlines()[-1] == "[]"


def test_a_table_of_a_copied_database_names_it_in_its_commands(plots, filled):
    shutil.copy("results.db", "copy of it.db")
    assert (
        "no number: scalemark show --db 'copy of it.db' 4 says what happened"
        in plots("table", "--db", "copy of it.db").stdout
    )


def test_a_baseline_that_nothing_is_reported_against_is_refused(plots, filled):
    fill("results.db", [(small(), 50.0)], name="second", machine=replace(MACHINE, host="other"))
    ended = plots("table", "--baseline", "best", "--show", "throughput")
    assert (ended.exit_code, ended.stderr) == (
        2,
        "table: --baseline best: no speed-up is shown; add speed-up to --show, or leave it out\n",
    )
    csv = ("--show", "throughput", "--format", "tidy")
    assert plots("table", "--baseline", "best", *csv).exit_code == 0
