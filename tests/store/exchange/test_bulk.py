"""Many records at once: each is there once, whole, and nothing that was there is overwritten."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from scalemark.records.outcomes import Outcome, State
from scalemark.records.references import Origin, Reference, Rejected
from scalemark.records.sweep import sweep_uid
from store import schema
from store.database import open_for_writing, writing
from store.errors import StoreError
from store.exchange.bulk import Added, Bulk, add_all
from store.exchange.portable import (
    Annotation,
    Change,
    Portable,
    PortableAttempt,
    PortableRepeat,
    PortableSweep,
    PortableTrial,
    pack,
)
from store.exchange.portable_rows import PortableRows, database_id
from store.exchange.repeat_records import read_repeats
from store.sweeps.ledger import Claim, Ledger, OpenRepeat
from store.sweeps.repeat_states import tell_removed
from store.writer import Writer
from sweeper.running.recover import recover
from tests.filled import MACHINE, NOON, PLACEMENT, STEPS, begin, fill
from tests.filled import attempt as finished
from tests.portables import HEAD, attempt, everything, repeat
from tests.specs import small
from tests.tables import changing, contents, opened


def add(db: str, *records: Portable, origin: str = "", rows_per_transaction: int = 5000) -> Added:
    engine = open_for_writing(db)
    try:
        return add_all(engine, records, origin=origin, rows_per_transaction=rows_per_transaction)
    finally:
        engine.dispose()


def records_of(db: str) -> list[Portable]:
    with opened(db) as connection:
        rows = PortableRows(connection, db, "")
        found = [*rows.sweeps(), *rows.trials(), *rows.attempts(), *rows.references()]
    assert not [one for one in found if isinstance(one, Rejected)]
    return [
        one
        for one in found
        if not isinstance(one, Rejected)
        and not (isinstance(one, Reference) and one.origin == Origin.PUBLISHED)
    ]


def rows(db: str, *columns: sa.ColumnElement[object]) -> list[tuple[object, ...]]:
    with opened(db) as connection:
        return [tuple(row) for row in connection.execute(sa.select(*columns))]


@pytest.mark.parametrize("rows_per_transaction", [1, 3, 5000])
def test_records_are_read_back_as_they_were_added(db, rows_per_transaction):
    added = add(db, *everything(), rows_per_transaction=rows_per_transaction)
    assert (added.num_new, added.num_known, added.num_references, added.rejected) == (4, 0, 1, [])
    assert records_of(db) == everything()


def test_attempts_written_one_by_one_equal_those_added_at_once(db):
    fill("written.db", [(small(), 100.0), (small(), 101.0), (small(num_gpus=2), None)])
    add(db, *records_of("written.db"))
    assert contents(db) == contents("written.db")


def test_adding_again_changes_nothing(db):
    add(db, *everything())
    before = contents(db)
    added = add(db, *everything(), *everything())
    assert (added.num_new, added.num_known, added.num_references, added.rejected) == (0, 8, 0, [])
    assert contents(db) == before


@pytest.mark.parametrize(
    ("changes", "differing"),
    [
        ({"exit_code": 3}, "exit_code"),
        ({"throughput": 100.5}, "measured"),
        ({"machine": replace(MACHINE, cpu="another")}, "machine"),
        ({"steps": pack(STEPS[:2])}, "steps"),
        ({"started_at": NOON}, "started_at"),
    ],
)
def test_what_contradicts_is_rejected_and_the_rest_is_added(db, changes, differing):
    add(db, attempt())
    added = add(db, attempt(**changes), attempt(small(seed=2)))
    (rejected,) = added.rejected
    assert rejected.where == "record 1"
    assert rejected.reason.startswith(
        "contradicts what is known of attempt 1 of repeat 1 of trial "
    )
    assert f"of sweep first: another {differing}; " in rejected.reason
    assert added.num_new == 1
    assert [one for one in records_of(db) if isinstance(one, PortableAttempt)] == [
        attempt(),
        attempt(small(seed=2)),
    ]


def test_two_who_import_one_sweep_in_turns_add_each_trial_once(db):
    engine = open_for_writing(db)
    bulks = [Bulk(), Bulk()]
    for seed in (1, 2):
        for bulk in bulks:
            with writing(engine) as connection:
                bulk.add(connection, [("", attempt(small(seed=seed), position=seed))])
    engine.dispose()
    assert [(bulk.added.num_new, bulk.added.num_known, bulk.added.rejected) for bulk in bulks] == [
        (2, 0, []),
        (0, 2, []),
    ]
    assert rows(db, schema.SweepTrialRow.position) == [(1,), (2,)]


def test_two_that_contradict_each_other_are_not_both_added(db):
    added = add(db, attempt(), attempt(exit_code=3), attempt())
    assert (added.num_new, added.num_known, len(added.rejected)) == (1, 1, 1)


def test_a_damaged_row_is_not_doubled(db):
    add(db, attempt())
    with changing(db) as connection:
        connection.execute(sa.update(schema.MeasurementRow).values(window_s=-1))
    added = add(db, attempt())
    assert added.rejected[0].reason.endswith(
        "is here already, and is damaged: `python -m store check` says more"
    )


def test_steps_that_come_later_are_added(db):
    add(db, attempt(steps=None))
    add(db, attempt())
    assert attempt() in records_of(db)
    add(db, attempt(steps=None))
    assert attempt() in records_of(db)


def test_tags_are_added_once_and_a_deleted_attempt_stays_deleted(db):
    tag, note = Annotation(text="good", added_at=NOON), Annotation(text="hot day", added_at=NOON)
    later = replace(tag, added_at=NOON + timedelta(days=1))
    add(db, attempt(tags=(tag,), deleted_at=NOON))
    add(db, attempt(tags=(later,), notes=(note, note)))
    assert attempt(tags=(tag,), notes=(note,), deleted_at=NOON) in records_of(db)


def test_a_sweep_of_the_name_of_another_gets_a_number(db):
    add(db, attempt())
    for count, uid in enumerate(("a" * 16, "b" * 16), 2):
        added = add(db, attempt(sweep=replace(HEAD, uid=uid)))
        assert added.renamed == {"first": f"first ({count})"}
    assert rows(db, schema.SweepRow.name) == [("first",), ("first (2)",), ("first (3)",)]


def test_origin_is_kept_and_what_comes_home_has_none(db):
    with opened(db) as connection:
        own = database_id(connection)
    add(
        db,
        attempt(),
        attempt(sweep=replace(HEAD, uid="a" * 16, name="b", origin="abc x.db")),
        origin="file.jsonl",
    )
    add(
        db,
        attempt(sweep=replace(HEAD, uid="b" * 16, name="c", origin=f"{own} old.db")),
        origin="file.jsonl",
    )
    assert rows(db, schema.SweepRow.origin) == [("file.jsonl",), ("abc x.db",), ("",)]


def test_a_repeat_is_known_from_who_knows_more_of_it(db):
    retried = repeat(attempts=(Outcome.INTERRUPTED, Outcome.COMPLETED))
    begun = replace(retried, state=State.PENDING.value, num_attempts=1, changes=retried.changes[:4])
    first = attempt(throughput=None, outcome=Outcome.INTERRUPTED.value, repeat=begun)
    second = attempt(attempt=2, repeat=retried)
    add(db, first)
    add(db, second)
    assert records_of(db)[-2:] == [replace(first, repeat=retried), second]
    add(db, first)
    assert records_of(db)[-2:] == [replace(first, repeat=retried), second]


def test_a_repeat_without_its_changes_has_one_that_says_so(db):
    bare = PortableRepeat(number=1, state="completed", reason="", num_attempts=1)
    add(db, attempt(repeat=bare, sweep=replace(HEAD, origin="abc x.db")))
    add(db, attempt(repeat=bare, sweep=replace(HEAD, origin="abc x.db")))
    assert rows(
        db,
        schema.EventRow.number,
        schema.EventRow.attempt,
        schema.EventRow.state,
        schema.EventRow.detail,
    ) == [(1, 1, "completed", "imported from abc x.db")]
    add(db, attempt())
    assert attempt().repeat == records_of(db)[-1].repeat  # type: ignore[union-attr]  # it is an attempt


def test_changes_that_were_made_in_two_places_are_reported_in_their_order(db):
    here = repeat()
    there = Change(at=NOON + timedelta(days=1), attempt=1, state="pending", detail="continued")
    continued = replace(here, state="pending", changes=(*here.changes[:2], there))
    add(db, attempt(repeat=here))
    add(db, attempt(repeat=continued))
    assert records_of(db)[-1].repeat == replace(
        here, state="pending", changes=(*here.changes, there)
    )  # type: ignore[union-attr]


def test_what_runs_is_pending_for_everybody_else_and_nobody_disturbs_it(db):
    spec = small()
    writer = Writer("running.db")
    ledger = begin(writer, {spec: 2})
    one, _ = ledger.open_repeats()
    assert ledger.claim(one, NOON) is Claim.TAKEN
    ledger.run(one, "/runs/x", PLACEMENT, NOON)
    copied = records_of("running.db")
    (trial,) = [record for record in copied if isinstance(record, PortableTrial)]
    assert [
        (found.number, found.state, found.num_attempts, len(found.changes))
        for found in trial.repeats
    ] == [
        (1, "pending", 0, 1),
        (2, "pending", 0, 1),
    ]
    add(db, *copied)
    before = contents("running.db")
    elsewhere = replace(
        trial.repeats[0],
        changes=(*trial.repeats[0].changes, Change(at=NOON, attempt=0, state="skipped", detail="")),
    )
    add("running.db", *records_of(db), replace(trial, repeats=(elsewhere,)))
    assert contents("running.db") == before
    ledger.finish(one.repeat_id, finished(spec, 100.0), NOON)
    writer.close()
    add(db, *records_of("running.db"))
    assert contents(db) == contents("running.db")


def in_flight(writer: Writer) -> tuple[Ledger, OpenRepeat, PortableAttempt]:
    """A repeat that runs, and what its run folder would tell of its attempt."""
    ledger = begin(writer, {small(): 1})
    (one,) = ledger.open_repeats()
    assert ledger.claim(one, NOON) is Claim.TAKEN
    ledger.run(one, "/runs/x", PLACEMENT, NOON)
    reported = attempt(
        throughput=None,
        outcome=Outcome.INTERRUPTED.value,
        repeat=repeat(attempts=(Outcome.INTERRUPTED,)),
    )
    return ledger, one, reported


def test_what_is_being_run_here_is_not_imported_and_ends_well(db, writer):
    ledger, one, reported = in_flight(writer)
    before = contents(db, "sweeps.run_dir")
    (rejected,) = add(db, reported).rejected
    assert rejected.reason == (
        f"attempt 1 of repeat 1 of trial {reported.trial_id[:8]} of sweep first: it is being run here; "
        "nothing to import until it has ended"
    )
    assert contents(db, "sweeps.run_dir") == before
    ledger.finish(one.repeat_id, finished(small(), 100.0), NOON)
    assert add(db, reported).rejected[0].reason.startswith("contradicts what is known")
    assert rows(db, schema.AttemptRow.outcome) == [("completed",)]


def test_a_killed_attempt_is_recovered_after_an_import(db, writer):
    ledger, _, reported = in_flight(writer)  # its process is of another boot
    assert len(add(db, reported).rejected) == 1
    recovered = recover(ledger.engine)
    assert recovered is not None
    assert recovered.num_interrupted == 1
    assert rows(db, schema.AttemptRow.outcome, schema.AttemptRow.run_dir) == [
        ("interrupted", "/runs/x")
    ]


def test_a_sweep_that_was_continued_elsewhere_is_reported_whole(db):
    """Its folders lie elsewhere: what comes from there has its whole path."""
    add(db, attempt(sweep=replace(HEAD, origin="abc x.db", finished_at=None)))
    later = replace(HEAD, origin="abc x.db", run_dir="/other/first")
    add(
        db,
        attempt(small(seed=2), sweep=later, run_dir="name"),
        PortableSweep(sweep=later, left_out=(("a=1", "why"),)),
    )
    assert rows(db, schema.AttemptRow.run_dir) == [(attempt().run_dir,), ("/other/first/name",)]
    assert rows(db, schema.SweepRow.finished_at) == [(HEAD.finished_at,)]


def test_a_sweep_measured_here_is_not_finished_by_others(db):
    add(db, attempt(sweep=replace(HEAD, finished_at=None)))
    add(db, attempt(sweep=replace(HEAD, origin="abc x.db")))
    assert rows(db, schema.SweepRow.finished_at) == [(None,)]


def test_a_sweep_that_was_imported_is_not_continued_here(db, writer):
    add(db, attempt(sweep=replace(HEAD, origin="abc x.db")))
    with pytest.raises(
        StoreError, match=r"^sweep\.name=first: imported from abc x\.db; choose another name$"
    ):
        begin(writer, {small(): 1})
    assert rows(db, schema.SweepRow.finished_at) == [(HEAD.finished_at,)]
    begin(writer, {small(): 1}, name="another")


def test_a_sweep_goes_on_after_others_were_added(db):
    """Rows numbered here are not numbered again by the server."""
    add(db, *everything())
    writer = Writer(db)
    ledger = begin(writer, {small(seed=9): 1}, name="next", started_at=NOON + timedelta(days=2))
    (open_repeat,) = ledger.open_repeats()
    ledger.claim(open_repeat, NOON)
    ledger.run(open_repeat, "/runs/y/x", PLACEMENT, NOON)
    ledger.finish(open_repeat.repeat_id, finished(small(seed=9), 50.0), NOON)
    writer.close()
    assert len(rows(db, schema.AttemptRow.id)) == 5


def test_an_attempt_twice_in_many_chunks_is_known_the_second_time(db):
    records: Sequence[PortableAttempt] = [
        attempt(small(seed=seed), position=seed) for seed in range(600)
    ]
    added = add(db, *records, *records)
    assert (added.num_new, added.num_known) == (600, 600)


def test_what_was_removed_here_for_good_does_not_come_back(db):
    add(db, attempt())
    with changing(db) as connection:
        for table in (schema.MeasurementRow, schema.StepArraysRow, schema.AttemptRow):
            connection.execute(sa.delete(table))
        tell_removed(connection, [(1, 1, "completed")], NOON)
    before = contents(db)
    (rejected,) = add(db, attempt()).rejected
    assert rejected.reason.endswith("of sweep first was removed here for good")
    assert contents(db) == before
    with opened(db) as connection:
        (reported,) = read_repeats(connection, {(1, attempt().trial_id, 1)}).values()
    add("other.db", attempt())
    kept = contents("other.db")
    add(
        "other.db",
        PortableTrial(
            sweep=HEAD, position=0, trial_id=attempt().trial_id, spec=small(), repeats=(reported,)
        ),
    )
    assert contents("other.db") == kept


@pytest.mark.integration
def test_what_is_imported_in_part_and_under_another_name_is_found_sound(db):
    retried = repeat(attempts=(Outcome.INTERRUPTED, Outcome.COMPLETED))
    add(db, attempt(), origin="a file")
    add(
        db,
        attempt(
            attempt=2,
            repeat=retried,
            sweep=replace(HEAD, uid=sweep_uid("first", NOON, "other"), command="other"),
        ),
        origin="a file",
    )
    ended = subprocess.run(
        [sys.executable, "-m", "store", "check", "--db", db],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout.rpartition(": ")[2]) == (0, "nothing is wrong\n")
