"""A stage keeps what it found, however it ends, and never passes what did not run."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.gpu.kit import Finding, Judged, Kit, NotRunError, Number, StageResult, Verdict
from benchmarks.gpu.running import earlier_results, run_stages, share_s
from benchmarks.trainer import BrokenError
from scalemark.host import software
from tests.benchmarks.gpu.boxes import box

SPEED = Number(what="speed", value=2.0, unit="images/s")


def kit() -> Kit:
    return Kit(box=box(), folder=Path("kit").absolute(), torch_python="python")


def stage(*found: Finding | BaseException, wait_s: float = 0.0, minutes: float = 1.0) -> Any:
    def run(_: Kit) -> Iterator[Finding]:
        for one in found:
            if isinstance(one, BaseException):
                raise one
            yield one
        time.sleep(wait_s)

    return SimpleNamespace(
        ABOUT="about",
        LINES={"fast": "it is fast"},
        MINUTES={"gpu": minutes, "cpu": minutes},
        run=run,
    )


def result_of(one: Any, total_s: float = 60.0):
    Path("kit").mkdir()
    (result,) = run_stages(kit(), {"one": one}, total_s, lambda *_: None)
    return result


def test_a_stage_that_judges_its_lines_completes():
    met = Judged(line="fast", verdict=Verdict.MET, why="2")
    result = result_of(stage(SPEED, met))
    assert (result.ended, result.numbers, result.judged) == ("completed", (SPEED,), (met,))


@pytest.mark.parametrize(
    ("error", "ended", "why"),
    [
        (NotRunError("no GPU"), "not run", "no GPU"),
        (BrokenError("a trace\nno GPU"), "broken", "see logs/one-broken.log: no GPU"),
        (ValueError("of ours"), "broken", "see logs/one-broken.log: ValueError: of ours"),
    ],
)
def test_lines_of_a_stage_that_ended_early_were_not_run(error, ended, why):
    result = result_of(stage(SPEED, error))
    assert (result.ended, result.numbers) == (ended, (SPEED,))
    assert result.judged == (Judged(line="fast", verdict=Verdict.NOT_RUN, why=f"{ended}: {why}"),)


def test_a_stage_that_runs_out_of_time_keeps_what_it_found():
    result = result_of(stage(SPEED, wait_s=60), total_s=0.05)
    assert (result.ended, result.numbers) == ("out of time", (SPEED,))
    assert result.judged[0].verdict == "not run"


def test_a_result_is_read_again_by_the_next_run():
    result = result_of(stage(SPEED))
    assert earlier_results(kit(), ["one", "two"]) == {"one": result}


def test_time_that_a_stage_leaves_goes_to_those_after_it():
    long, short = stage(minutes=3), stage(minutes=1)
    assert share_s(100, [long, short], "gpu") == 75
    assert share_s(90, [short], "gpu") == 90


def test_a_stage_without_time_says_so():
    """A bug: it had "up to -0 s"."""
    assert share_s(-0.1, [stage()], "gpu") == 0
    result = result_of(stage(SPEED), total_s=0.0)
    assert (result.ended, result.numbers) == ("out of time", ())
    assert result.why == "no time was left for it; the same command runs the stage"


def test_a_result_says_when_and_of_which_commit_it_is():
    before = datetime.now(UTC)
    result = result_of(stage(SPEED))
    assert before <= result.began_at <= datetime.now(UTC)
    assert result.commit == software.own_checkout()["commit"]


def test_a_result_of_an_earlier_version_is_read():
    values = json.loads(result_of(stage(SPEED)).to_json())
    del values["began_at"], values["commit"]
    assert StageResult.from_json(json.dumps(values)).commit == ""
