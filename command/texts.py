"""Recognizes what well-known lines of training programs say about their end.

A line to add: its pattern, its outcome, and what it means. The first that matches counts, so what
follows from another stands below it: a rank that lacks memory lets others wait until their time is
out. A pattern is looked for in the last lines of a program that did not end well.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from dataclasses import dataclass

from command.root_cause import PREFIX
from scalemark.host.host_memory import says_so
from scalemark.records.outcomes import Outcome

NO_FORMAT = errno.ENOEXEC

_SMALLER = "try a smaller batch"


@dataclass(frozen=True, slots=True)
class Known:
    """A text that tells why a program ended."""

    pattern: re.Pattern[str]
    outcome: Outcome
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """The end of a program, by a line that it printed."""

    outcome: Outcome
    meaning: str
    line: str


def _known(pattern: str, outcome: Outcome, meaning: str) -> Known:
    return Known(re.compile(pattern), outcome, meaning)


_LACKS_MEMORY: tuple[Known, ...] = (
    # PyTorch
    _known(
        r"torch\.(?:cuda\.)?OutOfMemoryError|(?:CUDA|HIP|XPU|MPS backend) out of memory"
        r"|(?:CUDA|HIP|XPU) error: out of memory",
        Outcome.OUT_OF_MEMORY,
        f"out of GPU memory; {_SMALLER}",
    ),
    # libraries of CUDA, as any framework repeats them; a lone CUDA_ERROR_OUT_OF_MEMORY may be a
    # vain try of an allocator that goes on with less
    _known(
        r"cudaErrorMemoryAllocation|CU(?:DNN|BLAS|SPARSE)_STATUS_ALLOC_FAILED"
        r"|Cuda failure (?:\d+ )?'out of memory'"
        r"|^(?!.*failed to allocate).*CUDA_ERROR_OUT_OF_MEMORY",
        Outcome.OUT_OF_MEMORY,
        f"out of GPU memory; {_SMALLER}",
    ),
    # JAX and TensorFlow
    _known(
        r"RESOURCE_EXHAUSTED.*(?i:memory|allocat)|ResourceExhaustedError"
        r"|OOM when allocating tensor",
        Outcome.OUT_OF_MEMORY,
        f"out of memory; {_SMALLER}",
    ),
    # PyTorch's data loader names the signal of a worker, a shell and torchrun the one of a program
    _known(
        r"DataLoader worker .* is killed by signal: Killed",
        Outcome.OUT_OF_MEMORY,
        "a worker of the data loader was killed, likely for lack of host memory; try fewer workers",
    ),
    _known(
        r"DataLoader worker .*[Bb]us error|insufficient shared memory \(shm\)",
        Outcome.OUT_OF_MEMORY,
        "out of shared memory; give /dev/shm more (docker run --shm-size)",
    ),
    # Slurm, the kernel, Kubernetes, Ray
    _known(
        r"oom[-_]kill event|OOM Killed|OOMKilled|Out of memory: Killed process"
        r"|killed due to the node running low on memory",
        Outcome.OUT_OF_MEMORY,
        "killed for lack of host memory; try a smaller batch, fewer workers, or ask for more",
    ),
)

_CANNOT_RUN: tuple[Known, ...] = (
    _known(
        r"(?:ImportError|OSError): .*cannot open shared object file"
        r"|error while loading shared libraries: ",
        Outcome.UNSUPPORTED,
        "a shared library is missing",
    ),
    _known(
        PREFIX + r"ImportError: (?:cannot import name|.*undefined symbol|.*version `)",
        Outcome.UNSUPPORTED,
        "two of its packages do not fit each other; look at their versions",
    ),
    _known(
        PREFIX + r"(?:ModuleNotFoundError|ImportError): .+|^\S*python\S*: No module named "
        r"|Error while finding module specification for ",
        Outcome.UNSUPPORTED,
        "a module is missing; install it for the interpreter that runs the program",
    ),
    _known(
        r"can't open file '.+': \[Errno 2\]",
        Outcome.UNSUPPORTED,
        "it names a file that is not there",
    ),
    _known(
        r"Torch not compiled with CUDA enabled|no kernel image is available for execution",
        Outcome.UNSUPPORTED,
        "its framework is built without these GPUs; install the build for them",
    ),
    _known(
        r"Found no NVIDIA driver on your system|The NVIDIA driver on your system is too old"
        r"|CUDA driver version is insufficient for CUDA runtime version"
        r"|RuntimeError: .*system has unsupported display driver",
        Outcome.UNSUPPORTED,
        "the GPU driver is missing, or too old for its framework",
    ),
    _known(
        r"RuntimeError: No CUDA GPUs are available|CUDA error: invalid device ordinal"
        r"|RuntimeError: Unable to initialize backend '(?:cuda|gpu|rocm)'",
        Outcome.UNSUPPORTED,
        "it asks for a GPU that it does not see; a trial has {num_gpus} of them, numbered from 0",
    ),
)

_FAILED: tuple[Known, ...] = (
    _known(
        r"uncorrectable (?:NVLink|ECC) error|GPU is lost|GPU has fallen off the bus",
        Outcome.FAILED,
        "a GPU has a fault; look at nvidia-smi -q and dmesg",
    ),
    _known(
        r"CUDA-capable device\(s\) is/are busy or unavailable",
        Outcome.FAILED,
        "another process has the GPU for itself; end it, or take another GPU",
    ),
    _known(
        r"EADDRINUSE|[Aa]ddress already in use",
        Outcome.FAILED,
        "its port is taken; let the command use {free_port}",
    ),
)

_WAITED: tuple[Known, ...] = (
    _known(
        r"Watchdog caught collective operation timeout|ProcessGroupNCCL.*[Tt]imed? ?out"
        r"|NCCL.*(?:watchdog|WorkNCCL).*(?:timeout|timed out|got stuck)",
        Outcome.HUNG,
        "a collective of NCCL did not end in time: one rank waited for another",
    ),
    _known(
        r"(?:Gloo|gloo|TCPStore|c10d|[Rr]endezvous).*(?:[Tt]imed? ?out|[Tt]imeout)"
        r"|client socket has timed out|DistStoreError|RendezvousTimeoutError"
        r"|(?<!StatusCode\.)\bDEADLINE_EXCEEDED: ",
        Outcome.HUNG,
        "the ranks did not meet in time",
    ),
)

KNOWN = (*_LACKS_MEMORY, *_CANNOT_RUN, *_FAILED, *_WAITED)


def reason(lines: Sequence[str]) -> Reason | None:
    """Return why a program ended, by the last of its lines that tells; None where none does."""
    for line in reversed(lines):
        if says_so(line):
            meaning = "out of host memory; try a smaller batch, or a higher limit (ulimit -v)"
            return Reason(outcome=Outcome.OUT_OF_MEMORY, meaning=meaning, line=line)
    for known in KNOWN:
        for line in reversed(lines):
            if known.pattern.search(line):
                return Reason(outcome=known.outcome, meaning=known.meaning, line=line)
    return None
