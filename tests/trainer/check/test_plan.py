"""Every process of the self-check is started with the variables that its trials need."""

import pytest

from trainer.selfcheck import Bench, Mode, Part, parts

CACHE = {
    "CUDA_CACHE_PATH": "/cache/cuda",
    "CUDA_CACHE_MAXSIZE": "4294967296",
    "NCCL_DEBUG": "WARN",
}
ROOM = {"TF_DEVICE_MIN_SYS_MEMORY_IN_MB": "2304"}
PERSISTENT = {"TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT": "1"}
FOUR_GPUS = {"kind": "gpu", "num_replicas": 4}


def mode(variable_update: str, all_reduce: str) -> Mode:
    return Mode(
        variable_update=variable_update, local_parameter_device="gpu", all_reduce=all_reduce
    )


@pytest.mark.parametrize(
    ("asked", "bench", "wanted"),
    [
        (
            mode("replicated", "none"),
            {"kind": "cpu_device", "num_replicas": 2},
            [(("fp32", "bf16", "fp16", "tf32"), {})],
        ),
        (
            mode("replicated", "nccl"),
            FOUR_GPUS,
            [(("fp32", "tf32"), CACHE | ROOM), (("bf16", "fp16"), CACHE | ROOM | PERSISTENT)],
        ),
        (
            mode("replicated", "none"),
            {"kind": "logical_gpu", "num_replicas": 4},
            [(("fp32", "tf32"), CACHE), (("bf16", "fp16"), CACHE | PERSISTENT)],
        ),
        (mode("process_per_gpu", "nccl"), FOUR_GPUS, [(("fp32",), CACHE | ROOM)]),
    ],
)
def test_checks_of_one_environment_share_a_process(asked, bench, wanted):
    found = list(parts(asked, Bench(**bench), {"SCALEMARK_CACHE": "/cache"}))
    assert [(part.precisions, variables) for part, variables in found] == wanted
    for part, _ in found:
        assert Part.from_json(part.to_json()) == part
        assert (part.mode, part.bench) == (asked, Bench(**bench))


def test_variables_of_the_users_own_are_left_to_processes_as_they_are():
    own = {"CUDA_CACHE_PATH": "/mine", "TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT": "0"}
    ((part, variables),) = parts(
        mode("replicated", "none"), Bench(kind="logical_gpu", num_replicas=2), own
    )
    assert (len(part.precisions), variables) == (4, {"NCCL_DEBUG": "WARN"})
