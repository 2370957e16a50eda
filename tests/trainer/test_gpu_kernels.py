"""Every op of a training step has a GPU kernel in the TensorFlow that is installed."""

import gc

import pytest

from scalemark import models
from scalemark.abilities import VARIABLE_UPDATES
from tests.specs import small
from tests.tiers import every_other
from tests.trainer.gpu_kernels import lacking
from trainer import collectives
from trainer.devices import Devices
from trainer.selfcheck import Bench, modes

PX = {"alexnet": 67, "vgg16": 32, "overfeat": 71, "inception3": 96, "inception4": 96}
SHORT = 16  # tokens
PRECISION = {
    "fp32": {"data_format": "NCHW"},
    "fp16": {"loss_scale": "dynamic"},
    "bf16": {},
}
# each process of the others traces its own part, and Keras' loop its own step
MODES = {
    name: spec
    for name, spec in modes(Bench(kind="cpu_device", num_replicas=2)).items()
    if not VARIABLE_UPDATES[spec.variable_update].rank_jobs
    and not VARIABLE_UPDATES[spec.variable_update].has_own_loop
}


@pytest.fixture
def _leave_no_model_behind():
    """The largest take gigabytes, and are freed only once somebody looks for cycles."""
    yield
    gc.collect()


def of_model(model: str, **changes):
    sizes = models.published_sizes(model)
    wanted = {"image_px": 0, "seq_len": 0, "num_classes": sizes["num_classes"], "batch_size": 2}
    if "image_px" in sizes:
        wanted["image_px"] = PX.get(model, min(64, sizes["image_px"]))
    else:
        wanted["seq_len"] = SHORT
    return small(model=model, **{"num_gpus": 2} | wanted | changes)


def test_a_small_model_in_half_precision_has_all_kernels(make_devices):
    assert (
        lacking(of_model("resnet18_cifar", **PRECISION["fp16"], precision="fp16"), make_devices(2))
        == set()
    )


@pytest.mark.parametrize("changes", [{"steps_per_execution": 2}, {"gradient_accumulation": 2}])
def test_steps_on_real_images_have_all_kernels(make_devices, changes):
    """Gathering has none for uint8, in which images come."""
    spec = of_model("lenet5", image_px=28, data="digits", precision="fp16", **changes)
    assert lacking(spec, make_devices(2)) == set()


def test_an_op_without_a_gpu_kernel_is_found(make_devices, monkeypatch):
    monkeypatch.setattr("tests.trainer.gpu_kernels._gpu_kernels", lambda op: [])
    assert "Relu float32" in lacking(of_model("resnet18_cifar"), make_devices(2))


@pytest.mark.integration
@pytest.mark.parametrize(("mode", "precision"), every_other(tuple(MODES), tuple(PRECISION)))
def test_every_mode_has_all_kernels(make_devices, monkeypatch, mode, precision):
    """NCCL's too, whose graph is built here over CPU devices that pass for GPUs, and never run."""
    monkeypatch.setattr(Devices, "check_own_gpus", lambda _: None)
    monkeypatch.setattr(collectives, "_check_order", lambda *_: None)
    changes = dict(PRECISION[precision])
    if MODES[mode].variable_update == "independent":
        changes.pop("loss_scale", None)
    spec = of_model(
        "lenet5",
        precision=precision,
        variable_update=MODES[mode].variable_update,
        local_parameter_device=MODES[mode].local_parameter_device,
        all_reduce=MODES[mode].all_reduce,
        **changes,
    )
    assert lacking(spec, make_devices(2)) == set()


@pytest.mark.slow
@pytest.mark.usefixtures("_leave_no_model_behind")
@pytest.mark.parametrize("precision", PRECISION)
@pytest.mark.parametrize("model", sorted(models.trainable()))
def test_every_model_has_all_kernels(make_devices, model, precision):
    changes = dict(PRECISION[precision])
    if not models.published_sizes(model).get("image_px"):
        changes.pop("data_format", None)
    spec = of_model(model, num_gpus=1, precision=precision, **changes)
    assert lacking(spec, make_devices(1)) == set()
