"""Starts the program of a trial in the folder from which its sweep was started."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from command import texts
from scalemark.program import executable, expression, template, values
from scalemark.program.software_words import software_words
from scalemark.records import environment_axes
from scalemark.records.devices import DeviceKind
from scalemark.records.placement import (
    ORCHESTRATOR_VARIABLE,
    PYTHONPATH_VARIABLE,
    WORKDIR_VARIABLE,
)
from scalemark.records.trial import TrialSpec
from scalemark.text.untrusted import quoted
from trainer.ranks.own_rank import OwnRank

_PIPE_BYTES = 2**20  # a program does not wait for us where we are late


class CannotStartError(Exception):
    """Raised for a program that cannot be started here; says what was looked for, and where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A command line with everything that it needs to be started."""

    arguments: Sequence[str]
    folder: Path
    variables: Mapping[str, str]  # inherited ones, and values of axes
    set_by_trial: Mapping[str, str]  # those that are axes themselves
    items_per_step: float | None  # of all replicas; None where the trial does not say
    software_words: Sequence[str]  # those that say which software runs

    @property
    def environment(self) -> dict[str, str]:
        return {**self.variables, **self.set_by_trial}

    @property
    def marker(self) -> tuple[bytes, ...]:
        """Return entries of the environment that all its processes have, and no others."""
        names = (values.RUN_DIR_VARIABLE, values.HOST_RANK_VARIABLE)
        return tuple(f"{name}={self.variables[name]}".encode() for name in names)


def program_of(
    spec: TrialSpec, run_dir: Path, inherited: Mapping[str, str], own: OwnRank | None = None
) -> Program:
    """Fill in the trial's command line; `own` is one of several hosts. Raises CannotStartError."""
    filled = values.of_axes(spec.axes) | _place(spec, run_dir, own).values()
    items_per_step = None
    try:
        arguments = template.filled(spec.command, filled, shell=spec.shell)
        if spec.items_per_step:
            items_per_step = expression.evaluated(spec.items_per_step, spec.axes)
    except ValueError as error:
        raise CannotStartError(str(error)) from error
    return Program(
        arguments=arguments,
        folder=Path(inherited.get(WORKDIR_VARIABLE) or Path.cwd()).absolute(),
        variables=_environment(inherited) | values.variables(filled),
        set_by_trial=environment_axes.variables(spec.free),
        items_per_step=items_per_step,
        software_words=software_words(spec),
    )


def start(program: Program, output: int) -> subprocess.Popen[bytes]:
    """Start it in a session of its own, writing to a descriptor. Raises CannotStartError."""
    if not program.folder.is_dir():
        raise CannotStartError(f"{program.folder}, where the sweep was started, is no folder")
    name = program.arguments[0]
    path = program.variables.get("PATH", os.defpath)
    found = executable.found(name, path, program.folder)
    if found is None:
        raise CannotStartError(executable.not_found(name, path, program.folder))
    try:
        return subprocess.Popen(
            program.arguments,
            executable=found,
            cwd=program.folder,
            env=program.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    except OSError as error:
        raise CannotStartError(_not_started(found, error)) from error
    except ValueError as error:  # a null character
        raise CannotStartError(f"{name!r}: {error}") from error


def pipe() -> tuple[int, int]:
    """Return the reading and the writing end of a large pipe; reading never waits."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with suppress(OSError):  # the system's limit is smaller
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return reading, writing


def _place(spec: TrialSpec, run_dir: Path, own: OwnRank | None) -> values.Place:
    main_host, port, rank = "127.0.0.1", str(_free_port()), 0
    if own:
        main_host, _, port = own.cluster.worker_hosts[0].rpartition(":")
        rank = own.rank.task_index
    return values.Place(
        run_dir=run_dir.absolute(),
        free_port=int(port),
        gpus_per_host=spec.gpus_per_host,
        sees_gpus=spec.device_kind == DeviceKind.GPU,
        host_rank=rank,
        num_hosts=spec.hosts,
        main_host=main_host.strip("[]"),
    )


def _environment(inherited: Mapping[str, str]) -> dict[str, str]:
    found = dict(inherited)
    # ours would hide modules of the program; the user's was put aside
    found.pop("PYTHONPATH", None)
    if own := found.pop(PYTHONPATH_VARIABLE, ""):
        found["PYTHONPATH"] = own
    found.setdefault("PYTHONUNBUFFERED", "1")  # lines come when they are printed
    found[ORCHESTRATOR_VARIABLE] = str(os.getpid())  # an orphan of ours is found by it
    return found


def _not_started(found: str, error: OSError) -> str:
    if isinstance(error, PermissionError):
        return executable.not_executable(found)
    if error.errno == texts.NO_FORMAT:
        return f"{found} is neither a program nor a script with a #! line; name its interpreter"
    if isinstance(error, FileNotFoundError) and (line := _first_line(found)).startswith("#!"):
        return f"{found} cannot be started: there is no interpreter as its first line says, {line}"
    return f"{found} cannot be started: {error.strerror}"


def _first_line(path: str) -> str:
    with Path(path).open("rb") as file:
        return quoted(file.readline(200).decode(errors="replace").strip(), 100)


def _free_port() -> int:
    """Return a port of this host that nothing uses at this moment."""
    with socket.socket() as one:
        one.bind(("", 0))
        port: int = one.getsockname()[1]
        return port
