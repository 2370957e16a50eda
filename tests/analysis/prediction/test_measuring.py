"""Commands that supply a missing row are of trials that can be run."""

import pytest

from analysis.calibration.row import row
from analysis.prediction.measuring import measuring
from analysis.prediction.predictions import changed
from analysis.published import of_source, published
from costs.profiles import profile
from costs.work import Work
from scalemark.records.devices import DeviceKind
from scalemark.records.trial import TrialSpec
from store.errors import StoreError
from store.reading.queries import known_references
from tests.analysis.made import made
from tests.analysis.run_by import arguments
from tests.conf.test_resolve import trial

PHOTOS = {"model": "resnet50", "image_px": 224, "num_classes": 1001, "num_gpus": 2}
TOKENS = {"model": "gpt2", "image_px": 0, "seq_len": 1024, "num_classes": 50257, "num_gpus": 2}


def run_by(axes: dict[str, object], **to: str) -> TrialSpec:
    """Return the trial that the command makes of a trial with other values."""
    rows = made((axes, [100.0]))
    work = Work.of(rows[0].axes)
    for axis, value in to.items():
        work = changed(work, axis, value)
    return trial(*arguments(measuring(work, rows), rows), kind=DeviceKind.GPU)


@pytest.mark.parametrize(
    ("optimizer", "momentum", "weight_decay"),
    [("adam", 0.0, 4e-5), ("adamw", 0.0, 0.01), ("sgd", 0.0, 4e-5), ("rmsprop", 0.9, 4e-5)],
)
def test_another_optimizer_has_its_own_factors(optimizer, momentum, weight_decay):
    spec = run_by(PHOTOS, optimizer=optimizer)
    assert (spec.optimizer, spec.momentum, spec.weight_decay) == (optimizer, momentum, weight_decay)


def test_the_same_optimizer_keeps_the_factors_of_its_rows():
    spec = run_by({**PHOTOS, "learning_rate": 0.5, "momentum": 0.7}, num_gpus="4")
    assert (spec.num_gpus, spec.learning_rate, spec.momentum) == (4, 0.5, 0.7)


def test_an_optimizer_that_nobody_can_run_has_no_command():
    rows = made((PHOTOS, [100.0]))
    assert measuring(changed(Work.of(rows[0].axes), "optimizer", "lamb"), rows) == ""


def test_real_data_of_a_model_of_tokens_is_text():
    spec = run_by({**TOKENS, "model": "gpt_mini", "seq_len": 128, "num_classes": 256}, data="text")
    assert (spec.data, spec.seq_len, spec.distortions) == ("text", 128, False)


def test_a_source_of_tokens_is_measured_on_text():
    source = published(of_source(known_references(None), "BERT"))
    command = measuring(row(source[0], profile("dgx1_v100")).work, source)
    assert "data=text distortions=false" in command.lower()


def test_real_data_of_a_model_of_images_is_imagenet():
    rows = made((PHOTOS, [100.0]))
    command = measuring(changed(Work.of(rows[0].axes), "data", "imagenet"), rows)
    assert "data=imagenet" in command
    assert "distortions=true" in command.lower()


def test_another_length_keeps_the_vocabulary():
    """A bug: the published vocabulary took its place."""
    rows = made(({**TOKENS, "num_classes": 256}, [100.0]))
    before = Work.of(rows[0].axes)
    after = changed(before, "seq_len", "128")
    assert (after.network.seq_len, after.network.num_classes) == (128, 256)
    assert after.network.num_parameters == before.network.num_parameters


def test_sharding_is_a_strategy_to_predict():
    rows = made((PHOTOS, [100.0]))
    after = changed(Work.of(rows[0].axes), "strategy", "sharded")
    assert (after.variable_update, after.local_parameter_device, after.all_reduce) == (
        "sharded",
        "gpu",
        "none",
    )
    with pytest.raises(StoreError, match=r"wanted one of ps_cpu, .*sharded, sharded_nccl; others"):
        changed(after, "strategy", "distributed_ring")
