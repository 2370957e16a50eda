"""Hardware, and the profiles that describe boxes."""

import json
import shutil
from itertools import pairwise

import pytest

import simulator.costs.box
from simulator.costs.box import (
    Hardware,
    ProfileError,
    profile,
    profiles,
)


def test_the_boxes_of_the_published_figures_have_profiles():
    assert set(profiles()) >= {
        "p100_pcie_8",
        "dgx1_p100",
        "dgx1_v100",
        "dgx2_v100",
        "v100_pcie_8",
        "dgx_a100",
        "dgx_a100_80",
        "h100_8",
        "h200_8",
        "k80_8",
        "titanx_pcie_8",
    }


def test_the_files_of_machines_that_exist_are_no_profiles():
    assert not {"auto", "cpu", "gpu"} & set(profiles())


@pytest.mark.parametrize("name", profiles())
def test_every_figure_of_a_profile_has_a_source_beside_it(name):
    assert profile(name).name == name
    file = simulator.costs.box.FOLDER / f"{name}.yaml"
    lines = file.read_text(encoding="utf-8").split("profile:\n")[1].splitlines()
    unsourced = []
    for before, line in pairwise(["", *lines]):
        is_figure = not line.lstrip().startswith(("#", "name:"))
        if is_figure and "  # " not in line and not before.lstrip().startswith("#"):
            unsourced.append(line)
    assert unsourced == []


@pytest.mark.parametrize("name", profiles())
def test_a_profile_is_the_same_read_back(name):
    assert Hardware.from_json(profile(name).to_json()) == profile(name)


def test_whole_numbers_and_decimal_ones_make_the_same_profile():
    values = {"pcie_gb_per_s": 12, "tflops": {"fp32": 9}}
    others = {"pcie_gb_per_s": 12.0, "tflops": {"fp32": 9.0}}
    reported = {
        name: getattr(profile("p100_pcie_8"), name) for name in Hardware.__dataclass_fields__
    }

    assert (
        Hardware.from_values(reported | values).to_json()
        == Hardware.from_values(reported | others).to_json()
    )


def test_an_unknown_profile_is_answered_with_the_nearest_and_all():
    with pytest.raises(
        ProfileError,
        match=r"hardware=dgx1_p10: no such profile; did you mean dgx1_p100\?$",
    ):
        profile("dgx1_p10")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Of hardware, with one sound profile."""
    shutil.copy(simulator.costs.box.FOLDER / "p100_pcie_8.yaml", tmp_path)
    monkeypatch.setattr(simulator.costs.box, "FOLDER", tmp_path)
    for cached in (profile, profiles):
        cached.cache_clear()
    yield tmp_path
    for cached in (profile, profiles):
        cached.cache_clear()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("pcie_gb_per_s: 12.0", ""), "not a hardware profile: pcie_gb_per_s missing"),
        (
            ("pcie_gb_per_s: 12.0", "pcie_gb_per_s: fast"),
            "not a hardware profile: pcie_gb_per_s=fast: wanted a number",
        ),
        (
            ("fp32: 9.3", "fp32: many"),
            "not a hardware profile: tflops.fp32=many: wanted a number",
        ),
        (("pcie_gb_per_s: 12.0", "pcie_gb_per_s: [12"), "while parsing a flow sequence"),
        (("num_gpus: 8", "num_gpus: 0"), "p100_pcie_8: num_gpus=0: wanted 1 to 256"),
    ],
)
def test_a_broken_profile_is_named_only_where_it_is_asked_for(folder, change, said):
    text = (folder / "p100_pcie_8.yaml").read_text(encoding="utf-8")
    (folder / "mine.yaml").write_text(text.replace(*change, 1), encoding="utf-8")
    assert profile("p100_pcie_8").num_gpus == 8
    with pytest.raises(ProfileError) as raised:
        profile("mine")
    assert str(raised.value).startswith("conf/hardware/mine.yaml: ")
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["", "12", "profile: 12", "profile: {tflops: 3}", "profile:"])
def test_a_file_that_holds_no_profile_is_named_too(folder, text):
    (folder / "mine.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ProfileError, match=r"conf/hardware/mine\.yaml: "):
        profile("mine")


def test_the_profile_of_an_older_database_is_read():
    """Advice once knew a price."""
    older = {**json.loads(profile("k80_8").to_json()), "usd_per_gpu_hour": None}
    assert Hardware.from_json(json.dumps(older)) == profile("k80_8")
