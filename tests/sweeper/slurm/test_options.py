"""Options of sbatch that would break how agents are started and found are refused by any of their names; others are not."""

import pytest

from conf.schema import Config, DataConfig, LauncherConfig, ModelConfig
from sweeper.errors import SweepRefusedError
from sweeper.launchers import load
from sweeper.slurm.options import check


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("--comment=mine", "comment"),
        ("--comm=mine", "comment"),
        ("--job-name=mine", "job-name"),
        ("--array=1-9", "array"),
        ("--export=NONE", "export"),
        ("--wait", "wait"),
        ("--exclusive", "exclusive"),
        ("--uid=1000", "uid"),
    ],
)
def test_options_that_change_how_agents_are_found_are_refused(option, name):
    with pytest.raises(SweepRefusedError) as error:
        check(["--qos=long", option])
    assert str(error.value) == (
        f"launcher.slurm.options: {option} changes how agents are started and found again (--{name}); leave it out"
    )


@pytest.mark.parametrize(
    ("option", "setting"),
    [
        ("--partition=a", "partition"),
        ("--gres=gpu:2", "gres"),
        ("--time=10", "time_min"),
        ("--acc=mine", "account"),
    ],
)
def test_options_that_are_settings_are_refused(option, setting):
    with pytest.raises(SweepRefusedError) as error:
        check([option])
    assert (
        str(error.value)
        == f"launcher.slurm.options: {option} is said by launcher.slurm.{setting}; set that"
    )


@pytest.mark.parametrize("option", ["job.sh", "-Jmine", "-QJmine", "-N2", "--", ""])
def test_short_options_and_scripts_are_refused(option):
    with pytest.raises(SweepRefusedError, match=r"wanted sbatch's long options.*as --qos=long"):
        check(["--qos=long", option])


def test_other_options_are_taken():
    check(["--qos=long", "--mem=64G", "--time-min=10", "--gres-flags=enforce-binding", "--quiet"])


def test_they_are_refused_before_the_cluster_is_asked(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    config = Config(model=ModelConfig(), data=DataConfig(), launcher=LauncherConfig(name="slurm"))
    config.launcher.slurm.options = ["--wrap=true"]
    with pytest.raises(SweepRefusedError, match=r"^launcher.slurm.options: --wrap=true changes"):
        load(config).check()
