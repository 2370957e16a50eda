"""Programs that end with the Ray task that started them.

Sent to Ray's workers by value, so it needs the standard library, and Ray.
"""

from __future__ import annotations

import os
import platform
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

LOOK_EVERY_S = 0.2  # Ray's way of canceling interrupts no system call
_OF_RAYS_OWN_TASKS = ("OMP_NUM_THREADS",)


class Canceled:
    """Becomes true when the task is canceled: Ray sends SIGINT."""

    def __init__(self) -> None:
        self._is_canceled = False

    def __bool__(self) -> bool:
        return self._is_canceled

    @classmethod
    @contextmanager
    def heard(cls) -> Iterator[Canceled]:
        canceled = cls()

        def hear(*_: object) -> None:
            canceled._is_canceled = True

        before = signal.signal(signal.SIGINT, hear)
        try:
            yield canceled
        finally:
            signal.signal(signal.SIGINT, before)


def run_rank(
    tied: str,
    node: str,
    argv: Sequence[str],
    environment: Mapping[str, str],
    log: str,
    names_us: str,
) -> int | str | None:
    """Return its exit code, -N by signal N; a text when it could not be started; None when this is
    another host than that of `node`.

    Under `names_us` it finds the number of this process, with which it ends. A canceled task kills
    it, and what it started.
    """
    import ray

    if ray.get_runtime_context().get_node_id() != node:
        return None
    with Canceled.heard() as canceled:
        try:
            process = start(tied, argv, {**environment, names_us: str(os.getpid())}, log)
        except OSError as error:
            return why_not_started(error)
        return end_of(process, canceled.__bool__, grace_s=0.0)


def placed(task: Any, group: Any, host: int, takes: Mapping[str, float], **options: str) -> Any:
    """Return the remote function, to run once on that host of the placement group."""
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    return task.options(
        num_cpus=takes.get("CPU", 0),
        num_gpus=takes.get("GPU", 0),
        max_retries=0,  # who asked for it asks for another, where there is work for it
        scheduling_strategy=PlacementGroupSchedulingStrategy(
            group, placement_group_bundle_index=host
        ),
        **options,
    )


def start(
    tied: str, argv: Sequence[str], environment: Mapping[str, str], log: str
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, in the folder of its log: that where Ray was started
    may hold other code. `tied` is the program sweeper/ray/tied.py. Raises OSError.
    """
    own = {name: value for name, value in os.environ.items() if name not in _OF_RAYS_OWN_TASKS}
    with open(log, "ab") as output:  # noqa: PTH123  # nothing is imported that the worker may lack
        return subprocess.Popen(
            [sys.executable, "-I", "-S", tied, str(os.getpid()), *argv],
            env={**own, **environment},
            cwd=os.path.dirname(log),  # noqa: PTH120
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def why_not_started(error: OSError) -> str:
    return (
        f"{error.filename}: {error.strerror} on {platform.node()}; all hosts must have this "
        "project, its Python and store.runs_dir at the same paths"
    )


def end_of(
    process: subprocess.Popen[bytes], is_to_end: Callable[[], bool], *, grace_s: float
) -> int:
    """Return its exit code, once it has ended: by itself, or because `is_to_end`, which is asked
    every LOOK_EVERY_S; then by SIGTERM, and after `grace_s` by SIGKILL.

    However this returns, nothing is left of the process and its group.
    """
    descriptor = os.pidfd_open(process.pid)
    try:
        ends_s = None
        while not select.select([descriptor], [], [], LOOK_EVERY_S)[0] and (
            ends_s is None or time.monotonic() < ends_s
        ):
            if is_to_end() and ends_s is None:
                signal.pidfd_send_signal(descriptor, signal.SIGTERM)
                ends_s = time.monotonic() + grace_s
    except BaseException:
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        select.select([descriptor], [], [], grace_s)
        raise
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # its number is its own until somebody waits for it
        exit_code = process.wait()
        os.close(descriptor)
    return exit_code
