"""Turns the end of a program into the outcome of its trial, with the line that says why."""

from __future__ import annotations

import errno
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from signal import Signals

from command.measuring import NO_NUMBER
from command.watch import ProgramEnd
from scalemark.host.memory import num_kernel_kills, other_limit, says_so
from scalemark.readers.log_text import named_rank
from scalemark.records.measurement import AttemptResult
from scalemark.records.outcomes import LAST_LINES, Outcome
from scalemark.records.trial import TrialSpec
from scalemark.text.untrusted import quoted, without_secrets

_ERROR = re.compile(  # of a line without what a launcher puts before it
    r"^(?:\w[\w.\d]*:? )?[\w.]*(?:Error|Exception|Interrupt)\b|[Ff]atal|FATAL"
    r"|\berror:\s+(?![\d.])|\bCUDA (?:error|failure)|\bNCCL (?:error|failure)"
    r"|noticed that process rank \d+ .* exited on signal|Segmentation fault"
)
_OF_LAUNCHERS = re.compile(
    r"ChildFailedError|CalledProcessError|ProcessExitedException|Horovod detected|SignalException"
    r"|^(?:srun|slurmstepd|mpirun|prterun): error"
)
_SAYS_LITTLE = re.compile(  # what is not the error, or stands around it
    r"^(?:srun|slurmstepd): .*(?:CANCELLED|Terminated$)|ChildFailedError:\s*$|^\W*$"
    r"|^Exception (?:raised from|ignored in)|^(?:Exception|Error)s? in |HYDRA_FULL_ERROR"
    r"|^    \w+[:=]"
)
_CONSEQUENCES = re.compile(
    r"Connection (?:closed|reset) by (?:remote )?peer|[Bb]roken pipe|BrokenPipeError"
    r"|ncclRemoteError|remote process (?:exited|exiting)|failed to recv, got 0 bytes"
)
_TRACEBACK = "Traceback (most recent call last):"
_IGNORED = "Exception ignored in"
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?::\s.*)?")
_SUMMARY = "Root Cause (first observed failure):"  # of torchrun, with these lines below it
_RANK = re.compile(r"^ *rank +: (\d+) ")
_EXIT_CODE = re.compile(r"^ *exitcode +: (-?\d+) ")
_RANKS = (  # that failed first, as mpirun and srun say
    re.compile(r"^\s*Process name: \[\[\d+,\d+\],(\d+)\]"),
    re.compile(r"^srun: error: \S+ task (\d+): "),
)


def last_error(lines: Sequence[str]) -> str:
    """Return the last line that looks like an error of the program, else the last one.

    Where a launcher names the rank that failed first, its lines come before those of others. An
    error without a text is shown with the line above it.
    """
    texts = [named_rank(line)[1] for line in lines]
    errors = _errors(texts)
    own = [place for place in errors if not _OF_LAUNCHERS.search(texts[place])]
    causes = [place for place in own if not _CONSEQUENCES.search(texts[place])]
    rank = _after_summary(lines, _RANK) or _rank_by(lines)
    of_rank = [place for place in own if rank and named_rank(lines[place])[0] == int(rank)]
    others = [place for place, text in enumerate(texts) if not _SAYS_LITTLE.search(text)]
    for places in (of_rank, causes, own, errors, others):
        if places:
            place = places[-1]
            is_bare = place > 0 and re.fullmatch(r"[\w.]+:?\s*", texts[place])
            above = texts[place - 1].strip() if is_bare and places is not others else ""
            return f"{lines[place]} ({above})" if above else lines[place]
    return ""


def _errors(texts: Sequence[str]) -> list[int]:
    """Return which lines tell of errors: by their words, or as the end of a traceback."""
    errors: list[int] = []
    in_traceback = is_ignored = False
    for place, text in enumerate(texts):
        if text.startswith(_IGNORED):
            is_ignored = True
        elif text.startswith(_TRACEBACK):
            in_traceback = True
        elif in_traceback and not text.startswith(" ") and _RAISED.fullmatch(text):
            if not is_ignored:
                errors.append(place)
            in_traceback = is_ignored = False
        elif _ERROR.search(text) and not _SAYS_LITTLE.search(text):
            errors.append(place)
    return errors


def ended_rank(lines: Sequence[str]) -> str:
    """Say which rank a signal has ended first, as torchrun tells; empty where none was."""
    exit_code = int(_after_summary(lines, _EXIT_CODE) or 0)
    if -exit_code not in set(Signals):
        return ""
    return f"rank {_after_summary(lines, _RANK)} was ended by {Signals(-exit_code).name}"


def _after_summary(lines: Sequence[str], pattern: re.Pattern[str]) -> str:
    if _SUMMARY not in lines:
        return ""
    for line in lines[lines.index(_SUMMARY) :]:
        match = pattern.match(line)
        if match:
            return match[1]
    return ""


def _rank_by(lines: Sequence[str]) -> str:
    for line in lines:
        for pattern in _RANKS:
            match = pattern.match(line)
            if match:
                return match[1]
    return ""


NO_FORMAT = errno.ENOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """The end of a program, by a line that it printed."""

    outcome: Outcome
    meaning: str
    line: str


_OUT_OF_GPU_MEMORY = "out of GPU memory; try a smaller batch"
_KNOWN: tuple[tuple[Outcome, str, str], ...] = (  # what a line means; the first that fits counts
    (
        Outcome.OUT_OF_MEMORY,
        _OUT_OF_GPU_MEMORY,  # of PyTorch
        r"torch\.(?:cuda\.)?OutOfMemoryError|(?:CUDA|HIP|XPU|MPS backend) out of memory"
        r"|(?:CUDA|HIP|XPU) error: out of memory",
    ),
    (
        Outcome.OUT_OF_MEMORY,
        _OUT_OF_GPU_MEMORY,
        # libraries of CUDA, as any framework repeats them; a lone CUDA_ERROR_OUT_OF_MEMORY may be
        # a vain try of an allocator that goes on with less
        r"cudaErrorMemoryAllocation|CU(?:DNN|BLAS|SPARSE)_STATUS_ALLOC_FAILED"
        r"|Cuda failure (?:\d+ )?'out of memory'"
        r"|^(?!.*failed to allocate).*CUDA_ERROR_OUT_OF_MEMORY",
    ),
    (
        Outcome.OUT_OF_MEMORY,
        "out of memory; try a smaller batch",  # of JAX and TensorFlow
        r"RESOURCE_EXHAUSTED.*(?i:memory|allocat)|ResourceExhaustedError"
        r"|OOM when allocating tensor",
    ),
    # PyTorch's data loader names the signal of a worker, a shell and torchrun the one of a program
    (
        Outcome.OUT_OF_MEMORY,
        "a worker of the data loader was killed, likely for lack of host memory; try fewer workers",
        r"DataLoader worker .* is killed by signal: Killed",
    ),
    (
        Outcome.OUT_OF_MEMORY,
        "out of shared memory; give /dev/shm more (docker run --shm-size)",
        r"DataLoader worker .*[Bb]us error|insufficient shared memory \(shm\)",
    ),
    (
        Outcome.OUT_OF_MEMORY,  # by Slurm, the kernel, Kubernetes, Ray
        "killed for lack of host memory; try a smaller batch, fewer workers, or ask for more",
        r"oom[-_]kill event|OOM Killed|OOMKilled|Out of memory: Killed process"
        r"|killed due to the node running low on memory",
    ),
    (
        Outcome.UNSUPPORTED,
        "a shared library is missing",
        r"(?:ImportError|OSError): .*cannot open shared object file"
        r"|error while loading shared libraries: ",
    ),
    (
        Outcome.UNSUPPORTED,
        "two of its packages do not fit each other; look at their versions",
        r"^ImportError: (?:cannot import name|.*undefined symbol|.*version `)",
    ),
    (
        Outcome.UNSUPPORTED,
        "a module is missing; install it for the interpreter that runs the program",
        r"^(?:ModuleNotFoundError|ImportError): .+|^\S*python\S*: No module named "
        r"|Error while finding module specification for ",
    ),
    (
        Outcome.UNSUPPORTED,
        "it names a file that is not there",
        r"can't open file '.+': \[Errno 2\]",
    ),
    (
        Outcome.UNSUPPORTED,
        "its framework is built without these GPUs; install the build for them",
        r"Torch not compiled with CUDA enabled|no kernel image is available for execution",
    ),
    (
        Outcome.UNSUPPORTED,
        "the GPU driver is missing, or too old for its framework",
        r"Found no NVIDIA driver on your system|The NVIDIA driver on your system is too old"
        r"|CUDA driver version is insufficient for CUDA runtime version"
        r"|RuntimeError: .*system has unsupported display driver",
    ),
    (
        Outcome.UNSUPPORTED,
        "it asks for a GPU that it does not see; a trial has {num_gpus} of them, numbered from 0",
        r"RuntimeError: No CUDA GPUs are available|CUDA error: invalid device ordinal"
        r"|RuntimeError: Unable to initialize backend '(?:cuda|gpu|rocm)'",
    ),
    (
        Outcome.FAILED,
        "a GPU has a fault; look at nvidia-smi -q and dmesg",
        r"uncorrectable (?:NVLink|ECC) error|GPU is lost|GPU has fallen off the bus",
    ),
    (
        Outcome.FAILED,
        "another process has the GPU for itself; end it, or take another GPU",
        r"CUDA-capable device\(s\) is/are busy or unavailable",
    ),
    (
        Outcome.FAILED,
        "its port is taken; let the command use {free_port}",
        r"EADDRINUSE|[Aa]ddress already in use",
    ),
    (
        Outcome.HUNG,
        "a collective of NCCL did not end in time: one rank waited for another",
        r"Watchdog caught collective operation timeout|ProcessGroupNCCL.*[Tt]imed? ?out"
        r"|NCCL.*(?:watchdog|WorkNCCL).*(?:timeout|timed out|got stuck)",
    ),
    (
        Outcome.HUNG,
        "the ranks did not meet in time",
        r"(?:Gloo|gloo|TCPStore|c10d|[Rr]endezvous).*(?:[Tt]imed? ?out|[Tt]imeout)"
        r"|client socket has timed out|DistStoreError|RendezvousTimeoutError"
        r"|(?<!StatusCode\.)\bDEADLINE_EXCEEDED: ",
    ),
)


def reason(lines: Sequence[str]) -> Reason | None:
    """Return why a program ended, by the last of its lines that tells; None where none does."""
    for line in reversed(lines):
        if says_so(line):
            meaning = "out of host memory; try a smaller batch, or a higher limit (ulimit -v)"
            return Reason(outcome=Outcome.OUT_OF_MEMORY, meaning=meaning, line=line)
    for outcome, meaning, pattern in _KNOWN:
        for line in reversed(lines):
            if re.search(pattern, named_rank(line)[1]):
                return Reason(outcome=outcome, meaning=meaning, line=line)
    return None


HOW_TO_READ = "`scalemark read LOG` says what reads its log.txt"
SHOWN_LINES = 20
_LONGEST_LINE = 90  # shown in a message, which holds 2,000 characters
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127  # exit codes of a shell
_BY_SIGNAL = 128  # of a shell, plus the signal's number


def ended(outcome: Outcome, message: str) -> AttemptResult:
    """Return a result without a measurement."""
    return AttemptResult(
        outcome=outcome, message=without_secrets(message), measurement=None, op_placement={}
    )


class CrashedError(Exception):
    """Raised for a program that a signal has ended, and no line says why: it may end well when it
    is tried again.
    """


def failed(end: ProgramEnd) -> AttemptResult | None:
    """Return the result of a program that did not end well; None for exit code 0.

    Raises CrashedError.
    """
    if end.was_told_to:
        return ended(Outcome.INTERRUPTED, "interrupted")
    if end.exit_code == 0:
        return None
    how = _how(end.exit_code)
    if end.num_kernel_kills < num_kernel_kills():
        message = f"killed by the kernel for lack of host memory ({how})"
        return ended(Outcome.OUT_OF_MEMORY, f"{message}{_and_left(end)}")
    why = reason(end.last_lines)
    if why:
        line = quoted(why.line.strip(), 300)
        return ended(why.outcome, f"{why.meaning} ({how}): {line}{_and_left(end)}")
    last = quoted(last_error(end.last_lines).strip(), 300)
    if end.exit_code in (_NOT_FOUND, _NOT_EXECUTABLE):
        return ended(Outcome.UNSUPPORTED, f"a shell found no such program ({how}): {last}")
    rank = ended_rank(end.last_lines)
    if rank:
        how = f"{rank} ({how})"
    if not end.last_lines:
        last = "it printed nothing"
    message = f"{how}{f': {last}' if last else ''}{_and_left(end)}"
    if rank or _signal_of(end.exit_code):
        raise CrashedError(message)
    return ended(Outcome.FAILED, message)


def nothing(problem: str, spec: TrialSpec, end: ProgramEnd) -> AttemptResult:
    """Return the result of a program that ended well without a number that counts."""
    hint = ""
    if problem == NO_NUMBER and end.last_lines:
        hint = f"; {HOW_TO_READ}"
    message = f"read={quoted(spec.read, 200)}: {problem}{hint}{_and_left(end)}."
    return ended(Outcome.INVALID, f"{message}\n{_last_lines(end.last_lines)}")


def noted(end: ProgramEnd, spec: TrialSpec, num_gpus_here: int) -> str:
    """Say what is to know of a program that was measured; empty where all is as it should be."""
    said = [_left_behind(end)]
    if 0 < num_gpus_here < spec.num_gpus:
        said.append(
            f"clocks and neighbors of GPUs were watched on the first of {spec.hosts} hosts only"
        )
    return "; ".join(filter(None, said))


def _left_behind(end: ProgramEnd) -> str:
    """Say what had to be ended after the program; empty where nothing had."""
    if not end.left_behind:
        return ""
    count, first = len(end.left_behind), quoted(end.left_behind[0], 80)
    were = "1 process that it had left running was" if count == 1 else f"{count} processes that it"
    rest = "" if count == 1 else " had left running were"
    return f"{were}{rest} ended ({first}); start programs in the foreground"


def _and_left(end: ProgramEnd) -> str:
    said = _left_behind(end)
    return f"; {said}" if said else ""


def _how(exit_code: int) -> str:
    if by := _signal_of(exit_code):
        remedy = other_limit(by.name)
        return f"the program was ended by {by.name}{f': {remedy}' if remedy else ''}"
    return f"the program ended with exit code {exit_code}"


def _signal_of(exit_code: int) -> signal.Signals | None:
    """Return the signal that ended a program, as the kernel or a shell tells it."""
    number = -exit_code
    if exit_code > _BY_SIGNAL:
        number = exit_code - _BY_SIGNAL
    if number not in set(signal.Signals):
        return None
    return signal.Signals(number)


def _last_lines(lines: Sequence[str]) -> str:
    if not lines:
        return "It printed nothing."
    shown = [quoted(line, _LONGEST_LINE) for line in lines[-SHOWN_LINES:]]
    return "\n".join([LAST_LINES, *shown])
