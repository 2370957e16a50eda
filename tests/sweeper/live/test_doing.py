"""What a trainer is at, in words."""

import pytest

from scalemark.records.measurement import Doing
from scalemark.run_folder import RunFolder
from sweeper.live.view import doing_text
from tests.command.programs import spec_of
from tests.specs import small


@pytest.mark.parametrize(
    ("doing", "steps", "text"),
    [
        (Doing.BUILDING, "", "loading TensorFlow"),
        (Doing.STEPPING, "", "stepping"),
        (Doing.STEPPING, '{"step": 1, "phase": "warm_up"}\n', "warming up, step 2 of about 6"),
        (Doing.STEPPING, '{"step": 3, "phase": "measure"}\n', "measuring, step 4 of about 6"),
        (Doing.STEPPING, '{"step": 9, "phase": "measure"}\n', "measuring, step 10"),
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


def test_a_trainer_that_has_loaded_its_library_traces(tmp_path):
    folder = RunFolder(tmp_path)
    folder.loaded.touch()
    assert doing_text(folder, small()) == "tracing"


def test_a_program_is_not_said_to_load_our_library(tmp_path):
    assert doing_text(RunFolder(tmp_path), spec_of("python train.py")) == "building"
