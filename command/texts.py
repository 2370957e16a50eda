"""Recognizes what well-known lines of training programs say about their end.

A line to add: its pattern, its outcome, and what it means. The first that matches counts; a pattern
is looked for in the last lines of a program that did not end well.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from dataclasses import dataclass

from scalemark.host.host_memory import OUT_OF_HOST_MEMORY, says_so
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


KNOWN: tuple[Known, ...] = (
    # PyTorch
    _known(
        r"torch\.(?:cuda\.)?OutOfMemoryError|(?:CUDA|HIP|XPU|MPS backend) out of memory"
        r"|CUDA error: out of memory",
        Outcome.OUT_OF_MEMORY,
        f"out of GPU memory; {_SMALLER}",
    ),
    # libraries of CUDA, as any framework repeats them
    _known(
        r"CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation"
        r"|CU(?:DNN|BLAS|SPARSE)_STATUS_ALLOC_FAILED",
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
    _known(
        r"Watchdog caught collective operation timeout|ProcessGroupNCCL.*[Tt]imed? ?out"
        r"|NCCL.*(?:watchdog|WorkNCCL).*(?:timeout|timed out)",
        Outcome.HUNG,
        "a collective of NCCL did not end in time: one rank waited for another",
    ),
    _known(
        r"(?:Gloo|gloo|TCPStore|c10d|[Rr]endezvous).*(?:[Tt]imed? ?out|[Tt]imeout)"
        r"|DistStoreError|RendezvousTimeoutError|DEADLINE_EXCEEDED",
        Outcome.HUNG,
        "the ranks did not meet in time",
    ),
    _known(
        r"^(?:\[rank\d+\]:? ?)?(?:ModuleNotFoundError|ImportError): .+",
        Outcome.UNSUPPORTED,
        "a module is missing; install it for the interpreter that runs the program",
    ),
    _known(
        r"can't open file '.+': \[Errno 2\]|: (?:command )?not found$",
        Outcome.UNSUPPORTED,
        "it names a program or a file that is not there",
    ),
    _known(
        r"error while loading shared libraries: ",
        Outcome.UNSUPPORTED,
        "a shared library is missing",
    ),
)


def reason(lines: Sequence[str]) -> Reason | None:
    """Return why a program ended, by the last of its lines that tells; None where none does."""
    for known in KNOWN:
        for line in reversed(lines):
            if known.pattern.search(line):
                return Reason(outcome=known.outcome, meaning=known.meaning, line=line)
    for line in reversed(lines):
        if says_so(line):
            return Reason(outcome=Outcome.OUT_OF_MEMORY, meaning=OUT_OF_HOST_MEMORY, line=line)
    return None


_ERROR = re.compile(
    r"^(?:\[?\w[\w.\d]*\]?:? )?[\w.]*(?:Error|Exception|Interrupt)\b|[Ff]atal|FATAL"
)


def last_error(lines: Sequence[str]) -> str:
    """Return the last line that looks like an error, else the last one."""
    for line in reversed(lines):
        if _ERROR.search(line):
            return line
    return lines[-1] if lines else ""
