"""Trials of the simulated engine: what is injected is part of what they are, and what means nothing is refused."""

import subprocess
import sys

import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import MissingConfigException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from conf import schema
from conf.resolve import TrialRefusedError, resolve
from conf.rules import INJECTED_AT_MOST
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import INJECTED
from scalemark.records.trial import TrialSpec
from simulator.costs.box import profile, profiles
from sweeper.devices.machine import hardware_of
from tests.conf.test_resolve import FOLDER, config, trial

SIMULATED, GPU = DeviceKind.SIMULATED_GPU, DeviceKind.GPU


def simulated(*overrides: str) -> TrialSpec:
    return trial("engine=simulated", *overrides, kind=SIMULATED)


def test_simulated_trials_are_as_large_as_those_of_gpus():
    made, real = simulated(), trial(kind=GPU)
    assert (made.image_px, made.batch_size, made.num_steps, made.data_format) == (
        real.image_px,
        real.batch_size,
        real.num_steps,
        real.data_format,
    )


def test_simulated_trials_have_noise_unless_the_user_wants_none():
    assert simulated().injected == "noise=0.02 process_noise=0.005"
    assert simulated("injected.noise=0.1").injected == "noise=0.1 process_noise=0.005"
    assert simulated("injected.noise=0", "injected.process_noise=0").injected == ""


def test_what_is_injected_with_0_or_null_is_not_injected():
    assert simulated("injected.drift=0", "injected.input_s=null").trial_id == simulated().trial_id


def test_a_fault_makes_another_trial():
    assert simulated("injected.input_s=0.05").trial_id != simulated().trial_id


def test_trials_that_really_run_have_nothing_injected():
    assert trial().injected == trial(kind=GPU).injected == ""


@pytest.mark.parametrize("name", INJECTED)
def test_only_simulated_trials_can_have_faults(name):
    refusal = (
        rf"injected={name}=1: engine=tensorflow does not know it, simulated does; leave it out"
    )
    with pytest.raises(TrialRefusedError, match=refusal):
        trial(f"injected.{name}=1")


@pytest.mark.parametrize(
    ("fault", "wanted"),
    [
        ("throttling=1", "0.95 or less"),
        ("failure_rate=2", "1 or less"),
        ("noise=-1", "0 or more"),
        ("noise=nan", "a finite number"),
        ("noise=1e9", "1 or less"),
        ("process_noise=2", "1 or less"),
        ("input_s=1e308", "3600 or less"),
        ("launch_s=4000", "3600 or less"),
        ("slow_replica_by=101", "100 or less"),
    ],
)
def test_faults_that_mean_nothing_are_refused(fault, wanted):
    with pytest.raises(
        TrialRefusedError, match=rf"injected\.{fault.partition('=')[0]}=.*wanted.*{wanted}"
    ):
        simulated(f"injected.{fault}")


def test_a_slow_replica_has_a_number_and_a_share():
    with pytest.raises(TrialRefusedError, match=r"slow_replica=1.5: wanted a whole number"):
        simulated("injected.slow_replica=1.5", "injected.slow_replica_by=0.2")
    with pytest.raises(TrialRefusedError, match=r"nothing slows it; add injected\.slow_replica_by"):
        simulated("injected.slow_replica=3")
    first = simulated("injected.slow_replica=0", "injected.slow_replica_by=0.2")
    assert first.injected_values["slow_replica_by"] == 0.2


def test_all_that_can_be_injected_is_bounded():
    assert INJECTED_AT_MOST.keys() <= INJECTED.keys()


def test_simulated_trials_are_of_one_process_on_one_host():
    with pytest.raises(
        TrialRefusedError, match="hosts=2: the cost model does not know what it changes"
    ):
        simulated("strategy=distributed_ps", "hosts=2", "num_gpus=2")
    with pytest.raises(
        TrialRefusedError,
        match="variable_update=distributed_all_reduce: is of several processes, and the cost model",
    ):
        simulated("strategy=distributed_ring", "num_gpus=2")


def test_simulated_trials_need_no_files():
    assert simulated("data=imagenet", "model=alexnet").data == "imagenet"
    with pytest.raises(TrialRefusedError, match="simulated trials read no files; leave it out"):
        simulated("data=imagenet", "data.dir=/somewhere")


def test_what_makes_no_sense_on_gpus_makes_none_when_simulated():
    with pytest.raises(TrialRefusedError, match="not with variable_update=parameter_server"):
        simulated("variable_update=parameter_server", "all_reduce=nccl")
    with pytest.raises(TrialRefusedError, match=r"needs compute capability 8\.0, found 6\.0"):
        resolve(config("engine=simulated", "precision=bf16"), SIMULATED, 8, (6, 0))
    with pytest.raises(
        TrialRefusedError, match="num_gpus=16: there are 8 simulated GPUs in this profile"
    ):
        simulated("num_gpus=16")


def test_one_sweep_has_one_engine():
    with pytest.raises(
        TrialRefusedError,
        match="engine=simulated: one engine for the whole sweep; give it on the command line",
    ):
        trial("engine=simulated", kind=GPU)


@pytest.mark.parametrize("name", profiles())
def test_every_profile_composes_to_what_its_file_says(name):
    assert hardware_of(config("engine=simulated", f"hardware={name}").hardware) == profile(name)


def test_a_profile_of_the_users_own_is_a_file_of_a_folder_of_theirs(tmp_path):
    own = tmp_path / "hardware" / "my_box.yaml"
    own.parent.mkdir()
    text = (FOLDER / "hardware" / "titanx_pcie_8.yaml").read_text(encoding="utf-8")
    own.write_text(text.replace("titanx_pcie_8", "my_box"), encoding="utf-8")
    plan = [f"--config-dir={tmp_path}", "engine=simulated", "hardware=my_box", "sweep.dry_run=true"]
    command = [sys.executable, FOLDER.parent / "sweep.py", *plan]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("simulated-my_box: 8 simulated GPUs like GeForce GTX TITAN X")
    own.write_text("profile: [")
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1)
    assert f'in "{own}", line 1' in ended.stderr


def test_a_profile_that_is_nowhere_is_refused_with_those_that_ship():
    with pytest.raises(MissingConfigException) as raised:
        config("hardware=my_bx")
    assert "titanx_pcie_8" in set(raised.value.options or ())


def test_a_field_of_a_profile_can_be_set_and_is_checked():
    assert (
        hardware_of(
            config("hardware=p100_pcie_8", "hardware.profile.pcie_gb_per_s=25").hardware
        ).pcie_gb_per_s
        == 25.0
    )
    schema.register()
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        composed = compose("config", overrides=["hardware=p100_pcie_8"])
    with pytest.raises(OmegaConfBaseException, match="could not be converted to Float"):
        OmegaConf.update(composed, "hardware.profile.pcie_gb_per_s", "fast")
