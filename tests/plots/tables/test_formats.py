"""Every format says the same, and no name breaks out of it."""

import csv
import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from analysis.pivot import pivot
from analysis.selection import Selection, load
from plots.tables import writers
from plots.tables.layout import Document, lay_out
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


def test_the_folder_is_the_registry():
    assert writers.names() == ["csv", "html", "json", "latex", "markdown", "terminal"]


def test_text_for_pipes_has_columns_and_no_escapes(plots, filled):
    assert plots("tables").stdout.splitlines()[:3] == [
        "trivial (fp32, synthetic data, image_px 32, batch_size 2, weak scaling)",
        "strategy         1 CPU device  2 CPU devices",
        "ps_cpu           90.0 (1.00x)           FAIL",
    ]


def test_a_terminal_gets_bold_for_the_best(filled):
    leader, follower = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"}
    ended = subprocess.run(
        [sys.executable, "-m", "plots", "tables"], stdout=follower, env=environment, check=True
    )
    os.close(follower)
    shown = os.read(leader, 100_000).decode()
    os.close(leader)
    assert ended.returncode == 0
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
    writers.chosen("terminal")([document], screen)
    assert ("\x1b" in screen.getvalue()) is is_styled
    assert screen.getvalue().count("ps_cpu") == num_rows


def test_markdown_is_githubs(plots, filled):
    text = plots("tables", "--format", "md").stdout
    assert "| strategy | 1 CPU device | 2 CPU devices |\n| --- | ---: | ---: |\n" in text
    assert "| replicated_none | **100 (1.00x)** | 180 (1.80x) |" in text
    assert "| ps_cpu | 90.0 (1.00x) | FAIL |" in text
    assert "; FAIL: failed" in text
    assert text == plots("tables", "--format", "markdown").stdout


@pytest.mark.parametrize(
    ("form", "bold"),
    [
        ("markdown", r"\*\*{}[^*|]*\*\*"),
        ("html", '<td class="best">{}'),
        ("latex", r"\\textbf{{{}"),
    ],
)
def test_who_is_as_fast_as_the_fastest_is_bold_in_every_format(plots, form, bold):
    entries = [(small(), speed) for speed in (100.0, 102.0, 101.0, 101.0)] + [
        (small(**PS), speed) for speed in (97.0, 104.0, 100.0, 101.0)
    ]
    fill(
        "results.db",
        [*entries, (small(all_reduce="pscpu"), 10.0), (small(all_reduce="pscpu"), 10.1)],
    )
    text = plots("tables", "--format", form).stdout
    assert all(re.search(bold.format(number), text) for number in ("100 ", "101 "))
    assert not re.search(bold.format("10"), text.replace("100 ", "").replace("101 ", ""))


@pytest.mark.parametrize(
    ("form", "mark"),
    [("terminal", "100†"), ("markdown", "100†"), ("html", "100†"), ("latex", "100$\\dagger$")],
)
def test_every_format_marks_numbers_of_which_some_repeats_failed(plots, form, mark):
    fill("results.db", [(small(), 100.0), (small(), None)])
    text = plots("tables", "--format", form).stdout
    assert mark in text
    assert "some repeats have no number: FAIL" in text


def test_csv_has_a_line_per_result_with_unrounded_numbers_and_every_axis(plots, filled):
    rows = list(csv.DictReader(io.StringIO(plots("tables", "--format", "csv").stdout)))
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
        "attempt_ids",
        "baseline_strategy",
    } <= rows[0].keys()


def test_json_has_the_same_records_with_types(plots, filled):
    found = json.loads(plots("tables", "--json").stdout)
    rows = list(csv.DictReader(io.StringIO(plots("tables", "--format", "csv").stdout)))
    assert [list(record) for record in found] == [list(row) for row in rows]
    assert [record["throughput"] for record in found] == [90.0, None, 100.25, 180.5]
    assert found[0]["attempt_ids"] == [3]
    assert plots("tables", "--format", "json").stdout == plots("tables", "--json").stdout


def test_latex_is_balanced_and_bold_where_it_is_best(plots, filled):
    text = plots("tables", "--format", "latex").stdout
    assert "replicated\\_none & \\textbf{100 (1.00x)} & 180 (1.80x) \\\\" in text
    assert re.findall(r"\\(begin|end)\{(\w+)\}", text) == [
        ("begin", "table"),
        ("begin", "tabular"),
        ("end", "tabular"),
        ("end", "table"),
    ]
    assert "\\begin{tabular}{lrr}" in text
    assert re.findall(r"\\(top|mid|bottom)rule", text) == ["top", "mid", "bottom"]


def test_hostile_names_are_escaped_in_latex(plots, hostile):
    body = plots("tables", "--format", "latex").stdout.split("\n", 1)[1]
    assert "\\textless{}script\\textgreater{}alert(1)\\textless{}/script\\textgreater{}" in body
    assert (
        "\\textbackslash{}x \\& 50\\% \\{f\\} \\$g\\textasciicircum{}\\textasciitilde{}\\#\\textbackslash{}n\\textbackslash{}x1b"
        in body
    )
    depth = 0
    for one in re.sub(r"\\[{}\\]", "", body):
        depth += {"{": 1, "}": -1}.get(one, 0)
        assert depth >= 0
    assert depth == 0


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX here")
def test_latex_compiles(plots, filled):
    table = plots("tables", "--format", "latex").stdout
    preamble = "\\documentclass{article}\\usepackage[utf8]{inputenc}\\usepackage[T1]{fontenc}\\usepackage{booktabs}"
    Path("t.tex").write_text(f"{preamble}\\begin{{document}}{table}\\end{{document}}")
    assert (
        subprocess.run(
            ["pdflatex", "-halt-on-error", "t.tex"], stdout=subprocess.DEVNULL, check=False
        ).returncode
        == 0
    )


class Page(HTMLParser):
    """Counts what opens and closes, and keeps texts."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.texts, self.scopes = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.scopes += [value for name, value in attrs if name == "scope"]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_html_is_a_page_on_its_own_with_scopes_and_a_caption(plots, filled):
    text = plots("tables", "--format", "html").stdout
    page = Page(text)
    assert text.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert page.open == []
    assert page.scopes == ["col", "col", "col", "row", "row"]
    assert '<td class="best">100 (1.00x)</td>' in text
    assert "<caption>trivial (fp32" in text
    assert "http" not in text


def test_hostile_names_stay_text_in_html(plots, hostile):
    page = Page(plots("tables", "--format", "html").stdout)
    assert "script" not in page.tags
    assert any("<script>alert(1)</script>" in text for text in page.texts)


def test_hostile_names_are_escaped_in_markdown(plots, hostile):
    text = plots("tables", "--format", "markdown", "--rows", "model").stdout
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}
    assert (
        "\\<script\\>alert(1)\\</script\\> \\| a_b\\* \\`c\\` \\[d\\](e) \\\\x \\& 50% {f} $g^\\~\\#\\\\n\\\\x1b\\[31m"
        in text
    )


def test_nothing_that_a_terminal_would_obey_is_printed(plots, hostile):
    assert "\x1b" not in plots("tables").stdout


def test_wide_characters_keep_columns_aligned(plots, hostile):
    lines = plots("tables", "--rows", "model").stdout.splitlines()
    (wide,) = [line for line in lines if line.startswith("名前")]
    (plain,) = [line for line in lines if line.startswith("[b]")]
    assert len(wide) == len(plain) - 2


def test_no_cell_of_csv_is_taken_for_a_formula(plots):
    names = ["=HYPERLINK(1)", "+1", "-1", "@a", "\ta", "\ra"]
    fill("results.db", [(small(model=name), 1.0) for name in names])
    rows = list(csv.DictReader(io.StringIO(plots("tables", "--format", "csv").stdout, newline="")))
    assert {row["model"] for row in rows} == {f"'{name}" for name in names}


def test_csv_quotes_and_keeps_hostile_names(plots, hostile):
    rows = list(csv.DictReader(io.StringIO(plots("tables", "--format", "csv").stdout)))
    assert HOSTILE in {row["model"] for row in rows}


def test_an_unknown_format_names_those_there_are():
    with pytest.raises(
        StoreError,
        match=r"pdf: no such format; there are csv, html, json, latex, markdown, terminal",
    ):
        writers.chosen("pdf")
    with pytest.raises(StoreError, match=r"latx: no such format; did you mean latex\?"):
        writers.chosen("latx")
    with pytest.raises(StoreError, match="--json with --format csv: give either"):
        writers.chosen("csv", as_json=True)


def test_a_file_is_there_whole_or_as_it_was(filled, tmp_path):
    def broken(_, out):
        out.write("half of")
        raise OSError(28, "No space left on device")

    path = tmp_path / "t.txt"
    path.write_text("before")
    with pytest.raises(StoreError, match="No space left on device; choose another file with --out"):
        writers.write_file([], broken, path)
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith("t.txt")] == ["t.txt"]
