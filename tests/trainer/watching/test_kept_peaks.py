"""A peak is kept for the same device and software; what is damaged or of another is not believed."""

import os
from pathlib import Path

import pytest

from scalemark.run_folder import RunFolder
from tests.specs import small
from trainer.watching import utilization

KEY = "fedcba9876543210"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where peaks are kept."""
    monkeypatch.setenv("SCALEMARK_CACHE", str(tmp_path))
    return tmp_path / "peaks"


def test_a_peak_is_kept(folder):
    assert utilization.read(KEY) is None
    utilization.write(KEY, 1.5e11)
    utilization.write(KEY, 2.5e11)
    assert utilization.read(KEY) == 2.5e11
    assert [file.name for file in folder.iterdir()] == [f"{KEY}.json"]


def test_anything_else_has_a_peak_of_its_own(make_devices, tmp_path):
    """The machine, the cores and the software are those of this process."""
    devices, run = make_devices(1), RunFolder(tmp_path)
    changes = [{}, {"precision": "bf16"}]
    keys = {utilization.peak_key(small(**change), devices, run) for change in changes}
    assert len(keys) == len(changes)
    assert utilization.peak_key(small(batch_size=7), devices, run) in keys


@pytest.mark.parametrize(
    "text",
    ["", "{", "null", "[1.5e11]", "\udcff", "0.0", "-1.0", '"1"', "true", "NaN", "1e999"],
)
def test_what_is_damaged_or_foreign_is_no_peak_and_is_replaced(folder, text):
    folder.mkdir()
    (folder / f"{KEY}.json").write_text(text, errors="surrogateescape")
    assert utilization.read(KEY) is None
    utilization.write(KEY, 1.5e11)
    assert utilization.read(KEY) == 1.5e11


def link(file: Path) -> None:
    (file.parent / "elsewhere").write_text("1.5e11")
    file.symlink_to("elsewhere")


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, link], ids=["folder", "FIFO", "link"])
def test_what_is_no_file_is_no_peak(folder, make, capsys):
    folder.mkdir()
    make(folder / f"{KEY}.json")
    assert utilization.read(KEY) is None
    assert "the kept peak cannot be used, and is measured again: " in capsys.readouterr().err


def test_where_nothing_can_be_kept_it_is_said(folder, capsys):
    folder.write_text("a file in the way")
    utilization.write(KEY, 1.5e11)
    assert "the peak cannot be kept: " in capsys.readouterr().err
    assert utilization.read(KEY) is None


def test_a_user_without_a_home_measures_each_time(monkeypatch, capsys):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("SCALEMARK_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    utilization.write(KEY, 1.5e11)
    assert utilization.read(KEY) is None
    assert capsys.readouterr().err.count("Could not determine home directory.") == 2
