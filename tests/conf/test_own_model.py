"""`model=my_model.py:build` resolves to a trial like any model, without a file in conf/model/."""

import os

import pytest

from conf.resolve import TrialRefusedError
from scalemark.models import ModelError
from scalemark.own_model import find, folder_of
from scalemark.records.machine import DeviceKind
from scalemark.records.overrides import overrides
from scalemark.records.trial import TrialSpec
from sweeper.devices.machine import Inventory
from sweeper.grid.compose import GridChoice
from sweeper.grid.plan import resolve_grid
from sweeper.starts import environment
from tests.conf.test_resolve import config, trial
from tests.own_models import DENSE, written


def test_it_resolves_with_the_digest_of_its_file(tmp_path):
    spec = trial(f"model={written(DENSE)}", "num_gpus=2")
    assert (spec.model, spec.model_digest) == (
        "my_model.py:build",
        find("my_model.py:build", tmp_path).digest,
    )
    assert (spec.batch_size, spec.learning_rate, spec.image_px, spec.num_classes) == (8, 0.01, 0, 0)
    assert TrialSpec.from_json(spec.to_json()) == spec


def test_on_gpus_it_says_itself_which_data_format_it_takes():
    reference = written(DENSE)
    spec = trial(f"model={reference}", kind=DeviceKind.GPU)
    assert (spec.batch_size, spec.data_format) == (32, "NHWC")
    assert trial("model=resnet50", kind=DeviceKind.GPU).data_format == "NCHW"


@pytest.mark.parametrize("name", ["nets/deep/my_model.py", "my-model.py"])
def test_a_file_in_a_folder_is_named_with_it(name):
    assert trial(f"model={written(DENSE, name)}").model == f"{name}:build"


def test_a_file_elsewhere_is_named_by_its_path(tmp_path, monkeypatch):
    written(DENSE)
    (tmp_path / "sweeps").mkdir()
    monkeypatch.chdir(tmp_path / "sweeps")
    path = f"{tmp_path}/my_model.py:build"
    assert trial(f"model={path}").model == path
    assert trial("model=../my_model.py:build") == trial(f"model={path}")


def test_a_changed_file_is_another_trial():
    first = trial(f"model={written(DENSE)}")
    second = trial(f"model={written(DENSE + '# wider')}")
    assert first.trial_id != second.trial_id
    assert first.curve != second.curve


def test_the_command_of_a_trial_makes_it_again():
    spec = trial(f"model={written(DENSE)}", "batch_size=16", "num_gpus=2")
    found = overrides(spec, ())
    assert trial(*found) == spec
    assert not [each for each in found if each.startswith(("model_digest", "image_px"))]


@pytest.mark.parametrize(
    ("override", "refusal"),
    [
        ("image_px=64", "image_px=64: my_model.py:build has an input of its own; leave it out"),
        ("data=photos", "data=photos: my_model.py:build takes synthetic data of its own input"),
        ("data_format=NCHW", "data_format=NCHW: my_model.py:build says itself which order"),
    ],
)
def test_what_the_model_says_itself_is_no_setting(override, refusal):
    with pytest.raises(TrialRefusedError, match=refusal):
        trial(f"model={written(DENSE)}", override)


def test_only_a_model_of_ones_own_may_leave_its_sizes_open():
    with pytest.raises(TrialRefusedError, match=r"^image_px=0: trivial wants 1 or more"):
        trial("model=trivial", "image_px=0")
    assert trial(f"model={written(DENSE)}", "image_px=0").image_px == 0


def test_its_trainers_look_for_it_from_the_folder_of_the_sweep(tmp_path):
    assert folder_of(environment({}, "")) == tmp_path


def test_simulated_it_is_refused_with_the_models_that_are_known():
    with pytest.raises(
        TrialRefusedError,
        match="engine=simulated does not know the layers of a model of your own; choose one of alex",
    ):
        trial(
            f"model={written(DENSE)}",
            "engine=simulated",
            "hardware=dgx1_p100",
            kind=DeviceKind.SIMULATED_GPU,
        )


def test_a_misspelt_file_refuses_the_sweep_with_the_nearest():
    written(DENSE)
    with pytest.raises(ModelError, match=r"there is no such file; did you mean my_model\.py\?"):
        trial("model=my_modle.py:build")


def test_a_fifo_is_refused_without_waiting():
    os.mkfifo("my_model.py")
    with pytest.raises(ModelError, match="found a FIFO, wanted a regular file"):
        trial("model=my_model.py:build")


def test_it_stands_in_a_grid_beside_ours():
    written(DENSE)
    inventory = Inventory(kind=DeviceKind.CPU_DEVICE, gpus=(), num_devices=2)
    cells = [
        (GridChoice(text=f"model={name}", override=None),)
        for name in ("trivial", "my_model.py:build")
    ]
    sweep = config().sweep
    specs, left_out = resolve_grid(cells, lambda cell: config(cell[0].text), inventory, sweep)
    assert [spec.model for spec in specs] == ["trivial", "my_model.py:build"]
    assert not left_out
