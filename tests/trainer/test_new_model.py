"""A model is one file in scalemark/models/ and its defaults in conf/model/; each names the other."""

import pytest
from omegaconf.errors import MissingMandatoryValue

from conf.resolve import resolve
from scalemark import models
from scalemark.records.machine import DeviceKind
from simulator.costs.networks import network
from sweeper import SweepRefusedError
from sweeper.devices.machine import Inventory
from sweeper.grid.compose import GridChoice
from sweeper.grid.plan import resolve_grid
from tests.conf.test_resolve import config
from trainer import run
from trainer.data import synthetic

DEFINITION = """
from scalemark.layers import Tensor, conv, flatten, images, logits, max_pool


def tiny(image_px: int = 12, num_classes: int = 3) -> Tensor:
    x = images(image_px)
    x = conv(x, 4, 3, padding="valid")
    x = max_pool(x, 2, 2)
    return logits(flatten(x), num_classes)


MODELS = {"tiny": tiny}
"""

DEFAULTS = """
name: tiny
batch_size: 32
cpu_image_px: 6
cpu_batch_size: 2
learning_rate: 0.1
"""


@pytest.fixture
def defined(tmp_path, monkeypatch):
    """The folder of definitions reaches into another one, which has a file tiny.py."""
    (tmp_path / "tiny.py").write_text(DEFINITION)
    monkeypatch.setattr(models, "__path__", [*models.__path__, str(tmp_path)])
    caches = (models.definitions, models.published_sizes)
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


@pytest.fixture
def write_defaults(tmp_path):
    """write_defaults(text): the overrides that find conf/model/tiny.yaml of this text."""

    def write(text: str) -> tuple[str, str]:
        (tmp_path / "conf" / "model").mkdir(parents=True)
        (tmp_path / "conf" / "model" / "tiny.yaml").write_text(text)
        return ("model=tiny", f"hydra.searchpath=[file://{tmp_path}/conf]")

    return write


def plan(*overrides: str):
    inventory = Inventory(kind=DeviceKind.CPU_DEVICE, gpus=(), num_devices=2)
    cell = tuple(GridChoice(text=text, override=None) for text in overrides)
    composed = config(*overrides)
    return resolve_grid([cell], lambda _: composed, inventory, composed.sweep)


def test_a_definition_and_its_defaults_are_planned_counted_and_trained(
    defined, write_defaults, make_devices
):
    ([spec], _) = plan(*write_defaults(DEFAULTS), "num_gpus=2")
    assert (spec.model, spec.image_px, spec.num_classes, spec.batch_size) == ("tiny", 6, 3, 2)

    counted = network("tiny", spec.image_px)
    assert counted.tensors == (3 * 3 * 3 * 4, 4, 2 * 2 * 4 * 3, 3)
    assert counted.forward_flops == 2 * (108 * 4 * 4 + 48)

    devices = make_devices(2)
    training = run.build(spec, devices)
    before = training.update.weights(0)
    training.towers.step(synthetic.open_input(spec, devices).next())
    after = training.update.weights(0)
    assert tuple(weights.size for weights in after) == counted.tensors
    assert any((old != new).any() for old, new in zip(before, after, strict=True))


def test_its_published_size_is_that_of_the_definition(defined, write_defaults):
    composed = config(*write_defaults(DEFAULTS))
    assert resolve(composed, DeviceKind.GPU, 1).image_px == 12


def test_too_small_an_image_is_refused_with_the_least(defined, write_defaults):
    with pytest.raises(SweepRefusedError, match="image_px=3: tiny needs at least 4"):
        plan(*write_defaults(DEFAULTS), "image_px=3")


def test_defaults_without_a_definition_refuse_the_sweep(write_defaults):
    with pytest.raises(
        SweepRefusedError, match=r"model=tiny: no file in scalemark/models/ defines it; defined are"
    ):
        plan(*write_defaults(DEFAULTS))


def test_a_missing_default_refuses_the_sweep_by_its_name(defined, write_defaults):
    with pytest.raises(MissingMandatoryValue, match="learning_rate"):
        plan(*write_defaults(DEFAULTS.replace("learning_rate: 0.1", "")))


def test_a_name_defined_twice_is_refused(defined, tmp_path):
    (tmp_path / "twin.py").write_text(DEFINITION)
    with pytest.raises(models.ModelError, match=r"tiny: defined twice, again in twin\.py"):
        models.definitions()
