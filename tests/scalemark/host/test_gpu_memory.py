"""A lack of a GPU's memory is known by an error, or by what is logged beside it."""

import pytest

from scalemark.host.processes import GAVE_UP, cause_of_nccl, is_lack_of_gpu_memory

NCCL = "NCCL: unhandled cuda error. Set NCCL_DEBUG=WARN for detail."
NO_ALGORITHM = "No algorithm worked!  Error messages:\n  Unknown: CUDNN_STATUS_NOT_SUPPORTED"
TRIED = (
    "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.41GiB with freed_by_count=0. "
    "The caller indicates that this is not a failure"
)


@pytest.mark.parametrize(
    ("error", "log", "is_lack"),
    [
        ("CUBLAS_STATUS_ALLOC_FAILED", "", True),
        (NCCL, "NCCL WARN Cuda failure 'out of memory'", True),
        (NCCL, "include/alloc.h:228 NCCL WARN Cuda failure 2 'out of memory'", True),
        (NCCL, "NCCL WARN Cuda failure 217 'peer access is not supported'", False),
        (NCCL, TRIED, False),
        (NCCL, "", False),
        (NO_ALGORITHM, "", False),
        (NO_ALGORITHM, TRIED, True),
        (NO_ALGORITHM, "gpu_async_0 cuMemAllocAsync failed to allocate 9 bytes", True),
        ("No algorithm worked!\n  CUDNN failed to allocate the scratch space", "", True),
        (
            "No BLAS for stream.",
            "failed to create cublas handle: the resource allocation failed",
            True,
        ),
        (
            "No BLAS for stream.",
            "failed to create cublas handle: the library was not initialized",
            False,
        ),
        ("Matrix size-incompatible", TRIED, False),
    ],
)
def test_errors_of_many_causes_are_judged_by_the_log(error, log, is_lack):
    """A bug: whatever CUDA refused NCCL was out of memory, and larger trials were skipped."""
    assert is_lack_of_gpu_memory(error, log) is is_lack


def test_what_cuda_refused_nccl_is_found_in_the_log():
    log = "x NCCL WARN Cuda failure 'invalid argument'\nx NCCL WARN commDestroySync: error 1\n"
    assert cause_of_nccl(NCCL, log) == "Cuda failure 'invalid argument'"
    assert cause_of_nccl(NCCL, "") == cause_of_nccl(NO_ALGORITHM, log) == ""


def test_an_attempt_that_may_fail_is_no_giving_up():
    assert not GAVE_UP.search(TRIED)
