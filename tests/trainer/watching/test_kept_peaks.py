"""A peak is kept for the same device and software; what is damaged or of another is not believed."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from trainer.watching import utilization
from trainer.watching.utilization import KeptPeak, PeakOf

OF = PeakOf(
    machine="0123456789abcdef",
    device="cpu_device",
    num_cores=2,
    num_intra_threads=0,
    num_inter_threads=0,
    precision="fp32",
    software="fedcba9876543210",
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where peaks are kept."""
    monkeypatch.setenv("SCALEMARK_CACHE", str(tmp_path))
    return tmp_path / "peaks"


def test_a_peak_is_kept(folder):
    assert utilization.read(OF) is None
    utilization.write(OF, 1.5e11)
    utilization.write(OF, 2.5e11)
    assert utilization.read(OF) == 2.5e11
    assert [file.name for file in folder.iterdir()] == [OF.file_name]


@pytest.mark.parametrize(
    "change",
    [
        {"machine": "other"},
        {"device": "gpu NVIDIA H100"},
        {"num_cores": 4},
        {"num_intra_threads": 1},
        {"num_inter_threads": 1},
        {"precision": "bf16"},
        {"software": "newer"},
    ],
    ids=str,
)
def test_anything_else_has_a_peak_of_its_own(folder, change):
    utilization.write(OF, 1.5e11)
    assert utilization.read(replace(OF, **change)) is None


KEPT = json.loads(KeptPeak(of=OF, flops_per_s=1.0).to_json())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[1.5e11]",
        '{"flops_per_s": 1.5e11}',
        "\udcff",
        json.dumps(KEPT | {"of": KEPT["of"] | {"precision": "bf16"}}),
        *(json.dumps(KEPT | {"flops_per_s": rate}) for rate in (0, -1.0, "1", None, True)),
        json.dumps(KEPT).replace("1.0", "NaN"),
        json.dumps(KEPT).replace("1.0", "1e999"),
        json.dumps(KEPT | {"more": 1}),
        " " * 2**17,
    ],
)
def test_what_is_damaged_or_foreign_is_no_peak_and_is_replaced(folder, text):
    folder.mkdir()
    (folder / OF.file_name).write_text(text, errors="surrogateescape")
    assert utilization.read(OF) is None
    utilization.write(OF, 1.5e11)
    assert utilization.read(OF) == 1.5e11


def link(file: Path) -> None:
    (file.parent / "elsewhere").write_text(json.dumps(KEPT))
    file.symlink_to("elsewhere")


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, link], ids=["folder", "FIFO", "link"])
def test_what_is_no_file_is_no_peak(folder, make, capsys):
    folder.mkdir()
    make(folder / OF.file_name)
    assert utilization.read(OF) is None
    assert "the kept peak cannot be used, and is measured again: " in capsys.readouterr().err


def test_where_nothing_can_be_kept_it_is_said(folder, capsys):
    folder.write_text("a file in the way")
    utilization.write(OF, 1.5e11)
    assert "the peak cannot be kept: " in capsys.readouterr().err
    assert utilization.read(OF) is None


def test_a_user_without_a_home_measures_each_time(monkeypatch, capsys):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("SCALEMARK_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    utilization.write(OF, 1.5e11)
    assert utilization.read(OF) is None
    assert capsys.readouterr().err.count("Could not determine home directory.") == 2
