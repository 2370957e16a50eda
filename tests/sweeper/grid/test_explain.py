"""What is said of files and overrides that cannot be composed."""

import shutil
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException

from conf.schema import register
from sweeper import SweepRefusedError
from sweeper.grid.explain import check_forms, explain
from tests.conf.test_resolve import FOLDER


def said_of(*overrides: str, folder: Path = FOLDER, **more: object) -> str:
    """Return what is said of overrides that Hydra refuses."""
    register()
    with (
        initialize_config_dir(str(folder), version_base=None),
        pytest.raises(HydraException) as raised,
    ):
        compose("config", overrides=list(overrides), **more)
    GlobalHydra.instance().clear()
    return explain(raised.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "pcie_gb_per_s: fast",
            "hardware/mine.yaml: hardware.profile.pcie_gb_per_s: Value 'fast' of type 'str' could not be converted to Float",
        ),
        (
            "pcie_gb_per_s:",
            "hardware/mine.yaml: hardware.profile.pcie_gb_per_s: Incompatible value 'None' for field of type 'float'",
        ),
        (
            "pci_gb_per_s: 12",
            "hardware/mine.yaml: hardware.profile.pci_gb_per_s: Key 'pci_gb_per_s' not in 'ProfileConfig'",
        ),
    ],
)
def test_a_wrong_line_of_a_hardware_profile_is_named_with_its_value(tmp_path, line, said):
    folder = tmp_path / "conf"
    shutil.copytree(FOLDER, folder)
    text = (folder / "hardware" / "p100_pcie_8.yaml").read_text(encoding="utf-8")
    (folder / "hardware" / "mine.yaml").write_text(
        text.replace("pcie_gb_per_s: 12.0", line, 1), encoding="utf-8"
    )
    assert said_of("hardware=mine", folder=folder) == said


@pytest.mark.parametrize(
    ("strategy", "called"),
    [
        ("ddp", "process_per_gpu_nccl, or process_per_gpu_ring without GPUs"),
        ("FSDP", "sharded"),
        ("zero3", "sharded"),
        ("CentralStorageStrategy", "ps_cpu"),
    ],
)
def test_a_strategy_of_others_leads_to_ours(strategy, called):
    assert said_of(f"strategy={strategy}") == (
        f"strategy={strategy}: here it is {called}; strategy=all compares all"
    )


def test_a_free_axis_that_is_given_twice_is_named():
    assert said_of("+axes.zero=1", "+axes.zero=2") == (
        "axes.zero: given twice; give it once, as +axes.zero=VALUE,VALUE"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["+env=FOO"], "+env: wanted a name with it, as +env.NAME=VALUE,VALUE"),
        (["+axes=FOO"], "+axes: wanted a name with it, as +axes.NAME=VALUE,VALUE"),
        (
            ["hardware=here/none.yaml"],
            "hardware=here/none.yaml: for DIR/hardware/none.yaml write --config-dir=DIR hardware=none",
        ),
        (
            ["hardware=dgx_a100", "hardware.profile.pcie_gb=25"],
            "hardware.profile.pcie_gb: hardware.profile has no setting pcie_gb; did you mean pcie_gb_per_s?",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_there_is_said_with_what_can(arguments, said):
    assert said_of(*arguments).startswith(said)


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("command.item=null", "wanted a value; leave it out for its default"),
        ("num_gpus=null", "wanted a value; leave it out for its default"),
        ("+axes.x=null", "null is no value; text stands in quotes, as \"+axes.x='null'\""),
        ("command.item=[a]", "wanted text; with brackets or braces it stands in quotes"),
        ("launcher.hosts=zero", "wanted a list, as launcher.hosts=[a,b]"),
        ("sweep.name=模型", "wanted letters, digits, '.', '_' and '-', 100 at most"),
    ],
)
def test_a_value_of_another_kind_is_refused_in_plain_words(argument, said):
    assert said_of(argument) == f"{argument}: {said}"


@pytest.mark.parametrize("arguments", [["--cfg"], ["-c"], ["--cfg", "model=vgg16"], ["--cfg=jobs"]])
def test_a_flag_without_its_value_names_the_values(arguments):
    with pytest.raises(SweepRefusedError, match="wanted job, hydra or all behind it"):
        check_forms(arguments)


def test_a_trial_is_named_without_dashes():
    with pytest.raises(SweepRefusedError, match=r"--from: .* have no dashes; write from=VALUE"):
        check_forms(["--from", "3f2a81c0"])


def test_a_number_that_python_cannot_read_is_refused():
    for argument in (f"num_gpus={'9' * 5000}", f"batch_size=1,-{'1_0' * 2000}"):
        with pytest.raises(SweepRefusedError, match="a number of more than 4,300 digits"):
            check_forms([argument])


@pytest.mark.parametrize("arguments", [["--cfg", "job"], ["-c", "all", "num_gpus=2"]])
def test_a_flag_with_its_value_is_hydras(arguments):
    check_forms(arguments)


def test_no_argument_is_answered_with_what_to_write():
    """A bug: it ended in a traceback."""
    with pytest.raises(SweepRefusedError, match="found nothing to measure; write scalemark sweep"):
        check_forms([])


def test_a_variable_that_hydra_could_not_read_is_refused_before_it_tries():
    with pytest.raises(SweepRefusedError, match="write each value in quotes, as"):
        check_forms(["+env.FOO=int(a)"])


def test_a_file_of_ones_own_that_gives_a_group_one_value_is_named_with_it(tmp_path):
    folder = tmp_path / "exp" / "experiment"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text("# @package _global_\nmodel: trivial\n", encoding="utf-8")
    own = f"hydra.searchpath=[file://{folder.parent}]"
    assert said_of("experiment=mine", own, return_hydra_config=True) == (
        "experiment/mine.yaml: write `- override /model: trivial` below defaults"
    )
