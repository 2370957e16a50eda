"""`from=TRIAL` takes an earlier trial's axes from the database, with what differs."""

from dataclasses import replace

import pytest

from analysis import again
from analysis.selection import Selection, load
from scalemark.records.overrides import changes_to, overrides, with_changes
from scalemark.records.trial import TrialSpec
from sweeper import SweepRefusedError
from sweeper.grid.from_trial import with_trial
from tests.command.programs import spec_of
from tests.filled import MACHINE, fill
from tests.specs import small

CNN = small(num_gpus=2)
FP16 = small(num_gpus=2, precision="fp16", loss_scale="dynamic")


@pytest.fixture(autouse=True)
def database():
    fill("results.db", [(CNN, 100.0), (FP16, 120.0)])


def named(spec: TrialSpec, *changes: str) -> list[str]:
    return list(with_trial([f"from={spec.trial_id[:8]}", *changes])[0])


def test_an_earlier_trial_is_taken_as_it_was():
    assert named(CNN) == overrides(CNN, ())


def test_the_beginning_of_an_id_names_it():
    found, taken = with_trial([f"from={CNN.trial_id[:4]}", "-m", "batch_size=32,64"])
    assert found == ["-m", *with_changes(overrides(CNN, ()), ["batch_size=32,64"])]
    assert taken.line.startswith(f"from trial {CNN.trial_id[:8]}: model=trivial num_gpus=2")
    assert "batch_size" not in taken.line


def test_arguments_without_a_trial_stay_as_they_are():
    assert with_trial(["-m", "num_gpus=1,2"]) == (["-m", "num_gpus=1,2"], None)


@pytest.mark.parametrize("beginning", ["abc", "nothing", "", "WXYZ"])
def test_what_begins_no_id_is_refused(beginning):
    with pytest.raises(SweepRefusedError, match="wanted the beginning of a trial's id"):
        with_trial([f"from={beginning}"])


def test_an_unknown_id_is_refused():
    unknown = CNN.trial_id[:3] + ("0" if CNN.trial_id[3] != "0" else "1")
    with pytest.raises(SweepRefusedError, match=r"no such trial in .* list shows all"):
        with_trial([f"from={unknown}"])


def test_the_trial_is_in_the_database_that_the_sweep_writes_to():
    fill("other.db", [(small(num_gpus=4), 100.0)])
    found, _ = with_trial([f"from={small(num_gpus=4).trial_id}", "store.url=other.db"])
    assert "num_gpus=4" in found


def test_what_only_an_earlier_version_could_inject_is_refused_as_such():
    old = replace(CNN, injected="hang=0.1 noise=0.02")
    fill("old.db", [(old, 100.0)])
    with pytest.raises(SweepRefusedError, match="it was measured by an earlier version"):
        with_trial([f"from={old.trial_id}", "store.url=old.db"])


def test_it_is_measured_where_it_was_measured_last():
    """A bug: what `advise` proposed for a cluster ran on the host that it was typed on."""
    fill("other.db", [(CNN, 100.0)], machine=replace(MACHINE, pool="slurm"))
    there = [f"from={CNN.trial_id}", "store.url=other.db"]
    assert "launcher=slurm" in with_trial(there)[0]
    assert "launcher=slurm" not in with_trial([*there, "launcher=local"])[0]
    assert "launcher=slurm" not in named(CNN)


def test_another_precision_has_a_loss_scale_of_its_own():
    assert "loss_scale=dynamic" in named(FP16)
    assert not any(one.startswith("loss_scale") for one in named(FP16, "precision=fp32"))


def test_a_strategy_takes_the_place_of_its_axes():
    found = named(CNN, "all_reduce=pscpu")
    assert {"variable_update=replicated", "local_parameter_device=gpu", "all_reduce=pscpu"} < set(
        found
    )
    assert not any(one.startswith("strategy=") for one in found)


def test_a_model_of_tokens_takes_no_size_of_images():
    assert not any(one.startswith("image_px") for one in named(CNN, "model=gpt2"))


def test_a_free_axis_of_a_program_is_changed():
    spec = spec_of("python train.py {lr}", free=(("axes.lr", 0.1),))
    fill("results.db", [(spec, 100.0)])
    assert "+axes.lr=0.2" in named(spec, "axes.lr=0.2")


def test_changes_lead_from_one_trial_to_another():
    for one, other in ((CNN, FP16), (FP16, CNN)):
        wanted = overrides(one, ())
        found = changes_to(wanted, overrides(other, ()))
        assert found is not None
        made = with_changes(overrides(other, ()), found)
        assert set(wanted) <= set(made)


def test_a_command_names_the_nearest_trial_and_its_database():
    fill("other.db", [(CNN, 100.0), (FP16, 120.0)])
    results = load(Selection(db="other.db"))
    wanted = small(num_gpus=4, precision="fp16", loss_scale="dynamic")
    assert again.command(wanted, results, *again.repeated(3)) == (
        f"scalemark sweep from={FP16.trial_id[:8]} store.url=other.db num_gpus=4 sweep.repeats=3"
    )


def test_a_trial_that_is_none_is_told_how_to_list_those_of_its_database():
    fill("my.db", [(small(), 1.0)])
    with pytest.raises(SweepRefusedError, match=r"; scalemark list --db my\.db shows all"):
        with_trial(["from=ffffffff", "store.url=my.db"])
