"""The message of a failure names what the attempt's GPUs had reported."""

import pytest

from scalemark.records.measurement import AttemptResult
from scalemark.run_folder import RunFolder, with_gpu_errors

LOST = '{"time_s": 2.0, "uuid": "GPU-a", "xid": 79}\n'
SAID = "GPU-a reported Xid 79 (see docs.nvidia.com/deploy/xid-errors)"


def message(folder, text, outcome="failed", message="ended by SIGABRT"):
    (folder / "gpu_errors.jsonl").write_text(text)
    result = AttemptResult(outcome=outcome, message=message)
    return with_gpu_errors(result, RunFolder(folder)).message


@pytest.mark.parametrize("outcome", ["failed", "hung"])
def test_errors_are_named(tmp_path, outcome):
    cut_off = LOST.replace("79", "31")[:-1]
    assert message(tmp_path, LOST + cut_off, outcome) == f"ended by SIGABRT; {SAID}"


def test_the_first_ones_are_named(tmp_path):
    text = "".join(LOST.replace("79", str(xid)) for xid in (94, 63, 13, 45))
    assert message(tmp_path, text).count("reported Xid") == 3


@pytest.mark.parametrize(
    ("text", "outcome", "said"),
    [
        ("", "failed", "ended by SIGABRT"),
        (LOST, "out_of_memory", "ended by SIGABRT"),
        (LOST, "failed", f"worker-1: {SAID}"),
        ('{"xid": "x"}\n', "failed", "ended by SIGABRT"),
    ],
    ids=["no error", "another outcome", "said already", "nonsense"],
)
def test_else_a_message_stays_as_it_is(tmp_path, text, outcome, said):
    assert message(tmp_path, text, outcome, said) == said


def test_without_the_file_a_message_stays_as_it_is(tmp_path):
    result = AttemptResult(outcome="failed", message="no")
    assert with_gpu_errors(result, RunFolder(tmp_path)) == result
