"""The kit's time and exit code."""

from types import SimpleNamespace

import pytest

from benchmarks.gpu import __main__ as program
from benchmarks.gpu.kit import Judged, Verdict
from benchmarks.trainer import BrokenError

LINES = {"line": "it holds"}


def run(monkeypatch, *ends: str | BaseException, arguments: tuple[str, ...] = ()) -> int:
    """Run a kit of a stage for each of these verdicts."""

    def made(end):
        def run(_):
            if isinstance(end, BaseException):
                raise end
            yield Judged(line="line", verdict=end, why="told")

        return SimpleNamespace(ABOUT="a stage", LINES=LINES, MINUTES={"cpu": 0.5}, run=run)

    stages = {f"stage-{number}": made(end) for number, end in enumerate(ends)}
    monkeypatch.setattr(program, "STAGES", stages)
    return program.main(["--device", "cpu", "--out", "kit", *arguments])


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ([Verdict.MET, Verdict.OPEN, Verdict.NOT_RUN], 0),
        ([Verdict.MET, Verdict.MISSED], 1),
        ([Verdict.MET, BrokenError("a trace")], 1),
        ([Verdict.OPEN, Verdict.NOT_RUN], 3),
        ([Verdict.MET, KeyboardInterrupt()], 130),
    ],
)
def test_the_exit_code_tells_what_was_proved(ends, code, monkeypatch, capsys):
    assert run(monkeypatch, *ends) == code
    assert ("no line was met or missed" in capsys.readouterr().err) == (code == 3)


def test_the_help_has_no_marks_of_markdown(capsys):
    with pytest.raises(SystemExit):
        program.main(["--help"])
    said = capsys.readouterr().out
    assert "smoke" in said
    assert "```" not in said


def test_a_stage_alone_has_the_time_of_all(monkeypatch, capsys):
    """A bug: it had less time without --minutes than with less than the default."""
    met = [Verdict.MET] * 4
    run(monkeypatch, *met, arguments=("--stages", "stage-1"))
    assert "stage-1: a stage (up to 120 s)" in capsys.readouterr().err
