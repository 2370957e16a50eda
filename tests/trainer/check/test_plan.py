"""The ranks of the self-check are started with the variables that its trials need."""

import pytest

from trainer.selfcheck import Bench, modes, variables

USUAL = {
    "PYTHONPATH": "/checkout",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_ENABLE_ONEDNN_OPTS": "1",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
}
CACHE = {
    "CUDA_CACHE_PATH": "/cache/cuda",
    "CUDA_CACHE_MAXSIZE": "4294967296",
    "NCCL_DEBUG": "WARN",
}
ROOM = {"TF_DEVICE_MIN_SYS_MEMORY_IN_MB": "2304"}
PERSISTENT = {"TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT": "1"}


@pytest.fixture(autouse=True)
def checkout(monkeypatch):
    monkeypatch.setattr("trainer.selfcheck.python_path", lambda _: "/checkout")


@pytest.mark.parametrize(
    ("mode", "kind", "wanted"),
    [
        ("replicated_none", "cpu_device", USUAL),
        ("replicated_nccl", "gpu", USUAL | CACHE | ROOM | PERSISTENT),
        ("replicated_none", "logical_gpu", USUAL | CACHE | PERSISTENT),
        ("process_per_gpu_nccl", "gpu", USUAL | CACHE | ROOM | PERSISTENT),
    ],
)
def test_one_environment_serves_every_precision(mode, kind, wanted):
    spec = modes(Bench(kind=kind, num_replicas=4))[mode]
    found = variables(spec, {"SCALEMARK_CACHE": "/cache"})
    assert found == wanted


def test_variables_of_the_users_own_are_left_to_processes_as_they_are():
    own = {
        "CUDA_CACHE_PATH": "/mine",
        "TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT": "0",
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "TF_FORCE_GPU_ALLOW_GROWTH": "false",
        "TF_CPP_MIN_LOG_LEVEL": "0",
    }
    spec = modes(Bench(kind="logical_gpu", num_replicas=2))["replicated_none"]
    assert variables(spec, own) == {"NCCL_DEBUG": "WARN", "PYTHONPATH": "/checkout"}
