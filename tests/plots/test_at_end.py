"""What a sweep shows at its end: as much as people look at, and word of the rest; what fails keeps nothing else from being shown."""

import re
from pathlib import Path

import pytest

from analysis import selection
from analysis.pivot import Table
from plots import at_end, layout
from plots.charts import scaling
from tests.filled import fill
from tests.specs import small


class Reported(list[str]):
    """Lines on stderr."""

    def after(self, beginning: str) -> list[str]:
        return [line.removeprefix(beginning) for line in self if line.startswith(beginning)]

    @property
    def files(self) -> list[str]:
        """What was written to figures/."""
        names = [line for line in self if line.startswith("wrote ")]
        return names[0].partition("to figures/: ")[2].split(", ") if names else []


@pytest.fixture
def reported() -> Reported:
    return Reported()


def show(reported: Reported, sweep: str = "first", url: str = "results.db") -> bool:
    return at_end.show(url, sweep, Path("figures"), reported.append)


@pytest.fixture
def results() -> None:
    fill("results.db", [(small(), 100.0), (small(num_gpus=2), 180.0)])


def test_tables_charts_and_a_report_are_made_and_named(results, reported, capsys):
    assert show(reported)
    shown = capsys.readouterr().out
    assert re.search(r"^1 +100 +100 +1\.00x", shown, re.MULTILINE)
    assert re.search(r"^2 +180 +90\.0 +1\.80x", shown, re.MULTILINE)
    assert reported[-1] == "ask what it means: scalemark advise"
    # two charts of eleven
    files = ["report.html", "throughput.png", "scaling-trivial.png"]
    assert reported[-3] == f"wrote 3 files to figures/: {', '.join(files)}"
    assert reported[-2] == "all charts: scalemark chart --sweep first"
    assert {path.name for path in Path("figures").iterdir()} == set(files)
    assert "scalemark report --sweep first" in Path("figures/report.html").read_text()


def test_the_results_are_read_once_for_tables_charts_and_report(results, reported, monkeypatch):
    """A fault: the report read them again."""
    reads = []
    read = selection._ours

    def counted(chosen: selection.Selection):
        reads.append(chosen)
        return read(chosen)

    monkeypatch.setattr(selection, "_ours", counted)
    assert show(reported)
    assert len(reads) == 1


def test_a_sweep_that_went_on_is_asked_about_by_name(results, reported):
    fill("results.db", [(small(num_gpus=4), 300.0)], name="second")
    assert show(reported)
    assert reported[-1] == "ask what it means: scalemark advise --sweep first"
    assert show(reported, sweep="second")
    assert reported[-1] == "ask what it means: scalemark advise"


def test_files_that_replace_earlier_ones_are_counted(results, reported):
    fill("results.db", [(small(model="vgg16", num_gpus=num), 9.0) for num in (1, 2)], name="second")
    assert show(reported)
    assert not any("in place of" in line for line in reported)
    assert show(reported, sweep="second")
    assert reported[-3] == (
        "wrote 3 files, 2 in place of earlier ones, to figures/: "
        "report.html, throughput.png, scaling-vgg16.png"
    )


def test_other_charts_stand_in_for_those_that_have_nothing_to_show(reported):
    fill("results.db", [(small(batch_size=batch), 100.0 + batch) for batch in (4, 8)])
    assert show(reported)
    kinds = [name.removesuffix(".png").split("-")[0] for name in reported.files[1:]]
    assert kinds == ["throughput", "batch_sizes"]  # one point is no line


def test_settings_are_lines_of_one_picture_for_each_model(reported):
    specs = [
        small(model=model, num_gpus=num, precision=precision)
        for model in ("vgg16", "alexnet")
        for precision in ("fp32", "bf16")
        for num in (1, 2)
    ]
    fill("results.db", [(spec, 100.0 + spec.num_gpus) for spec in specs])
    assert show(reported)
    assert reported.files[1:] == ["throughput.png", "scaling-vgg16.png", "scaling-alexnet.png"]


def test_why_there_is_no_chart_is_said_once(reported):
    fill("results.db", [(small(), 100.0)])
    assert show(reported)
    assert [line for line in reported if "chart: " in line] == [
        "no chart: throughput: nothing to show: there is one number alone"
    ]


def test_only_its_own_trials_are_shown_and_old_pictures_are_replaced(results, reported, capsys):
    Path("figures").mkdir()
    Path("figures/scaling-trivial.png").write_text("old")
    Path("figures/other.png").write_text("old")
    fill("results.db", [(small(model="vgg16"), 10.0)], name="second")
    assert show(reported)
    assert "vgg16" not in capsys.readouterr().out
    assert Path("figures/scaling-trivial.png").read_bytes().startswith(b"\x89PNG")
    assert Path("figures/other.png").read_text() == "old"


def test_too_many_tables_are_left_out_and_counted(reported, capsys, monkeypatch):
    monkeypatch.setattr(at_end, "MOST_TABLES", 2)
    models = ("trivial", "vgg16", "resnet50")
    fill("it's.db", [(small(model=one, num_gpus=num), 100.0) for one in models for num in (1, 2)])
    assert show(reported, url="it's.db")
    assert capsys.readouterr().out.count("CPU devices  images/s") == 2
    again = "--db 'it'\"'\"'s.db' --sweep first"
    assert reported[0] == f"1 more table: scalemark table {again}"


def test_a_chart_that_fails_keeps_no_other_from_being_drawn(results, reported, monkeypatch):
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr(scaling, "draw", broken)
    assert not show(reported)
    assert "throughput.png" in reported.files
    assert reported.after("sweep: ") == [
        "no chart scaling: ZeroDivisionError: a mistake of ours; the results are stored, see "
        f"scalemark {command} --sweep first"
        for command in ("report", "chart")
    ]


def test_a_table_that_fails_is_named_and_the_rest_is_shown(results, reported, monkeypatch, capsys):
    fill("results.db", [(small(), 100.0), (small(model="vgg16"), 7.0)], name="second")
    usual = layout.titles.model_notes

    def broken(table: Table) -> list[str]:
        if table.setting["model"] == "trivial":
            raise ZeroDivisionError("a mistake of ours")
        return usual(table)

    monkeypatch.setattr(layout.titles, "model_notes", broken)
    assert not show(reported, sweep="second")
    assert "vgg16" in capsys.readouterr().out
    table, part = reported.after("sweep: no")
    assert table.startswith(" table trivial")
    assert table.endswith(
        "ZeroDivisionError: a mistake of ours; the results are stored, see scalemark table --sweep second"
    )
    assert part.startswith(" table trivial")
    assert part.endswith("see scalemark report --sweep second")
    assert "report.html" in reported.files
    assert "vgg16" in Path("figures/report.html").read_text()


def test_why_the_only_table_failed_is_reported(results, reported, monkeypatch):
    def broken(table: Table) -> list[str]:
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr(layout.titles, "model_notes", broken)
    assert not show(reported)
    assert any(
        " table trivial" in line and "ZeroDivisionError: a mistake of ours" in line
        for line in reported.after("sweep: no")
    )


def test_a_file_that_cannot_be_written_is_named_and_the_others_are(results, reported):
    Path("figures/scaling-trivial.png").mkdir(parents=True)
    Path("figures/report.html").mkdir()
    assert not show(reported)
    report, chart = reported.after("sweep: ")
    assert report.startswith("no report: figures/report.html: Is a directory")
    assert chart.startswith("no chart scaling: figures/scaling-trivial.png: Is a directory")
    assert Path("figures/throughput.png").exists()


def test_a_folder_that_is_none_is_said(results, reported):
    Path("figures").write_text("a file")
    assert not show(reported)
    assert reported[0] == (
        "sweep: no report: figures: File exists; the results are stored, see scalemark report --sweep first"
    )


def test_ctrl_c_reports_what_it_interrupted_and_what_is_stored(results, reported, monkeypatch):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("plots.drawing.draw", interrupted)
    with pytest.raises(KeyboardInterrupt):
        show(reported)
    assert reported[-1] == (
        "sweep: drawing was interrupted at chart throughput; the results are stored, scalemark report --sweep first "
        "and scalemark chart --sweep first draw them"
    )
    assert reported.files == ["report.html"]


@pytest.mark.integration
def test_a_password_is_in_no_command(reported, postgresql_url):
    url = postgresql_url.replace("postgres@", "postgres:s3same@")
    fill(url, [(small(), 100.0)])
    show(reported, url=url)
    assert "s3same" not in "".join(reported)
    assert "s3same" not in Path("figures/report.html").read_text()


def test_a_database_that_is_damaged_is_reported_once_and_nothing_is_drawn(results, reported):
    path = Path("results.db")
    path.write_bytes(path.read_bytes()[:4096] + b"x" * 40960)
    assert not show(reported)
    (said,) = reported.after("sweep: ")
    assert said.startswith("nothing more is drawn: results.db: ")
    assert "scalemark db rebuild" in said
    assert reported.files == []
