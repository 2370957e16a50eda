"""Earlier runs of a baseline are of other code or software, and `judge` says so."""

from dataclasses import replace
from datetime import timedelta

import pytest

from scalemark.host import software
from store.database import open_for_reading
from store.reading.completed_repeats import completed_repeats
from sweeper.judging.uncounted import Uncounted, uncounted
from tests.filled import ENVIRONMENT, MACHINE, NOON, fill
from tests.specs import small
from tests.tables import changing

BASELINE = small()
HEAD = "8672327dd1a802dc"
CLEAN = {"commit": HEAD, "diff": "", "code": "", "files": ""}
DIRTY = {**CLEAN, "commit": f"{HEAD}+dirty", "diff": "77aabbccddeeff00"}
THEN = {**ENVIRONMENT, "program": CLEAN}
NOW = {**ENVIRONMENT, "program": {**CLEAN, "commit": "99f1a1b0cc3d1e5f"}}


def looked_for(
    now=NOW, baseline=BASELINE, *, named=BASELINE.trial_id[:8], since=NOON
) -> Uncounted | None:
    engine = open_for_reading("results.db")
    return uncounted(engine, named, baseline, MACHINE.key, now, since)


def test_runs_of_other_code_are_named_by_its_commit():
    fill("results.db", [(BASELINE, 20.0), (BASELINE, 21.0)], environment=THEN)
    engine, ids = open_for_reading("results.db"), [BASELINE.trial_id]
    assert completed_repeats(engine, ids, MACHINE.key, software.key(NOW)) == {}
    assert looked_for() == Uncounted(num=2, differences=("code (commit 8672327d)",))


@pytest.mark.parametrize(
    ("then", "now", "had"),
    [
        (CLEAN, DIRTY, "without changes"),
        (DIRTY, CLEAN, "diff 77aabbcc"),
        (CLEAN, {**DIRTY, "commit": "99f1a1b0+dirty"}, "commit 8672327d, without changes"),
        ({**CLEAN, "files": "aaaabbbbcccc"}, {**CLEAN, "files": "dddd"}, "files aaaabbbb"),
        ({"commit": "", "diff": "", "code": "1122aabbcc"}, CLEAN, "without commit, code 1122aabb"),
        (CLEAN, {"commit": "", "diff": "", "code": "1122aabb"}, "commit 8672327d"),
        ({}, DIRTY, "not recorded"),
    ],
)
def test_only_what_differs_of_code_is_named(then, now, had):
    """A bug: of other files or changes the commit was named, though it was the same."""
    fill("results.db", [(BASELINE, 20.0)], environment={**ENVIRONMENT, "program": then})
    found = looked_for({**ENVIRONMENT, "program": now})
    assert found == Uncounted(num=1, differences=(f"code ({had})",))


def test_runs_that_count_or_are_old_are_not_left_out():
    fill("results.db", [(BASELINE, 20.0)], environment=THEN)
    assert looked_for(now=THEN) is None
    assert looked_for(since=NOON + timedelta(hours=2)) is None


@pytest.mark.parametrize(
    "reason", ["attempts SET shares_host = true", "measurements SET throughput = 0"]
)
def test_runs_that_would_count_with_no_software_are_not_named(reason):
    """A bug: other code was blamed for runs side by side with others, which never count."""
    fill("results.db", [(BASELINE, 20.0)], environment=THEN)
    with changing("results.db") as connection:
        connection.exec_driver_sql(f"UPDATE {reason}")
    assert looked_for() is None


def test_runs_with_another_file_of_the_model_are_found_by_the_id_that_was_named():
    measured = small(model="mine.py:build", model_digest="2b339539")
    fill("results.db", [(measured, 20.0)])
    edited = replace(measured, model_digest="5a0b77aa")
    assert looked_for(ENVIRONMENT, edited, named=measured.trial_id[:8]) == Uncounted(
        num=1, differences=("code (mine.py:build of digest 2b339539)",)
    )


def test_runs_with_other_packages_are_left_out_for_them():
    fill("results.db", [(BASELINE, 20.0)])
    newer = {**ENVIRONMENT, "packages": {"tensorflow": "2.22.0"}}
    assert looked_for(newer) == Uncounted(num=1, differences=("packages",))
