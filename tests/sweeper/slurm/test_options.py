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
        ("-Jmine", "job-name"),
        ("-J", "job-name"),
        ("--array=1-9", "array"),
        ("-a1-9", "array"),
        ("--nodes=2", "nodes"),
        ("-N2", "nodes"),
        ("--output=/dev/null", "output"),
        ("-o", "output"),
        ("--export=NONE", "export"),
        ("--wrap=true", "wrap"),
        ("--wait", "wait"),
        ("-W", "wait"),
        ("--requeue", "requeue"),
        ("--signal=KILL@1", "signal"),
        ("-Mother", "clusters"),
        ("--help", "help"),
        ("--hold", "hold"),
        ("-H", "hold"),
        ("-HI", "hold"),
        ("-QJmine", "job-name"),
        ("-kvN2", "nodes"),
        ("-Os", "oversubscribe"),
        ("--oversubscribe", "oversubscribe"),
        ("--exclusive=user", "exclusive"),
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
        ("-pa", "partition"),
        ("--gres=gpu:2", "gres"),
        ("--time=10", "time_min"),
        ("-A", "account"),
        ("-QAmine", "account"),
    ],
)
def test_options_that_are_settings_are_refused(option, setting):
    with pytest.raises(SweepRefusedError) as error:
        check([option])
    assert (
        str(error.value)
        == f"launcher.slurm.options: {option} is said by launcher.slurm.{setting}; set that"
    )


@pytest.mark.parametrize("before", ["--qos=long", "-Q", "-qlong", "-Qv", "--quiet", "--contig"])
def test_a_script_in_the_place_of_the_agent_is_refused(before):
    with pytest.raises(
        SweepRefusedError,
        match=r"^launcher.slurm.options: 'job.sh' is no option of sbatch, .*; leave it out$",
    ):
        check([before, "job.sh"])


def test_other_options_are_taken():
    check(
        [
            "--qos=long",
            "-q",
            "long",
            "--mem=64G",
            "--time-min=10",
            "--gres-flags=enforce-binding",
            "-C",
            "a100&nvlink",
        ]
    )
    check(
        ["-Qwnode-Hs", "-xNHs", "-Qq", "long", "--nodelist", "n1", "-O", "--exclude=n1", "-Lfoo:2"]
    )


def test_they_are_refused_before_the_cluster_is_asked(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    config = Config(model=ModelConfig(), data=DataConfig(), launcher=LauncherConfig(name="slurm"))
    config.launcher.slurm.options = ["--wrap=true"]
    with pytest.raises(SweepRefusedError, match=r"^launcher.slurm.options: --wrap=true changes"):
        load(config).check()
