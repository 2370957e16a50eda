"""Whatever a run folder holds: it is recorded, or it is a failure that names file and field, and the next repeat is recorded."""

import json
import math
import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conf.schema import LauncherConfig
from scalemark.host.processes import this_process
from scalemark.records.attempt import AttemptEnd
from scalemark.records.measurement import Outcome
from scalemark.run_folder import RunFolder, readable
from store.ledger import close_abandoned
from store.rows import FinishedAttempt, add_attempts
from store.writer import Writer
from sweeper.loop.attempt import ProcessEnd, judge
from sweeper.loop.run_folders import recorded_left, recover
from tests.filled import ENVIRONMENT, MACHINE, NOON, PLACEMENT, STEPS, attempt, begin
from tests.specs import small
from tests.tables import contents

GOOD = attempt(small(), 100.0, truth={"step": 0.1}).result
END = AttemptEnd(
    exit_code=0,
    duration_s=9.5,
    ended_at=NOON,
    placement=PLACEMENT,
    outcome=GOOD.outcome,
    message=GOOD.message,
    result=None,
)
LIMITS = LauncherConfig(name="local", timeout_s=1, start_timeout_s=1, step_timeout_s=1, grace_s=1)
DEAD = replace(this_process(), pid=4194305)  # more than Linux gives
HUGE = 2**63


def fill(path: Path) -> RunFolder:
    """As a trainer leaves it that completed."""
    folder = RunFolder(path)
    folder.path.mkdir(parents=True)
    folder.environment.write_text(json.dumps(ENVIRONMENT))
    folder.steps.write_text("".join(json.dumps(asdict(step)) + "\n" for step in STEPS))
    folder.result.write_text(GOOD.to_json())
    return folder


def changed(name: str, place: str, value: object) -> Callable[[RunFolder], None]:
    """That value at `place`, as "measurement.num_steps", of the JSON in the file; of steps, in their second line."""

    def change(folder: RunFolder) -> None:
        path = folder.path / name
        lines = path.read_text().splitlines() if name == "steps.jsonl" else [path.read_text()]
        reported = json.loads(lines[-1])
        at = reported
        *outer, last = place.split(".")
        for part in outer:
            at = at[part]
        at[last] = value
        path.write_text("\n".join([*lines[:-1], json.dumps(reported)]) + "\n")

    return change


def written(name: str, text: str) -> Callable[[RunFolder], None]:
    return lambda folder: (folder.path / name).write_text(text) and None


def linked(name: str, target: str) -> Callable[[RunFolder], None]:
    def change(folder: RunFolder) -> None:
        (folder.path / name).unlink()
        (folder.path / name).symlink_to(target)

    return change


def fifo(name: str) -> Callable[[RunFolder], None]:
    def change(folder: RunFolder) -> None:
        (folder.path / name).unlink()
        os.mkfifo(folder.path / name)

    return change


HOSTILE: dict[str, tuple[Callable[[RunFolder], None], str]] = {
    "infinite throughput": (
        changed("result.json", "measurement.throughput", math.inf),
        "result.json is damaged: Infinity",
    ),
    "throughput 1e999": (
        lambda folder: folder.result.write_text(
            folder.result.read_text().replace("100.0", "1e999")
        ),
        "result.json is damaged: measurement.throughput=inf: wanted a finite number",
    ),
    "NaN": (
        changed("result.json", "measurement.jitter_s", math.nan),
        "result.json is damaged: NaN: wanted a finite number",
    ),
    "negative": (
        changed("result.json", "measurement.throughput", -1.0),
        "throughput=-1.0: wanted 0 or more",
    ),
    "too fast": (
        changed("result.json", "measurement.throughput", 1e305),
        "throughput=1e+305: wanted 0 or more",
    ),
    "over 64 bits": (
        changed("result.json", "measurement.peak_host_memory_bytes", HUGE),
        "measurement.peak_host_memory_bytes=9",
    ),
    "over 32 bits": (
        changed("result.json", "measurement.num_steps", 2**31),
        "measurement.num_steps=2147483648: wanted no more",
    ),
    "message null": (
        changed("result.json", "message", None),
        "result.json is damaged: message=None: wanted text",
    ),
    "message a dict": (
        changed("result.json", "message", {"a": 1}),
        "result.json is damaged: message={'a': 1}: wanted text",
    ),
    "NUL": (
        changed("result.json", "message", "a\0b"),
        "result.json is damaged: message: a NUL character",
    ),
    "surrogate": (
        changed("result.json", "message", "\ud800"),
        "result.json is damaged: message: half of a surrogate pair",
    ),
    "unknown verdict": (
        changed("result.json", "verdict", "fine"),
        "result.json is damaged: verdict=fine: wanted one of valid,",
    ),
    "unknown outcome": (
        changed("result.json", "outcome", "fine"),
        "result.json is damaged: outcome=fine: wanted one of completed,",
    ),
    "textual time": (
        changed("result.json", "measurement.median_step_s", "1 s"),
        "measurement.median_step_s=1 s: wanted a number",
    ),
    "op placement": (
        changed("result.json", "op_placement", {"a": {"b": "c"}}),
        "op_placement.a.b=c: wanted a whole number",
    ),
    "telemetry": (
        changed("result.json", "gpu_telemetry", [3]),
        "gpu_telemetry[0]: found 3, wanted an object",
    ),
    "profile": (
        changed("result.json", "profile", {}),
        "result.json is damaged: profile: exposed_reduction_s, ",
    ),
    "truth": (
        changed("result.json", "truth", {"step": "x"}),
        "result.json is damaged: truth.step=x: wanted a number",
    ),
    "no measurement": (
        changed("result.json", "measurement", None),
        "result.json: outcome=completed, measurement=null: wanted a",
    ),
    "brackets": (
        written("result.json", "[" * 100_000),
        "result.json is damaged: nested too deeply",
    ),
    "result a FIFO": (fifo("result.json"), "found a FIFO, wanted a regular file"),
    "result endless": (linked("result.json", "/dev/zero"), "found a link, wanted a regular file"),
    "no steps": (
        written("steps.jsonl", ""),
        "steps.jsonl is cut off: it holds 0 measured steps, the measurement was made of 2",
    ),
    "steps cut off": (
        lambda folder: folder.steps.write_text(folder.steps.read_text()[:-3]),
        "steps.jsonl is cut off: it holds 1 measured steps, the measurement was made of 2",
    ),
    "step a text": (
        changed("steps.jsonl", "duration_s", "long"),
        "steps.jsonl is damaged: line 3.duration_s=long: wanted a number",
    ),
    "step NaN": (
        changed("steps.jsonl", "duration_s", math.nan),
        "steps.jsonl is damaged: line 3: NaN: wanted a finite number",
    ),
    "step huge": (changed("steps.jsonl", "step", HUGE), "steps.jsonl is damaged: line 3.step=9"),
    "step at the end of time": (
        changed("steps.jsonl", "start_s", 1e300),
        "steps.jsonl is damaged: step 2: start_s=1e+300: wanted",
    ),
    "loss huge": (
        changed("steps.jsonl", "loss", -1e308),
        "steps.jsonl is damaged: step 2: loss=-1e+308: wanted",
    ),
    "phase": (
        changed("steps.jsonl", "phase", "cool_down"),
        "steps.jsonl is damaged: step 2: cool_down is out of order",
    ),
    "step null": (
        written("steps.jsonl", "null\n"),
        "steps.jsonl is damaged: line 1: found None, wanted an object",
    ),
    "steps endless": (linked("steps.jsonl", "/dev/zero"), "found a link, wanted a regular file"),
    "environment a list": (
        written("environment.json", "[]"),
        "environment.json is damaged: environment: found list",
    ),
    "package a number": (
        changed("environment.json", "packages.keras", 3),
        "environment.packages.keras: wanted text",
    ),
    "environment NUL": (
        changed("environment.json", "commit", "\0"),
        "environment.commit: a NUL character",
    ),
    "environment surrogate": (
        changed("environment.json", "variables", {"\udcff": "x"}),
        "environment.json is damaged: environment.",
    ),
    "environment huge": (
        changed("environment.json", "more", HUGE),
        "environment.json is damaged: environment.more=9",
    ),
    "environment nested": (
        written("environment.json", '{"a":' + "[" * 500 + "]" * 500 + "}"),
        "nested too deeply",
    ),
    "environment a FIFO": (fifo("environment.json"), "found a FIFO, wanted a regular file"),
}


def as_recorded(folder: RunFolder, number: int) -> FinishedAttempt:
    """As the orchestrator does after a trainer that ended with 0."""
    judged = judge(folder, ProcessEnd(exit_code=0, duration_s=9.5), LIMITS)
    left = recorded_left(folder, judged.result)
    reported = {"result": left.result, "steps": left.steps, "environment": left.environment}
    return replace(attempt(small(seed=number), 100.0), run_dir=str(folder.path), **reported)


@pytest.mark.parametrize("name", HOSTILE)
def test_what_the_database_would_refuse_fails_and_is_named(tmp_path, name):
    change, message = HOSTILE[name]
    folder = fill(tmp_path / "run")
    change(folder)
    found = as_recorded(folder, 1)
    assert (found.result.outcome, found.result.measurement, found.steps) == (
        Outcome.FAILED,
        None,
        [],
    )
    assert message in found.result.message
    assert str(folder.path) in found.result.message


def test_failures_of_hostile_folders_are_recorded(db):
    with closing(Writer(db)) as writer:
        ledger = begin(writer, {small(seed=number): 1 for number in range(len(HOSTILE))})
        for number, (change, _) in enumerate(HOSTILE.values()):
            (repeat,) = (
                one for one in ledger.open_repeats() if one.trial_id == small(seed=number).trial_id
            )
            ledger.claim(repeat)
            change(folder := fill(Path("runs") / str(number)))
            ledger.run(repeat, str(folder.path), PLACEMENT, NOON)
            ledger.finish(repeat.repeat_id, as_recorded(folder, number))
    assert [row["outcome"] for row in contents(db)["attempts"]] == ["failed"] * len(HOSTILE)


def test_recovery_closes_hostile_folders_and_those_beside_them(db):
    seeds = range(len(HOSTILE) + 1)
    with closing(Writer(db)) as writer:
        ledger = begin(writer, {small(seed=number): 1 for number in seeds}, process=DEAD)
        trial_ids = [small(seed=number).trial_id for number in seeds]
        changes = [
            *(change for change, _ in HOSTILE.values()),
            lambda _: None,
        ]  # the last is as it should be
        for repeat in ledger.open_repeats():
            ledger.claim(repeat)
            changes[trial_ids.index(repeat.trial_id)](
                folder := fill(Path("runs").resolve() / str(repeat.repeat_id))
            )
            ledger.run(repeat, str(folder.path), PLACEMENT, NOON)
        recovered = recover(writer.engine)
        assert (recovered.num_interrupted, recovered.num_completed, recovered.problems) == (
            len(HOSTILE),
            1,
            [],
        )
        assert recover(writer.engine) is None
    messages = {row["trial_id"]: row["message"] for row in contents(db)["attempts"]}
    assert messages.pop(trial_ids.pop()) == ""
    for trial_id, (_, wanted) in zip(trial_ids, HOSTILE.values(), strict=True):
        assert messages[trial_id].startswith(
            "its orchestrator was killed, and what it left cannot be read: "
        )
        assert wanted in messages[trial_id]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("outcome", "splendid"),
        ("duration_s", "long"),
        ("duration_s", -1.0),
        ("duration_s", 1e300),
        ("exit_code", HUGE),
        ("ended_at", "9999-12-31T23:59:59-12:00"),
        ("ended_at", "9950-01-01T00:00:00+00:00"),
        ("ended_at", 3),
        ("placement", {"start": "fork"}),
        ("placement.devices", ["a"]),
        ("placement.visible_devices", "\0"),
        ("message", None),
    ],
)
def test_an_end_that_no_database_takes_is_found_out_anew(tmp_path, place, value):
    folder = fill(tmp_path / "run")
    folder.write(folder.ended, END.to_json())
    assert readable(folder.read_ended) == END
    changed("ended.json", place, value)(folder)
    assert readable(folder.read_ended) is None
    with pytest.raises(ValueError, match=r"ended\.json is damaged: "):
        folder.read_ended()


def test_a_repeat_that_the_database_refuses_all_the_same_has_failed(db, monkeypatch):
    """Behind the check there is a second line: recovery itself."""
    with closing(Writer(db)) as writer:
        ledger = begin(writer, {small(seed=1): 1, small(seed=2): 1}, process=DEAD)
        for repeat in ledger.open_repeats():
            ledger.claim(repeat)
            folder = fill(Path("runs").resolve() / str(repeat.repeat_id))
            ledger.run(repeat, str(folder.path), PLACEMENT, NOON)

        def unchecked(engine: sa.Engine, repeat: Any, finished: FinishedAttempt) -> bool:
            if finished.result.outcome == Outcome.COMPLETED and repeat.repeat_id == 1:
                finished = replace(finished, environment={**ENVIRONMENT, "packages": {"keras": {}}})
            return close_abandoned(engine, repeat, finished)

        monkeypatch.setattr("store.ledger.close_abandoned", unchecked)
        recovered = recover(writer.engine)
        assert "the database refuses what its run folder holds" in str(recovered)
        assert recover(writer.engine) is None
    assert [row["outcome"] for row in contents(db)["attempts"]] == ["failed", "completed"]


class MissingRightError(Exception):
    """As psycopg tells it."""

    sqlstate = "42501"


def test_what_is_wrong_with_the_database_fails_no_repeat(tmp_path, monkeypatch):
    """A role without the right to insert: what the trainer left stays as it is, for a later command."""
    with closing(Writer("results.db")) as writer:
        ledger = begin(writer, {small(seed=1): 1}, process=DEAD)
        (repeat,) = ledger.open_repeats()
        ledger.claim(repeat)
        folder = fill(Path("runs").resolve() / "1")
        ledger.run(repeat, str(folder.path), PLACEMENT, NOON)

        def refused(*_: object) -> bool:
            raise sa.exc.ProgrammingError(
                "INSERT INTO attempts", {}, MissingRightError("permission denied")
            )

        with monkeypatch.context() as broken:
            broken.setattr("store.ledger.close_abandoned", refused)
            with pytest.raises(sa.exc.ProgrammingError, match="permission denied"):
                recover(writer.engine)
        recovered = recover(writer.engine)
        assert recovered is not None
        assert (recovered.num_completed, recovered.problems) == (1, [])


VALUES = st.sampled_from(
    [None, True, -1, 0, 2**31, HUGE, -HUGE, 10**400, -1.0, 1e-320, 1e300, 1.7e308, math.inf, math.nan, "", "x", "\0", "\ud800", "é", [], [1], [[]], {}, {"a": 1}, {"\0": 1}]
)  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn, reported: Any) -> Any:
    """The same JSON, with another value somewhere."""
    if isinstance(reported, dict) and reported and draw(st.integers(0, 9)):
        name = draw(st.sampled_from(sorted(reported)))
        return reported | {name: draw(mutated(reported[name]))}
    if isinstance(reported, list) and reported and draw(st.integers(0, 9)):
        index = draw(st.integers(0, len(reported) - 1))
        return [*reported[:index], draw(mutated(reported[index])), *reported[index + 1 :]]
    return draw(VALUES)


FILES = {
    "result.json": json.loads(GOOD.to_json()),
    "environment.json": ENVIRONMENT,
    "steps.jsonl": [asdict(step) for step in STEPS],
}


def test_what_passes_the_check_is_taken_by_the_database(db, tmp_path_factory):
    with closing(Writer(db)) as writer:
        begin(writer, {small(seed=1): 1})

        @settings(max_examples=150, suppress_health_check=list(HealthCheck))
        @given(st.data())
        def passes(data: st.DataObject) -> None:
            folder = fill(tmp_path_factory.mktemp("run") / "x")
            name = data.draw(st.sampled_from(sorted(FILES)))
            reported = data.draw(mutated(FILES[name]))
            lines = reported if name == "steps.jsonl" and isinstance(reported, list) else [reported]
            (folder.path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
            with writer.engine.connect() as connection:
                add_attempts(connection, 1, [(1, as_recorded(folder, 1))])
                assert len(connection.exec_driver_sql("SELECT * FROM attempts").all()) == 1
                connection.exec_driver_sql("SELECT * FROM step_samples").all()
                connection.rollback()

        passes()


def test_the_machine_of_a_hostile_folder_is_named(tmp_path):
    folder = fill(tmp_path / "run")
    for change in (
        {"num_cores": HUGE},
        {"memory_bytes": 1.5},
        {"host": "\0"},
        {"gpus": [{}]},
        {"links": 3},
    ):
        folder.machine.write_text(json.dumps(asdict(MACHINE) | change))
        with pytest.raises(ValueError, match=rf"machine\.json is damaged: {next(iter(change))}"):
            folder.read_machine()
