"""The folders of a sweep tell all that a lost database held of it, and sweeps of one name are kept apart."""

import json
import resource
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from scalemark.records.attempt import SweepRecord, sweep_uid
from scalemark.records.measurement import AttemptResult, Outcome, Phase
from scalemark.run_folder import RunFolder
from store.writer import Writer, read_sweep
from sweeper import SweepRefusedError
from sweeper.grid.plan import PlannedTrial
from sweeper.loop.run_folders import RunFolders, recorded_left, write_end
from tests.filled import ENVIRONMENT, MACHINE, NOON, PLACEMENT, SOFTWARE_KEY, STEPS, attempt, begin
from tests.programs import program
from tests.specs import small
from tests.sweeper.loop.fakes import SWEEP

pytestmark = pytest.mark.integration

AFTER_NOON = NOON + timedelta(seconds=1)
LATER = replace(SWEEP, uid=sweep_uid("s", AFTER_NOON, "sweep.py"), started_at=AFTER_NOON)


def folder_of(sweep: SweepRecord) -> str:
    return RunFolders(Path("runs"), sweep, MACHINE, SOFTWARE_KEY).path.name


def reported(name: str = "s") -> SweepRecord:
    return SweepRecord.from_json((Path("runs") / name / "sweep.json").read_text())


def test_a_continued_sweep_keeps_its_folder():
    assert (folder_of(SWEEP), folder_of(LATER), folder_of(SWEEP), folder_of(LATER)) == (
        "s",
        "s-2",
        "s",
        "s-2",
    )
    assert (reported("s"), reported("s-2")) == (SWEEP, LATER)


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"name": "s", "reason": "", "command": "sweep.py", "started_at": "x"}', None],
)
def test_a_folder_that_does_not_tell_whose_it_is_is_left_alone(text):
    Path("runs/s").mkdir(parents=True)
    if text is not None:
        Path("runs/s/sweep.json").write_text(text)
    Path("runs/s-2").write_text("a file")
    assert folder_of(SWEEP) == "s-3"
    assert (Path("runs/s/sweep.json").read_text() if text is not None else None) == text


def test_a_folder_that_cannot_be_written_is_refused():
    Path("file").write_text("")
    with pytest.raises(
        SweepRefusedError,
        match=r"file/s: .*; make room or choose another folder with store.runs_dir=",
    ):
        RunFolders(Path("file"), SWEEP, MACHINE, SOFTWARE_KEY)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, before[1]))  # bytes: no room for more
    try:
        with pytest.raises(
            SweepRefusedError,
            match=r"raise the limit of the size of files \(ulimit -f\) or choose another folder",
        ):
            folder_of(SWEEP)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(Path("runs").iterdir()) == []


def test_sweep_json_is_what_the_database_holds():
    writer = Writer("results.db")
    a, b, c = (small(seed=seed) for seed in (1, 2, 3))
    ledger = begin(writer, {a: 1, b: 0})
    first = read_sweep(writer.engine, ledger.sweep_id)
    assert [(trial.position, trial.spec) for trial in first.trials] == [
        (0, json.loads(a.to_json())),
        (1, json.loads(b.to_json())),
    ]
    assert (first.name, first.command, first.started_at, first.left_out) == (
        "first",
        "sweep.py",
        NOON,
        (("xla=on", "later"),),
    )
    ledger.end(NOON, finished=False)
    ledger = begin(writer, {c: 1, a: 1}, started_at=NOON + timedelta(hours=1))
    second = read_sweep(writer.engine, ledger.sweep_id)
    writer.close()
    trials = sorted(second.trials, key=lambda trial: (trial.position, trial.spec["seed"]))
    assert [(trial.position, trial.spec) for trial in trials] == [
        (0, json.loads(c.to_json())),
        (1, json.loads(a.to_json())),
        (1, json.loads(b.to_json())),
    ]
    assert (second.uid, second.started_at) == (first.uid, NOON)
    assert [folder_of(first), folder_of(second), reported("first")] == ["first", "first", second]


def test_an_attempts_folder_tells_which_it_is_before_it_is_started():
    folders = RunFolders(Path("runs"), SWEEP, MACHINE, SOFTWARE_KEY)
    trial = PlannedTrial(spec=small(seed=1), num_repeats=1)
    folder = folders.make(trial, 2, 3, PLACEMENT, NOON)
    begun = folder.read_attempt()
    assert (begun.sweep_uid, begun.sweep, begun.trial_id) == (
        SWEEP.uid,
        "s",
        small(seed=1).trial_id,
    )
    assert (begun.repeat, begun.attempt, begun.started_at, begun.software_key) == (
        2,
        3,
        NOON,
        SOFTWARE_KEY,
    )
    assert folder.read_machine() == MACHINE
    assert folders.make(trial, 2, 3, PLACEMENT, NOON).path.name == f"{folder.path.name}-2"


def test_an_attempts_folder_has_neither_spaces_nor_commas():
    spec = program(free={"env.MYVAR": "a b, c", "zero": 1})
    folders = RunFolders(Path("runs"), SWEEP, MACHINE, SOFTWARE_KEY)
    made = folders.make(PlannedTrial(spec=spec, num_repeats=1), 1, 1, PLACEMENT, NOON)
    assert made.path.name == f"train-zero=1_MYVAR=a_b_c-x1-{spec.trial_id[:8]}-r1-a1"


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path)


def test_a_result_is_reported_again_only_where_another_counts(folder):
    finished = attempt(small(seed=1), 100.0)
    folder.write(folder.result, finished.result.to_json())
    write_end(folder, finished, NOON)
    end = folder.read_ended()
    assert (end.outcome, end.message, end.result) == (Outcome.COMPLETED, "", None)
    assert (end.exit_code, end.duration_s, end.ended_at, end.placement) == (0, 9.5, NOON, PLACEMENT)
    other = replace(
        finished,
        result=AttemptResult(outcome=Outcome.TIMED_OUT, message="late"),
    )
    write_end(folder, other, NOON)
    assert folder.read_ended().result == other.result
    folder.result.write_text("damaged")
    write_end(folder, finished, NOON)
    assert folder.read_ended().result == finished.result


def test_a_folder_that_was_removed_keeps_nothing_and_is_no_error(tmp_path):
    write_end(RunFolder(tmp_path / "gone"), attempt(small(seed=1), 100.0), NOON)
    assert not (tmp_path / "gone").exists()


def test_an_end_that_cannot_be_written_is_refused(folder):
    folder.ended.with_suffix(".draft").mkdir()
    with pytest.raises(SweepRefusedError, match="make room or choose another folder"):
        write_end(folder, attempt(small(seed=1), 100.0), NOON)


def test_the_environment_is_kept_of_an_attempt_whose_steps_cannot_be_read(folder):
    folder.environment.write_text(json.dumps(ENVIRONMENT))
    folder.steps.write_text("damaged\n")
    left = recorded_left(folder, attempt(small(seed=1), 100.0).result)
    assert (left.result.outcome, left.steps, left.environment) == (Outcome.FAILED, [], ENVIRONMENT)
    assert STEPS[0].phase == Phase.WARM_UP
