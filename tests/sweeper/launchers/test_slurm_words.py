"""What `sinfo` prints is read as Slurm means it."""

import math

import pytest

from sweeper import SweepRefusedError
from sweeper.launchers import slurm
from sweeper.launchers.slurm import minutes, num_gpus
from tests.conf.test_resolve import config


@pytest.mark.parametrize(
    ("gres", "num"),
    [("gpu:8", 8), ("gpu:a100:8(S:0-1),nvme:1", 8), ("gpu", 1), ("(null)", 0), ("", 0)],
)
def test_gpus_are_counted_among_generic_resources(gres, num):
    assert num_gpus(gres) == num


def test_inside_a_job_its_gpus_count_not_those_of_the_node(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "2")
    rows = [["n1", "p", "idle", "1:00", "gpu:8"], ["n2", "p", "idle", "1:00", "gpu:8"]]
    monkeypatch.setattr(slurm, "_nodes", lambda of: rows)
    monkeypatch.setattr(slurm, "PROGRAMS", ())
    launcher = slurm.Launcher.__new__(slurm.Launcher)
    launcher.config = config("launcher=slurm")
    launcher.config.hardware.device_kind = "gpu"
    assert launcher.find_hosts() == (["n1", "n2"], 2)


def test_a_cluster_without_a_default_partition_wants_one_named(monkeypatch):
    monkeypatch.delenv("SLURM_JOB_NODELIST", raising=False)
    monkeypatch.setattr(slurm, "_nodes", lambda of: [["n1", "p", "idle", "1:00", "gpu:8"]])
    monkeypatch.setattr(slurm, "PROGRAMS", ())
    launcher = slurm.Launcher.__new__(slurm.Launcher)
    launcher.config = config("launcher=slurm")
    said = "partition=null: the cluster has no default partition; there are p"
    with pytest.raises(SweepRefusedError, match=said):
        launcher.find_hosts()


@pytest.mark.parametrize(
    ("text", "wanted"), [("1:00:00", 60), ("2-00:30:00", 2910), ("infinite", math.inf)]
)
def test_limits_of_time_are_minutes(text, wanted):
    assert minutes(text) == wanted
