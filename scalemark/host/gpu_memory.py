"""Recognizes errors, and lines of a log, that are a lack of a GPU's memory. Standard library only.

Words of TensorFlow 2.21, of CUDA's libraries, and of NCCL's checks.h, some of whose versions give a
number before the text: `Cuda failure 2 'out of memory'`.
"""

from __future__ import annotations

import re

GAVE_UP = re.compile(
    # "(rounded to" tells it from an attempt of which "the caller indicates that this is not a
    # failure"
    r"Allocator \(GPU_\d+_bfc\) ran out of memory trying to allocate [\d.]+\w+(?= \(rounded to)"
    # TF_GPU_ALLOCATOR=cuda_malloc_async logs such attempts as it logs failures; this is of an op
    r"|OOM when allocating tensor with shape\[[\d,]*\] and type \w+ on \S+"
    r" by allocator gpu_async_\d+"
)
"""The line of a log after which the op that wanted memory has failed."""

# libraries of CUDA raise no ResourceExhaustedError; these are their own words, and TensorFlow's of
# a copy to a GPU without room
_SURE = re.compile(
    r"CUDA_ERROR_OUT_OF_MEMORY|CUDNN_STATUS_ALLOC_FAILED|CUBLAS_STATUS_ALLOC_FAILED"
    r"|CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED|Dst tensor is not initialized"
)
# error -> the line that has to be beside it: NCCL says the first of whatever CUDA refuses,
# TensorFlow the second of convolutions that fail for any reason, and the third of cuBLAS, which
# needs some memory itself
_DOUBTFUL = {
    re.compile(r"NCCL: unhandled cuda error"): re.compile(r"Cuda failure (?:\d+ )?'out of memory'"),
    re.compile(r"No algorithm worked"): re.compile(
        r"\(GPU_\d+_bfc\) ran out of memory trying to allocate"
        r"|cuMemAllocAsync failed to allocate|failed to allocate the scratch space"
    ),
    re.compile(r"No BLAS for stream"): re.compile(
        r"failed to create cublas handle: the resource allocation failed"
    ),
}
_NCCL_CAUSE = re.compile(r"NCCL WARN (Cuda failure [^\n]*)")


def is_lack_of_gpu_memory(error: str, log: str) -> bool:
    """Return whether an error is one, by its text and by what the process has logged."""
    if _SURE.search(error):
        return True
    for sign, beside in _DOUBTFUL.items():
        if sign.search(error) and beside.search(f"{error}\n{log}"):
            return True
    return False


def cause_of_nccl(error: str, log: str) -> str:
    """Return what CUDA refused NCCL, which its error leaves out; empty where nothing tells it."""
    found = _NCCL_CAUSE.findall(log) if "NCCL: " in error else []
    return found[-1] if found else ""
