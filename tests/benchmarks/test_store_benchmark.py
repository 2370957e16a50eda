"""The benchmark of the store runs, and asks what it says it asks."""

import json
import os
import sys
from pathlib import Path

import pytest

from benchmarks import made_up_results as results
from scalemark.records.measurement import Phase
from tests.conftest import PROJECT
from tests.ran import ran

pytestmark = pytest.mark.slow


def test_every_made_up_trial_is_another_one_and_has_its_attempts():
    found = list(results.attempts(2 * results.TRIALS_PER_SWEEP, 12))
    assert len({attempt.spec.trial_id for attempt in found}) == 2 * results.TRIALS_PER_SWEEP
    assert len(found) == results.REPEATS * 2 * results.TRIALS_PER_SWEEP
    assert {attempt.sweep["name"] for attempt in found} == {"sweep0", "sweep1"}
    assert [step.phase for step in found[0].attempt.steps] == [Phase.WARM_UP] * 10 + [
        Phase.MEASURE
    ] * 2


def test_the_benchmark_answers_its_questions():
    asked = ("size", "reads", "merges", "ends", "readers")
    only = [word for name in asked for word in ("--only", name)]
    command = [
        sys.executable,
        "-m",
        "benchmarks.store",
        "--scale",
        "0.001",
        "--rounds",
        "1",
        "--database",
        "r.db",
        "--json",
        "r.json",
        *only,
    ]
    ended = ran(command, env=os.environ | {"PYTHONPATH": str(PROJECT)})
    assert ended.returncode == 0, ended.stderr
    rows = {row["what"]: row["figures"] for row in json.loads(Path("r.json").read_text())["rows"]}
    assert "file of 100 trials, 300 attempts, 10,200 steps" in rows
    (refused,) = [what for what in rows if what.endswith("refused")]
    assert rows.pop(refused) == [0]
    assert all(figure > 0 for figures in rows.values() for figure in figures)
