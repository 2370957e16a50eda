"""What a trainer does with its own process: placement, parent, log, environment, and end."""

import argparse
import ctypes
import json
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, NoReturn

from scalemark.abilities import jobs_of
from scalemark.cli import entry_point
from scalemark.host import software
from scalemark.host.processes import ORCHESTRATOR_VARIABLE, die_with
from scalemark.records import switches
from scalemark.records.attempt import Placement
from scalemark.records.trial import TrialSpec
from scalemark.records.validation import storable
from scalemark.run_folder import RunFolder, open_regular
from scalemark.text.untrusted import without_secrets
from trainer import UnsupportedTrialError
from trainer.own_rank import OwnRank


def num_threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def libcuda_is_loaded() -> bool:
    return "/libcuda.so" in Path("/proc/self/maps").read_text()


def take(placement: Placement) -> None:
    """Pin this process and set its limits, while it has one thread.

    Libraries size their pools by the cores they find. Raises UnsupportedTrialError for cores that
    this process may not use.
    """
    if placement.cores:
        cores = set(placement.cores)
        allowed = os.sched_getaffinity(0)
        if not cores <= allowed:
            raise UnsupportedTrialError(
                f"placement.json gives CPU cores {_listed(cores - allowed)}, and this process may "
                f"run on {_listed(allowed)} only; start the sweep where all its cores may be used"
            )
        os.sched_setaffinity(0, cores)
    _, most_core_bytes = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, most_core_bytes))  # a crash leaves no gigabytes
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))


def limit_memory(placement: Placement, spec: TrialSpec) -> None:
    """Limit this process to an equal share of what the attempt's processes may have on this host.

    Raises UnsupportedTrialError for a limit that is reached already.
    """
    if placement.host_memory_bytes is None:
        return
    shares = num_processes(placement, spec)
    limit_bytes = placement.host_memory_bytes // shares
    status = Path("/proc/self/status").read_text()
    taken_bytes = int(status.partition("VmData:")[2].split()[0]) * 1024  # what RLIMIT_DATA limits
    if taken_bytes >= limit_bytes:
        each = f" in each of {shares} processes" if shares > 1 else ""
        raise UnsupportedTrialError(
            f"launcher.host_memory_gib={placement.host_memory_bytes / 2**30:g}: "
            f"TensorFlow alone takes {taken_bytes / 2**30:.2f}{each}; raise it"
        )
    resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes))


def num_processes(placement: Placement, spec: TrialSpec) -> int:
    """Count the ranks on this host; their supervisor is small, and not counted."""
    per_host = max(1, len(jobs_of(spec)))
    if placement.hosts:
        return per_host
    return spec.hosts * per_host


def _listed(cores: set[int]) -> str:
    return ", ".join(map(str, sorted(cores)))


def heed_signals() -> None:
    """Restore the default handling of signals that the starting process changed."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def end_at_signals() -> None:
    """Let SIGINT and SIGTERM end this process at once, also while a library holds the interpreter
    and waits.

    Libraries that take them for themselves, as TensorFlow does when it joins a cluster, do so
    later: call again then.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


_TAIL_BYTES = 2**20  # an allocator's summary of what it holds may take most of it
_LINE_BUFFERED = 1  # _IOLBF of glibc's stdio.h


def write_lines_at_once() -> None:
    """Let libraries write their lines to the log at once.

    NCCL writes warnings to C's standard output, which keeps 4 KiB of what goes to a file: the last
    ones of a process that hangs were lost.
    """
    library = ctypes.CDLL(None)
    output = ctypes.c_void_p.in_dll(library, "stdout")
    library.setvbuf(output, None, _LINE_BUFFERED, ctypes.c_size_t(0))


def tail(folder: RunFolder, own: OwnRank | None) -> str:
    """Return the end of it; empty where it goes elsewhere, as of a trainer started by hand."""
    try:
        with open_regular(folder.rank_log(own.rank) if own else folder.log) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def write(spec: TrialSpec, folder: RunFolder) -> None:
    """Write what is known before TensorFlow is imported, which may fail."""
    write_environment(folder, software.describe(), switches.variables(spec, os.environ))


@cache
def own_checkout() -> dict[str, str]:
    """Describe the code that this process has loaded, or the one that it was forked from."""
    return software.own_checkout()


def write_environment(
    folder: RunFolder, described: Mapping[str, Any], set_by_trial: Mapping[str, str]
) -> None:
    """Write the software of an attempt, and the variables that its trial sets."""
    masked = {name: without_secrets(storable(value)) for name, value in set_by_trial.items()}
    built = {"set_by_trial": masked, "cuda_build": "", "cudnn_build": ""}
    _write(folder, {**described, **own_checkout(), **built})


def add_build(folder: RunFolder, build: Mapping[str, Any]) -> None:
    """Add what TensorFlow was built with, if anything; other versions may be installed."""
    environment = folder.read_environment()
    assert environment is not None  # `write` came first
    cuda, cudnn = (str(build.get(name, "")) for name in ("cuda_version", "cudnn_version"))
    if cuda or cudnn:
        _write(folder, environment | {"cuda_build": cuda, "cudnn_build": cudnn})


def _write(folder: RunFolder, environment: Mapping[str, Any]) -> None:
    folder.write(folder.environment, json.dumps(environment, indent=1, sort_keys=True))


BAD_USAGE = 2


def run_by_command(
    main: Callable[..., int], program: str, about: str, *, has_ranks: bool = False
) -> NoReturn:
    """Do as `run_and_exit` with the trial and the folder of the command line, in a process of its
    own, which dies with the orchestrator's. Where a trial `has_ranks`, `main` takes the `own` one.
    """
    parser = argparse.ArgumentParser(prog=program, description=about, allow_abbrev=False)
    parser.add_argument("spec", type=Path, metavar="TRIAL.json", help="of any run folder")
    parser.add_argument("folder", type=Path, metavar="RUN_DIR", help="one that all ranks see")
    if has_ranks:
        parser.add_argument("--rank", type=OwnRank.from_json, help="which this process is, in JSON")
    asked = parser.parse_args()
    if has_ranks:
        main = partial(main, own=asked.rank)
    orchestrator = os.environ.get(ORCHESTRATOR_VARIABLE)
    if orchestrator:
        die_with(int(orchestrator))
        heed_signals()
    sys.exit(entry_point.run(lambda: run_and_exit(main, asked.spec, RunFolder(asked.folder))))


def run_and_exit(
    main: Callable[[TrialSpec, RunFolder], int], trial: Path, folder: RunFolder
) -> NoReturn:
    """Exit with what `main` returns, past the interpreter's exit, which a library may spoil."""
    code = 1
    try:
        code = _run(main, trial, folder)
    except KeyboardInterrupt:
        code = entry_point.INTERRUPTED
    except BaseException:  # a forked trainer must not go on as the server that it was
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def write_into(log: Path) -> None:
    """Send all output of this process to a file from now on."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


def _run(main: Callable[[TrialSpec, RunFolder], int], trial: Path, folder: RunFolder) -> int:
    try:
        spec = TrialSpec.from_json(trial.read_text())
    except (OSError, ValueError, TypeError) as error:
        print(f"{trial}: {error}; wanted the trial.json of a run folder", file=sys.stderr)
        return BAD_USAGE
    return main(spec, folder)
