"""Workers of one machine share its GPUs, and an empty mask hides them all."""

from dataclasses import replace

import pytest

from scalemark.records.attempt import Rank
from scalemark.records.machine import DeviceKind
from scalemark.run_folder import RunFolder
from tests.specs import small
from trainer import UnsupportedTrialError, devices, own_rank, supervision

WORKER_1 = Rank(job_name="worker", task_index=1)


@pytest.mark.parametrize(
    ("variables", "shares"),
    [
        ({}, ["0,1", "2,3"]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-c,GPU-d,GPU-a,GPU-b,GPU-e"}, ["GPU-c,GPU-d", "GPU-a,GPU-b"]),
        ({"CUDA_VISIBLE_DEVICES": "7"}, ["7", ""]),
        ({"CUDA_VISIBLE_DEVICES": ""}, ["", ""]),
    ],
)
def test_each_worker_has_the_next_of_the_gpus_that_may_be_seen(variables, shares):
    assert [own_rank.visible_devices(worker, 2, 2, variables) for worker in range(2)] == shares


def test_a_mask_that_hides_all_hides_all(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(
        UnsupportedTrialError, match="TensorFlow sees 0 GPUs where the trial wants 2"
    ):
        devices.claim(DeviceKind.GPU, 2)


def test_ranks_have_the_same_share_and_parameter_servers_none(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    spec = small(
        device_kind=DeviceKind.GPU, num_gpus=4, hosts=2, variable_update="distributed_replicated"
    )
    job = supervision.RanksJob(spec=spec, folder=RunFolder(tmp_path), jobs=("worker", "ps"))
    assert job.visible_devices(WORKER_1) == "6,7"
    assert job.visible_devices(Rank(job_name="ps", task_index=1)) == ""
    one_for_all = replace(job, cuts_one_gpu=True)
    assert one_for_all.visible_devices(WORKER_1) == "4"
