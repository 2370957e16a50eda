"""What a trainer is at, in words."""

import pytest

from scalemark.records.outcomes import Doing
from scalemark.run_folder.folder import RunFolder
from sweeper.live.doing import doing_text
from tests.specs import small


@pytest.mark.parametrize(
    ("doing", "steps", "text"),
    [
        (Doing.BUILDING, "", "building"),
        (Doing.STEPPING, "", "stepping"),
        (Doing.STEPPING, '{"step": 3}\n', "step 4 of about 6"),
        (Doing.PROFILING, '{"step": 3}\n', "profiling"),
        (Doing.STEPPING, "\0\n", "unknown"),
        ("what is no Doing", "", "unknown"),
    ],
)
def test_what_a_trainer_is_doing_is_reported_or_unknown(tmp_path, doing, steps, text):
    folder = RunFolder(tmp_path)
    folder.doing.write_text(doing)
    folder.steps.write_text(steps)
    assert doing_text(folder, small(min_warm_up_steps=2, num_steps=4)) == text
