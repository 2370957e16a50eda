"""Identifies and kills processes of this host, and recognizes a lack of memory."""

import ctypes
import errno
import os
import platform
import re
import select
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

ORCHESTRATOR_VARIABLE = "SCALEMARK_ORCHESTRATOR"
"""Environment variable with the process id of a trainer's parent, with which it dies."""

# a process that cannot be looked at is taken for dead after so long without a heartbeat
HEARTBEAT_TIMEOUT = timedelta(seconds=120)
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PID_NAMESPACE = Path("/proc/self/ns/pid")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """Identifies a process for good; its number alone is reused later."""

    host: str
    boot_id: str  # /proc/sys/kernel/random/boot_id
    pid_namespace: str  # as /proc/self/ns/pid names it: containers number on their own
    pid: int
    start_ticks: int  # since boot; field 22 of /proc/PID/stat


def this_process() -> ProcessIdentity:
    """Identify the calling process."""
    return ProcessIdentity(
        host=platform.node(),
        boot_id=_BOOT_ID.read_text().strip(),
        pid_namespace=str(_PID_NAMESPACE.readlink()),
        pid=os.getpid(),
        start_ticks=start_ticks(os.getpid()) or 0,
    )


def is_alive(process: ProcessIdentity, heartbeat_at: datetime, now: datetime | None = None) -> bool:
    """Look at the process where its number means something here; else go by its heartbeat."""
    left_s = dead_in_s(process, heartbeat_at, now)
    if left_s is None:
        return start_ticks(process.pid) == process.start_ticks
    here = this_process()
    if (process.host, process.pid_namespace) == (here.host, here.pid_namespace):
        return False  # this machine was booted since
    return left_s > 0


def dead_in_s(
    process: ProcessIdentity, heartbeat_at: datetime, now: datetime | None = None
) -> float | None:
    """Return the seconds until it is taken for dead without another heartbeat.

    None for a process that can be looked at.
    """
    here = this_process()
    if is_visible(process, here) and not _is_hidden(process.pid):
        return None
    return max(0.0, (heartbeat_at + HEARTBEAT_TIMEOUT - (now or datetime.now(UTC))).total_seconds())


def is_visible(process: ProcessIdentity, here: ProcessIdentity) -> bool:
    """Return whether its number means the same here: same boot of the same machine, same
    container."""
    return (process.boot_id, process.pid_namespace) == (here.boot_id, here.pid_namespace)


def _is_hidden(pid: int) -> bool:
    """Return whether it is another user's, where /proc shows only one's own (hidepid)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return not os.access(f"/proc/{pid}/stat", os.R_OK)
    except ProcessLookupError:
        pass
    return False


def start_ticks(pid: int) -> int | None:
    """Return when a process began, in clock ticks since boot; None without one, or for a zombie."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else int(rest[18])


def wait_readable(descriptors: Iterable[int], timeout_s: float = 0.0) -> list[int]:
    """Sleep until some of these have something to read, or have come to their end, as a pidfd does
    with its process; return them. Also for numbers above 1023, which select.select refuses.
    """
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(max(0.0, timeout_s) * 1000)]


def signal_at_end_of_parent(number: signal.Signals) -> None:
    """Ask Linux to send this process a signal when its parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


def die_with(parent: int) -> None:
    """Ask Linux to kill this process when its parent, of that process id, dies: nothing is
    orphaned.

    Linux takes the thread that started this process for the parent: start from one that lives as
    long as its process.
    """
    signal_at_end_of_parent(signal.SIGKILL)
    if os.getppid() != parent:  # it died before we asked
        os.kill(os.getpid(), signal.SIGKILL)


def kill_all(
    is_wanted: Callable[[Path, dict[bytes, bytes]], bool], within_s: float
) -> tuple[int, list[int]]:
    """Kill processes, by their folders in /proc; return how many ended, and the ids of others."""
    killed = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError), ExitStack() as stack:  # it has ended, or may not be looked at
            # first: its number cannot become another's from here on
            descriptor = os.pidfd_open(int(process.name))
            stack.callback(os.close, descriptor)
            entries = (process / "environ").read_bytes().split(b"\0")
            if is_wanted(process, dict(entry.partition(b"=")[::2] for entry in entries)):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                stack.pop_all()
                killed[int(process.name)] = descriptor
    until_s = time.monotonic() + within_s
    left = []
    for pid, descriptor in killed.items():
        if not wait_readable([descriptor], until_s - time.monotonic()):
            left.append(pid)
        os.close(descriptor)
    return len(killed) - len(left), left


# a look that comes so much too late finds that the machine was paused, or this process stopped
OVERSLEPT_S = 2.0


class AwakeClock:
    """Counts the seconds of a clock, without those between looks that came too late: what is
    watched probably stood still, too.
    """

    def __init__(self, clock: Callable[[], float], look_every_s: float) -> None:
        self._clock, self._look_every_s = clock, look_every_s
        self._looked_s, self._overslept_s = clock(), 0.0

    def look(self) -> float:
        """Return the time now; call at each look."""
        late_s = self._clock() - self._looked_s - self._look_every_s
        if late_s > OVERSLEPT_S:
            self._overslept_s += late_s
        self._looked_s = self._clock()
        return self.now_s()

    def now_s(self) -> float:
        return self._clock() - self._overslept_s


OUT_OF_HOST_MEMORY = (
    "out of host memory; try a smaller batch_size, image_px or seq_len, or a higher limit "
    "(ulimit -v, control group)"
)
_SIGNS = re.compile(
    r"std::bad_alloc|^MemoryError\b|Cannot allocate memory"
    r"|CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"
    r"|Compute received an exception:Status:1, "  # oneDNN's dnnl_out_of_memory
    r"|Unable to allocate [\d.]+ \w+ for an array"
    # unless its file system is noexec
    r"|failed to map segment from shared object(?!: (?:Operation not|Permission))"
)
_OTHER_LIMITS = {  # that are reported with the same words, or mostly the cause of what is reported
    re.compile(r"pthread_create\(\) failed|can't start new thread"): (
        "no thread could be started; raise the limit of processes (ulimit -u, pids.max of "
        "the control group), or that of memory"
    ),
    re.compile(r"(?i)(?:ibv_|memlock|mlock|regist(?:er|ration)).*Cannot allocate memory"): (
        "memory could not be locked; raise the limit of locked memory (ulimit -l)"
    ),
    re.compile(r"File too large|SIGXFSZ"): "a file met the limit of its size; raise it (ulimit -f)",
}


def is_lack_of_host_memory(error: BaseException) -> bool:
    """Check the error itself, and those that it was raised for."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, MemoryError) or says_so(str(seen)):
            return True
        if isinstance(seen, OSError) and seen.errno == errno.ENOMEM:
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def says_so(line: str) -> bool:
    """Return whether a line of a log, or the text of an error, reports a lack of memory."""
    return bool(_SIGNS.search(line)) and not other_limit(line)


def other_limit(line: str) -> str:
    """Return what to do about a limit that is not one of memory; empty for other lines."""
    for sign, remedy in _OTHER_LIMITS.items():
        if sign.search(line):
            return remedy
    return ""


GAVE_UP = re.compile(
    # "(rounded to" tells it from an attempt of which "the caller indicates that this is not a
    # failure"
    r"Allocator \(GPU_\d+_bfc\) ran out of memory trying to allocate [\d.]+\w+(?= \(rounded to)"
    # TF_GPU_ALLOCATOR=cuda_malloc_async logs such attempts as it logs failures; this is of an op
    r"|OOM when allocating tensor with shape\[[\d,]*\] and type \w+ on \S+"
    r" by allocator (?:gpu_async_\d+|mklcpu|cpu)\b"
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
    causes = _NCCL_CAUSE.findall(log) if "NCCL: " in error else []
    return causes[-1] if causes else ""


def signal_name(number: int) -> str:
    """Return the name of a signal; real-time signals have only a number."""
    if number in set(signal.Signals):
        return signal.Signals(number).name
    return f"signal {number}"


def num_kernel_kills() -> int:
    """Return the kills in our control group; 0 where the kernel does not say."""
    try:
        group = Path("/proc/self/cgroup").read_text().strip().rpartition(":")[2]
        events = Path(f"/sys/fs/cgroup{group}/memory.events").read_text()
    except OSError:
        return 0
    for line in events.splitlines():
        name, _, count = line.partition(" ")
        if name == "oom_kill":
            return int(count)
    return 0
