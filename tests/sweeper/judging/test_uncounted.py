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
THEN = {**ENVIRONMENT, "program": {"commit": "8672327dd1a802dc", "diff": "", "code": ""}}
NOW = {**ENVIRONMENT, "program": {"commit": "99f1a1b0cc3d1e5f", "diff": "77aa", "code": ""}}


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
