"""`advise` and `explain` name what falls under the filter and has no number."""

import json

import pytest

from scalemark.records.measurement import Outcome
from tests.analysis.gpu_box import NCCL, PS, curve, fill_gpus, on_gpus
from tests.analysis.interrupted import interrupted


def line(ended) -> str:
    """The line, or nothing."""
    assert ended.exit_code == 0, ended.stderr
    found = [one for one in ended.stdout.splitlines() if " without a number (" in one]
    assert len(found) < 2
    return "".join(found)


def fill_both() -> None:
    """On nccl all ran; of ps_cpu 1 and 2 GPUs ran, 4 was interrupted and 8 never begun."""
    interrupted(2)
    failures = [(on_gpus(2, model="vgg16", **PS), None), (on_gpus(4, model="vgg16", **PS), None)]
    details = [{"outcome": Outcome.OUT_OF_MEMORY}, {"outcome": Outcome.FAILED}]
    numbers = [*curve([100, 190], **NCCL), *curve([100, 190, 370], model="vgg16", **NCCL)]
    fill_gpus([*failures, *numbers], details=[*details, *[{}] * len(numbers)])


@pytest.mark.parametrize("asked", [("advise",), ("advise", "--all"), ("explain",)], ids=" ".join)
def test_failed_trials_and_those_not_run_are_named_with_what_to_do(analysis, asked):
    fill_both()
    assert line(analysis(*asked, "num_gpus<=8")) == (
        "4 trials without a number (1 out of memory, 1 failed, 2 not run yet): "
        "scalemark show 4; "
        "scalemark status has the command that runs the rest"
    )


@pytest.mark.parametrize("command", ["advise", "explain"])
def test_only_those_under_the_filter_are_named(analysis, command):
    fill_both()
    assert "2 trials without a number (1 out of memory, 1 failed): " in line(
        analysis(command, "model=vgg16")
    )
    assert "2 trials without a number (2 not run yet): " in line(analysis(command, "model=trivial"))
    assert "1 trial without a number (1 not run yet): " in line(
        analysis(command, "model=trivial", "num_gpus!=4")
    )
    assert line(analysis(command, "strategy=replicated_nccl")) == ""
    assert "2 trials without a number (2 not run yet): " in line(analysis(command, "sweep=night"))
    # the host of the rest is unknown
    assert "2 trials without a number (1 out of memory, 1 failed): " in line(
        analysis(command, "host=gpubox")
    )


def test_a_trial_that_has_run_since_is_not_named(analysis):
    interrupted(2)
    fill_gpus(curve([100, 190, 370, 730], **PS))
    assert line(analysis("advise", "model=trivial")) == ""


def test_explain_names_what_is_left_of_the_newest_sweep(analysis):
    interrupted(2)
    assert "2 trials without a number (2 not run yet): " in line(analysis("explain"))


def test_advise_says_once_what_is_left_of_a_sweep(analysis):
    """Its next step goes on with the sweep."""
    interrupted(2)
    assert line(analysis("advise")) == ""
    assert json.loads(analysis("advise", "--json").stdout)["without_number"] is None


def test_json_of_advice_has_the_line(analysis):
    fill_both()
    last = json.loads(analysis("advise", "model=vgg16", "--json").stdout)
    assert last["without_number"].startswith("2 trials without a number (1 out of memory")
