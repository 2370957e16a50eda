"""Tags are found again; what is deleted counts nowhere until it is restored, and nothing measured is lost."""

import os
import shlex
import subprocess

import pytest

from analysis.measured import measured
from store.commands import change
from store.database import open_for_reading
from store.ledger import ClaimResult
from store.reading import earlier, queries
from store.reading.earlier import recorded_durations_s
from store.reading.listing import find, show
from store.reading.sweeps import sweep_status
from store.writer import Writer
from tests.filled import MACHINE, NOON, SOFTWARE_KEY, begin, fill
from tests.specs import small
from tests.store.command import store
from tests.store.test_filters import NASTY, found
from tests.tables import asked, list_attempts


def run(db: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return store(*arguments, "--db", db)


def mark(db: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(db, "db", "mark", *arguments)


@pytest.fixture
def filled(db: str) -> str:
    fill(db, [(small(), 100.0), (small(), 110.0), (small(num_gpus=2), 150.0)])
    return db


def test_tags_are_added_once_and_taken_away(filled):
    trial_id = small(num_gpus=2).trial_id
    assert (
        mark(filled, trial_id[:6], "--tag", "good", "--tag", "to keep", "--tag", "good").stdout
        == f"trial {trial_id[:8]}: tags added: 2\n"
    )
    assert (
        mark(filled, trial_id[:6], "--tag", "good").stdout
        == f"trial {trial_id[:8]}: tags added: 0\n"
    )
    assert mark(filled, "first", "--tag", "night").stdout == "sweep first: tags added: 1\n"
    assert found(filled, "tag=to keep") == [3]
    assert found(filled, "tag=night") == [1, 2, 3]
    assert (
        mark(filled, trial_id[:6], "--untag", "good", "--untag", "bad").stdout
        == f"trial {trial_id[:8]}: tags taken away: 1\n"
    )
    assert found(filled, "tag=good") == []


def test_tags_are_shown_with_whatever_they_say(filled):
    engine = Writer(filled).engine
    target = find(engine, "2")
    for text in NASTY:
        change.annotate(engine, target, NOON, [text])
    (reported,) = show(open_for_reading(filled), "2")["attempts"]
    assert [tag["tag"] for tag in reported["tags"]] == NASTY
    assert show(open_for_reading(filled), "1")["attempts"][0]["tags"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["1", "--tag", " "], "db mark: an empty tag; wanted a word or more"),
        (["77", "--tag", "x"], "db mark: 77: no attempt, trial or sweep"),
        (
            ["first", "second", "--delete"],
            "db mark: wanted one attempt, trial or sweep, or filters",
        ),
        (
            ["num_gpu=1", "--delete"],
            "db mark: num_gpu: no such filter; did you mean num_gpus?",
        ),
        (["num_gpus=1", "first", "--delete"], "db mark: first: no operator found"),
        (["1", "--tag", "x", "--db", "none.db"], "db mark: none.db: no such database"),
    ],
)
def test_a_wrong_command_is_answered_in_one_line_and_changes_nothing(filled, arguments, message):
    ended = (
        mark(filled, *arguments)
        if "--db" not in arguments
        else mark(arguments[-1], *arguments[:-2])
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert message in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert found(filled) == [1, 2, 3]
    assert not os.path.exists("none.db")  # noqa: PTH110  # as short as it gets


def test_deleted_attempts_count_nowhere_until_they_are_restored(filled):
    trial_id = small().trial_id
    engine = open_for_reading(filled)
    assert (
        mark(filled, "attempt=1", "--delete").stdout
        == f"1 deleted; `scalemark db mark attempt=1 --restore --db {shlex.quote(filled)}` brings them back\n"
    )
    assert earlier.num_completed(engine, MACHINE.key, SOFTWARE_KEY)[trial_id] == 1
    assert mark(filled, trial_id, "--delete").stdout.startswith("1 deleted")
    assert mark(filled, trial_id, "--delete").stdout == "0 deleted\n"
    assert [row["attempt"] for row in list_attempts(engine)] == [3]
    assert earlier.num_completed(engine, MACHINE.key, SOFTWARE_KEY) == {
        small(num_gpus=2).trial_id: 1
    }
    assert {row["trial_id"] for row in recorded_durations_s(engine, MACHINE.key)} == {
        small(num_gpus=2).trial_id
    }
    (status,) = sweep_status(engine, "first")
    assert [finished.throughput for finished in status.last_finished] == [150.0]
    assert [
        (result.num_gpus, len(result.repeats))
        for result in measured(asked(queries.measured, engine))
    ] == [(2, 1)]
    for view in ("throughput", "scaling"):
        assert [
            row["num_gpus"] for row in queries.rows(engine, f"SELECT num_gpus FROM {view}")
        ] == [2]
    assert queries.rows(engine, "SELECT speed_up FROM scaling") == [{"speed_up": None}]
    assert "deleted_at" in run(filled, "show", "1").stdout
    assert mark(filled, "model=trivial", "--restore").stdout == "2 restored\n"
    assert [row["attempt"] for row in list_attempts(engine)] == [1, 2, 3]


def test_a_sweep_measures_deleted_attempts_anew(filled):
    assert mark(filled, "num_gpus=1", "--delete").returncode == 0
    writer = Writer(filled)
    completed = earlier.num_completed(writer.engine, MACHINE.key, SOFTWARE_KEY)
    wanted = {spec: 2 - completed.get(spec.trial_id, 0) for spec in (small(), small(num_gpus=2))}
    assert list(wanted.values()) == [2, 1]
    ledger = begin(writer, wanted, wanted_repeats=2)
    opened = ledger.open_repeats()
    assert [(repeat.trial_id, repeat.repeat) for repeat in opened] == [
        (small().trial_id, 3),
        (small().trial_id, 4),
        (small(num_gpus=2).trial_id, 2),
    ]
    assert ledger.claim(opened[0]) is ClaimResult.TAKEN
    writer.close()
