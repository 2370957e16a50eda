"""Every format says the same, and no name breaks out of it."""

import csv
import io
import json
import os
import pty
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from analysis.pivot import pivot
from analysis.selection import Selection, load
from plots import writers
from plots.layout import Document, lay_out
from store.errors import StoreError
from tests.filled import fill
from tests.specs import small

PS = {"variable_update": "parameter_server", "local_parameter_device": "cpu"}
HOSTILE = "<script>alert(1)</script> | a_b* `c` [d](e) \\x & 50% {f} $g^~#\n\x1b[31m"


@pytest.fixture
def filled():
    fill(
        "results.db",
        [
            (small(), 100.25),
            (small(num_gpus=2), 180.5),
            (small(**PS), 90.0),
            (small(num_gpus=2, **PS), None),
        ],
    )


@pytest.fixture
def hostile():
    fill(
        "results.db",
        [(small(model=HOSTILE), 100.0), (small(model="[b]"), 1.0), (small(model="名前"), 2.0)],
    )


def test_text_for_pipes_has_columns_and_no_escapes(plots, filled):
    assert plots("table").stdout.splitlines()[:3] == [
        "trivial (fp32, synthetic data, image_px 32, batch_size 2, weak scaling)",
        "strategy         1 CPU device  2 CPU devices",
        "ps_cpu           90.0 (1.00x)           FAIL",
    ]


def on_a_terminal(**environment):
    leader, follower = pty.openpty()
    subprocess.run(
        [sys.executable, "-m", "scalemark", "table"],
        stdout=follower,
        env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"} | environment,
        check=True,
    )
    os.close(follower)
    shown = os.read(leader, 100_000).decode()
    os.close(leader)
    return shown


def test_a_terminal_without_color_gets_no_escapes(filled):
    shown = on_a_terminal(NO_COLOR="1")
    assert "100 (1.00x)" in shown
    assert "\x1b" not in shown


def test_a_terminal_gets_bold_for_the_best(filled):
    shown = on_a_terminal()
    assert re.search(r"\x1b\[1m *100 \(1\.00x\)\x1b\[0m", shown)
    assert not re.search(r"\x1b\[1m *90\.0", shown)


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self):
        return True


@pytest.mark.parametrize(("num_rows", "is_styled"), [(2, True), (1_001, False)])
def test_very_long_tables_are_printed_plainly_also_on_a_terminal(
    monkeypatch, filled, num_rows, is_styled
):
    monkeypatch.setenv("TERM", "xterm-256color")
    (table,) = pivot(load(Selection(db="results.db")))
    layout = lay_out(table, Selection(db="results.db"))
    long = replace(layout, rows=layout.rows[:1] * num_rows)
    screen = Screen()
    document = Document(heading="", doubts=(), tables=(long,), notes=())
    writers.chosen("terminal")(document, screen)
    assert ("\x1b" in screen.getvalue()) is is_styled
    assert screen.getvalue().count("ps_cpu") == num_rows


def test_markdown_is_githubs(plots, filled):
    text = plots("table", "--format", "md").stdout
    assert "| strategy | 1 CPU device | 2 CPU devices |\n| --- | ---: | ---: |\n" in text
    assert "| replicated_none | **100 (1.00x)** | 180 (1.80x) |" in text
    assert "| ps_cpu | 90.0 (1.00x) | FAIL |" in text
    assert "; FAIL: failed" in text
    assert text == plots("table", "--format", "markdown").stdout


def test_who_is_as_fast_as_the_fastest_is_bold(plots):
    entries = [(small(), speed) for speed in (100.0, 102.0, 101.0, 101.0)] + [
        (small(**PS), speed) for speed in (97.0, 104.0, 100.0, 101.0)
    ]
    fill(
        "results.db",
        [*entries, (small(all_reduce="pscpu"), 10.0), (small(all_reduce="pscpu"), 10.1)],
    )
    text = plots("table", "--format", "markdown").stdout
    bold = re.findall(r"\*\*(\d+)[^*|]*\*\*", text)
    assert bold == ["100", "101"]


def test_a_tidy_export_has_a_line_per_result_with_every_axis(plots, filled):
    rows = list(csv.DictReader(io.StringIO(plots("table", "--format", "tidy").stdout)))
    assert {
        (row["strategy"], row["num_gpus"]): (row["throughput"], row["outcome"]) for row in rows
    } == {
        ("replicated_none", "1"): ("100.25", "completed"),
        ("replicated_none", "2"): ("180.5", "completed"),
        ("ps_cpu", "1"): ("90.0", "completed"),
        ("ps_cpu", "2"): ("", "failed"),
    }
    assert float(rows[3]["speed_up"]) == 180.5 / 100.25
    assert {
        "seed",
        "momentum",
        "data_format",
        "prefetch",
        "host",
        "versions",
        "attempts",
        "baseline",
    } <= rows[0].keys()


def test_csv_is_the_table_seen_with_numbers_alone(plots, filled):
    assert plots("table", "--format", "csv").stdout.splitlines() == [
        "strategy,1 CPU device images/s,1 CPU device speed-up,"
        "2 CPU devices images/s,2 CPU devices speed-up",
        "ps_cpu,90.0,1.0,FAIL,",
        f"replicated_none,100.25,1.0,180.5,{180.5 / 100.25}",
    ]


def test_csv_of_few_repeats_has_their_range_beside_and_nothing_for_what_was_not_run(plots):
    repeats = [(small(), speed) for speed in (90.0, 110.0)]
    fill("results.db", [*repeats, (small(num_gpus=2, **PS), 50.0)])
    shown = ("--show", "throughput,interval,ms/step", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(plots("table", *shown).stdout)))
    on_1 = {key: float(rows[1][f"1 CPU device {key}"]) for key in ("low", "high", "ms/step")}
    assert on_1 == {"low": 90.0, "high": 110.0, "ms/step": pytest.approx(2000 / (90 * 110) ** 0.5)}
    assert rows[0]["1 CPU device images/s"] == rows[1]["2 CPU devices ms/step"] == ""
    assert rows[0]["2 CPU devices low"] == ""


def test_csv_of_several_tables_names_each_in_the_first_column(plots):
    fill("results.db", [(small(), 1.5), (small(model="vgg16", num_gpus=2), 2.5)])
    assert plots("table", "--show", "throughput", "--format", "csv").stdout.splitlines() == [
        "table,strategy,1 CPU device images/s,2 CPU devices images/s",
        "trivial,replicated_none,1.5,",
        "vgg16,replicated_none,,2.5",
    ]


def test_csv_of_a_curve_has_a_row_for_each_number_of_devices(plots):
    fill("results.db", [(small(), 10.0), (small(num_gpus=2), 15.0)])
    header, *rows = plots("table", "--format", "csv").stdout.splitlines()
    assert header.startswith(
        "CPU devices,images/s,images/s low,images/s high,images/s n,per CPU device,speed-up"
    )
    assert [row.split(",")[:7] for row in rows] == [
        ["1", "10.0", "", "", "1", "10.0", "1.0"],
        ["2", "15.0", "", "", "1", "7.5", "1.5"],
    ]


def test_json_has_the_same_records_with_types(plots, filled):
    found = json.loads(plots("table", "--json").stdout)
    rows = list(csv.DictReader(io.StringIO(plots("table", "--format", "tidy").stdout)))
    assert [sorted(record) for record in found] == [sorted(row) for row in rows]
    assert [record["throughput"] for record in found] == [90.0, None, 100.25, 180.5]
    assert found[0]["attempts"] == [3]
    assert plots("table", "--format", "json").stdout == plots("table", "--json").stdout


def test_hostile_names_are_escaped_in_markdown(plots, hostile):
    text = plots("table", "--format", "markdown", "--rows", "model").stdout
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}
    assert (
        "\\<script\\>alert(1)\\</script\\> \\| a_b\\* \\`c\\` \\[d\\](e) \\\\x \\& 50% {f} $g^\\~\\#\\\\n\\\\x1b\\[31m"
        in text
    )


def test_nothing_that_a_terminal_would_obey_is_printed(plots, hostile):
    assert "\x1b" not in plots("table").stdout


def test_wide_characters_keep_columns_aligned(plots, hostile):
    lines = plots("table", "--rows", "model").stdout.splitlines()
    (wide,) = [line for line in lines if line.startswith("名前")]
    (plain,) = [line for line in lines if line.startswith("[b]")]
    assert len(wide) == len(plain) - 2


def test_a_tidy_export_begins_with_the_axes_that_vary_and_key_figures(plots):
    specs = [small(num_gpus=num, precision=name) for num in (1, 2) for name in ("fp32", "bf16")]
    fill("results.db", [(spec, 100.0) for spec in specs])
    header = plots("table", "--format", "tidy").stdout.partition("\n")[0]
    begin = "model,strategy,num_gpus,precision,throughput,throughput_low,throughput_high,speed_up,"
    assert header.startswith(begin)


def test_no_cell_of_csv_is_taken_for_a_formula(plots):
    names = ["=HYPERLINK(1)", "+1", "-1", "@a", "\ta", "\ra"]
    fill("results.db", [(small(model=name), 1.0) for name in names])
    rows = list(csv.DictReader(io.StringIO(plots("table", "--format", "tidy").stdout, newline="")))
    assert {row["model"] for row in rows} == {f"'{name}" for name in names}


def test_csv_quotes_and_keeps_hostile_names(plots, hostile):
    rows = list(csv.DictReader(io.StringIO(plots("table", "--format", "tidy").stdout)))
    assert HOSTILE in {row["model"] for row in rows}


def test_an_unknown_format_names_those_there_are():
    with pytest.raises(
        StoreError, match="pdf: no such format; there are csv, json, markdown, terminal, tidy"
    ):
        writers.chosen("pdf")
    with pytest.raises(StoreError, match=r"markdwn: no such format; did you mean markdown\?"):
        writers.chosen("markdwn")
    with pytest.raises(StoreError, match="--json with --format csv: give either"):
        writers.chosen("csv", as_json=True)
