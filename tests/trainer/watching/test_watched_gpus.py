"""Of a trial's GPUs those are watched that are in the machine of the process that measures."""

import pytest

from scalemark.records.attempt import Placement
from tests.specs import small
from trainer.watching.telemetry import watched

ALL = "GPU-c,GPU-d,GPU-a,GPU-b"
OVER_TWO = small(device_kind="gpu", num_gpus=4, hosts=2, variable_update="distributed_replicated")


def given(**changes):
    return Placement(start="fork", devices=(0, 1, 2, 3), visible_devices=ALL, **changes)


def test_of_all_visible_gpus_the_trials_own_are_watched(monkeypatch, capsys):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ALL)
    found = watched(small(device_kind="gpu", num_gpus=2), given())
    assert (list(found.uuids), found.num_wanted) == (["GPU-c", "GPU-d"], 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1")
    assert watched(small(device_kind="gpu", num_gpus=1), None).uuids == ["MIG-1"]
    assert watched(small(num_gpus=1), None).num_wanted == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("mask", "uuids", "lack"),
    [
        ("0,1", [], "2 GPUs: CUDA_VISIBLE_DEVICES names 0,1;"),
        ("GPU-a,1", ["GPU-a"], "1 GPU: CUDA_VISIBLE_DEVICES names GPU-a,1;"),
        (None, [], "2 GPUs: CUDA_VISIBLE_DEVICES names none;"),
    ],
)
def test_gpus_that_cannot_be_watched_are_wanted_and_the_log_says_why(
    mask, uuids, lack, monkeypatch, capsys
):
    """A bug: the verdict referred to a log in which nothing was written."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if mask is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", mask)
    found = watched(small(device_kind="gpu", num_gpus=2), None)
    assert (list(found.uuids), found.num_wanted) == (uuids, 2)
    remedy = "name GPUs by UUID, as nvidia-smi -L lists them"
    assert capsys.readouterr().err == f"no telemetry of {lack} {remedy}\n"


def test_hosts_that_are_processes_of_one_machine_are_watched_together(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-c,GPU-d")  # of worker 0
    found = watched(OVER_TWO, given())
    assert (list(found.uuids), found.num_wanted) == (ALL.split(","), 4)


@pytest.mark.parametrize("placement", [given(hosts=("a", "b"), rank_start="srun"), None])
def test_of_other_hosts_nothing_is_watched_or_wanted(monkeypatch, placement):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-c,GPU-d")
    found = watched(OVER_TWO, placement)
    assert (list(found.uuids), found.num_wanted) == (["GPU-c", "GPU-d"], 2)
