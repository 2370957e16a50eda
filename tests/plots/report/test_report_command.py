"""The command writes one whole file, or says why not."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from plots.source import draft_of, write_whole
from store.errors import StoreError
from tests.app import run_app
from tests.plots.report.conftest import parsed
from tests.ran import ran

pytestmark = pytest.mark.integration


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return ran([sys.executable, "-m", "scalemark", "report", *arguments])


def test_it_prints_the_path_of_a_page_that_names_the_command(everything):
    ended = run("model=resnet50", "--out", "my page.html")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "my page.html\n", "")
    page = parsed(Path("my page.html"))
    assert "command scalemark report model=resnet50 --out 'my page.html'" in page.text
    assert 'id="t5"' in Path("my page.html").read_text()
    assert 'id="t6"' not in Path("my page.html").read_text()


def test_scripts_are_reported_size_and_trials(everything):
    reported = json.loads(run("--json").stdout)
    assert reported == {
        "path": "figures/report.html",  # where a sweep leaves it
        "bytes": Path("figures/report.html").stat().st_size,
        "trials": 10,
    }


def test_a_database_without_results_is_named():
    ended = run()
    assert ended.returncode == 2
    assert "results.db: no such database" in ended.stderr
    assert not Path("figures").exists()


@pytest.mark.parametrize(
    ("out", "why"),
    [
        ("missing/report.html", "No such file or directory"),
        ("file/report.html", "Not a directory"),
        ("folder", "Is a directory"),
        ("/proc/report.html", "No such file or directory|Permission denied"),
    ],
)
def test_where_it_cannot_write_it_says_so_and_leaves_nothing(out, why):
    Path("file").write_text("")
    Path("folder").mkdir()
    with pytest.raises(StoreError, match=rf"{out}: ({why}); choose another file with --out"):
        write_whole(Path(out), "text")
    assert sorted(path.name for path in Path().iterdir()) == ["file", "folder"]
    assert list(Path("folder").iterdir()) == []


def test_a_page_of_that_name_is_replaced_whole(tmp_path):
    Path("report.html").write_text("before")
    with pytest.raises(UnicodeEncodeError):
        write_whole(Path("report.html"), "half \ud800")
    assert Path("report.html").read_text() == "before"
    write_whole(Path("report.html"), "after")
    assert Path("report.html").read_text() == "after"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_two_who_write_the_same_file_at_once_do_not_meet(tmp_path):
    out = Path("report.html")
    with draft_of(out) as first:
        first.write_text("first")
        write_whole(out, "second")
        assert out.read_text() == "second"
    assert out.read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_part_that_fails_is_named_and_the_others_are_there(everything, monkeypatch, capsys):
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a mistake of ours")

    for part in ("recommend", "_failures"):
        monkeypatch.setattr(f"plots.report.{part}", broken)
    monkeypatch.setattr("plots.charts.scaling.draw", broken)
    ended = run_app(capsys, monkeypatch, "report")
    assert ended.exit_code == 1
    assert ended.stdout == "figures/report.html\n"
    page = parsed(Path("figures/report.html"))
    for part in ("answer", "failures", "chart scaling"):
        mistake = f"{part}: ZeroDivisionError: a mistake of ours"
        assert f"report: {part}: not in the report: ZeroDivision" in ended.stderr
        assert f"Not in this report: {mistake}" in page.text
    assert "vgg16" in page.text
