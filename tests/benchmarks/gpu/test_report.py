"""The page that a reader of an issue sees first."""

from datetime import UTC, datetime

from benchmarks.gpu.__main__ import STAGES
from benchmarks.gpu.kit import Ended, Judged, Note, Number, StageResult, Verdict
from benchmarks.gpu.report import machine_values, report
from tests.benchmarks.gpu.boxes import H100, box
from tests.conftest import PROJECT

ENVIRONMENT = {
    "kernel": "6.8",
    "cuda_build": "12.5.1",
    "packages": {"tensorflow": "2.21.0"},
}


def test_the_report_is_a_page_of_verdicts_machine_and_numbers(snapshot):
    peers = StageResult(
        stage="peers",
        ended=Ended.COMPLETED,
        why="",
        took_s=301.4,
        numbers=(
            Number(what="ours / PyTorch", value=0.953, unit="x", low=0.94, high=0.97),
            Number(what="ours", value=2511.3, unit="images/s"),
        ),
        judged=(
            Judged(line="torch_images", verdict=Verdict.MET, why="0.953 [0.940, 0.970]"),
            Judged(line="keras_images", verdict=Verdict.MISSED, why="1.02 [1.01, 1.03]"),
            Judged(line="torch_tokens", verdict=Verdict.OPEN, why="0.81 [0.79, 0.83]"),
        ),
        notes=(Note(text="a part | could not run"),),
        began_at=datetime(2026, 11, 24, 17, 5, tzinfo=UTC),
        commit=f"{'55edc350' * 5}+dirty",
    )
    broken = StageResult(
        stage="selfcheck",
        ended=Ended.NOT_RUN,
        why="see logs/selfcheck.log",
        took_s=3.0,
        numbers=(),
        judged=(Judged(line="modes", verdict=Verdict.NOT_RUN, why="not run: see the log"),),
        notes=(),
        began_at=datetime(2026, 11, 25, 9, 29, tzinfo=UTC),
        commit="0123abcd" * 5,
    )
    values = machine_values(box(H100), ENVIRONMENT)
    made_at = datetime(2026, 11, 25, 9, 30, tzinfo=UTC)
    page = report(STAGES, {"peers": peers, "selfcheck": broken}, ["xla"], values, made_at)
    assert "box7" not in page
    assert page == snapshot


def test_every_line_that_must_hold_is_in_the_documentation():
    page = (PROJECT / "docs" / "gpus.md").read_text()
    lines = [line for stage in STAGES.values() for line in stage.LINES.values()]
    assert [line for line in lines if f"| {line} |" not in page] == []
    assert [name for name in STAGES if f"| `{name}` |" not in page] == []
