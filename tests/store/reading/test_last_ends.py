"""How trials ended when they last ran."""

from scalemark.records.outcomes import Outcome
from store.database import open_for_reading
from store.reading.earlier import failed_last
from tests.filled import MACHINE, fill
from tests.specs import small

FAILED, MENDED = small(), small(seed=2)


def test_the_newest_attempt_decides_whether_a_trial_failed(tmp_path):
    url = str(tmp_path / "results.db")
    fill(url, [(FAILED, 1.0), (FAILED, None), (MENDED, None), (MENDED, 2.0)])
    engine, ids = open_for_reading(url), [FAILED.trial_id, MENDED.trial_id]
    failed = {FAILED.trial_id: Outcome.FAILED}
    assert failed_last(engine, ids, MACHINE.key) == failed
    assert failed_last(engine, ids, None) == failed
    assert failed_last(engine, ids, "another machine") == {}
    assert failed_last(engine, [MENDED.trial_id], None) == {}
