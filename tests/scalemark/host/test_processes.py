"""A process is known again, and never taken for another; a lack of memory is told from other errors."""

import fcntl
import os
import resource
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from scalemark.host.processes import (
    GAVE_UP,
    HEARTBEAT_TIMEOUT,
    cause_of_nccl,
    dead_in_s,
    is_alive,
    is_lack_of_gpu_memory,
    is_visible,
    start_ticks,
    this_process,
    wait_readable,
)

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=1)


def test_this_process_is_alive_however_long_it_gave_no_sign():
    assert is_alive(this_process(), LONG_AGO, NOW)


def test_a_process_of_another_program_is_known_by_number_and_start():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        ticks = start_ticks(child.pid)
        assert ticks is not None
        other = replace(this_process(), pid=child.pid, start_ticks=ticks)
        assert is_alive(other, LONG_AGO, NOW)
        child.communicate(b"\n")
    assert not is_alive(other, NOW, NOW)
    assert start_ticks(child.pid) is None


def test_a_zombie_is_dead():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        zombie = replace(this_process(), pid=child.pid, start_ticks=start_ticks(child.pid) or 0)
        assert child.stdin is not None
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, and not yet collected
        assert Path(f"/proc/{child.pid}").exists()  # its number is still taken
        assert not is_alive(zombie, NOW, NOW)


def test_who_has_the_number_of_a_dead_process_is_not_taken_for_it():
    before = replace(this_process(), start_ticks=this_process().start_ticks - 1)
    assert not is_alive(before, NOW, NOW)


def test_a_name_of_a_program_with_spaces_and_parentheses_is_read(tmp_path):
    program = tmp_path / "a) R (b"
    program.symlink_to(sys.executable)
    with subprocess.Popen(
        [program, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert (start_ticks(child.pid) or 0) >= this_process().start_ticks
        child.communicate(b"\n")


def test_nothing_survives_a_boot_of_its_machine():
    assert not is_alive(replace(this_process(), boot_id="earlier"), NOW, NOW)


def test_what_cannot_be_looked_at_is_alive_as_long_as_it_gives_signs():
    elsewhere = [
        replace(this_process(), pid_namespace="pid:[1]"),  # another container of this machine
        replace(this_process(), boot_id="other", host="other"),
        replace(this_process(), boot_id="other", host="other", pid_namespace="pid:[1]"),
    ]
    for process in elsewhere:
        assert not is_visible(process, this_process())
        assert is_alive(process, NOW - HEARTBEAT_TIMEOUT + timedelta(seconds=1), NOW)
        assert not is_alive(process, NOW - HEARTBEAT_TIMEOUT, NOW)


def test_of_whom_signs_alone_tell_it_is_known_when_it_is_taken_for_dead():
    elsewhere = replace(this_process(), pid_namespace="another")
    assert dead_in_s(elsewhere, NOW - timedelta(seconds=35), NOW) == 85
    assert dead_in_s(elsewhere, LONG_AGO, NOW) == 0
    assert dead_in_s(this_process(), NOW, NOW) is None


def test_descriptors_above_those_of_select_are_waited_for():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(2048, hard), hard))
    reader, writer = os.pipe()
    high = fcntl.fcntl(reader, fcntl.F_DUPFD, 1024)
    try:
        assert wait_readable([high]) == []
        os.write(writer, b"x")
        assert wait_readable([high], 10.0) == [high]
    finally:
        for descriptor in (reader, writer, high):
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


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
