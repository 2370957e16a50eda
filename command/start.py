"""Starts the program of a trial, and describes its software."""

import errno
import fcntl
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scalemark.host import program_software, refs
from scalemark.host.processes import ORCHESTRATOR_VARIABLE
from scalemark.program import expression, template
from scalemark.program.template import software_words
from scalemark.records.attempt import PYTHONPATH_VARIABLE, WORKDIR_VARIABLE
from scalemark.records.axes import env_variables
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder
from scalemark.text.untrusted import quoted
from scalemark.text.wording import listed, shortened
from trainer import own_process
from trainer.own_rank import OwnRank

_INSIDE = Path(__file__).resolve().parent / "inside"  # modules that the program's Python loads
_PARTS_VARIABLE = "SCALEMARK_PARTS_DIR"  # as command/inside/scalemark_parts.py reads it
_MOST_NAMED = 3
_PIPE_BYTES = 2**20  # a program does not wait for us where we are late


class CannotStartError(Exception):
    """Raised for a program that cannot be started here; says what was looked for, and where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A command line with everything that it needs to be started."""

    arguments: Sequence[str]
    place: refs.RunPlace  # its variables are inherited ones, and values of axes
    set_by_trial: Mapping[str, str]  # those that are axes themselves
    software_words: Sequence[str]  # those that say which software runs
    parts_dir: Path | None = None  # where the times of its steps' parts go, if they are taken

    @property
    def environment(self) -> dict[str, str]:
        variables = {**self.place.variables, **self.set_by_trial}
        if self.parts_dir is not None:
            folders = [str(_INSIDE), variables.get("PYTHONPATH", "")]
            variables["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
            variables[_PARTS_VARIABLE] = str(self.parts_dir)
        return variables


def program_of(
    spec: TrialSpec, run_dir: Path, inherited: Mapping[str, str], own: OwnRank | None = None
) -> Program:
    """Fill in the trial's command line; `own` is one of several hosts. Raises CannotStartError."""
    filled = template.of_axes(spec.axes) | _place(spec, run_dir, own).values()
    try:
        arguments = template.filled(spec.command, filled, shell=spec.shell)
        expression.check(spec.axes)  # before it runs
        words = software_words(spec)
        folder = Path(inherited.get(WORKDIR_VARIABLE) or Path.cwd()).absolute()
        variables = _environment(inherited)
        place = refs.place_of(refs.of_trial(spec.free), words, folder, variables)
    except ValueError as error:
        raise CannotStartError(str(error)) from error
    return Program(
        arguments=refs.with_program(arguments, folder, place),
        place=place,
        set_by_trial=env_variables(spec.free),
        software_words=refs.with_program(words, folder, place),
        parts_dir=run_dir.absolute() if spec.takes_apart else None,
    )


def start(program: Program, output: int) -> subprocess.Popen[bytes]:
    """Start it in a session of its own, writing to a descriptor. Raises CannotStartError."""
    folder = program.place.folder
    if not folder.is_dir():
        raise CannotStartError(f"{folder}, where the sweep was started, is no folder")
    name = program.arguments[0]
    path = program.place.variables.get("PATH", os.defpath)
    executable = template.located(name, path, folder)
    if executable is None:
        raise CannotStartError(template.not_found(name, folder))
    try:
        return subprocess.Popen(
            program.arguments,
            executable=executable,
            cwd=folder,
            env=program.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=program.place.locks,
        )
    except OSError as error:
        raise CannotStartError(_not_started(executable, error)) from error
    except ValueError as error:  # a null character
        raise CannotStartError(f"{name!r}: {error}") from error


def pipe() -> tuple[int, int]:
    """Return the reading and the writing end of a large pipe; reading never waits."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with suppress(OSError):  # the system's limit is smaller
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return reading, writing


def _place(spec: TrialSpec, run_dir: Path, own: OwnRank | None) -> template.Place:
    main_host, rank = "127.0.0.1", 0
    with socket.socket() as listener:
        listener.bind(("", 0))  # nothing uses this port at this moment
        port = str(listener.getsockname()[1])
    if own:
        main_host, _, port = own.cluster.worker_hosts[0].rpartition(":")
        rank = own.rank.task_index
    return template.Place(
        run_dir=run_dir.absolute(),
        free_port=int(port),
        gpus_per_host=spec.gpus_per_host,
        sees_gpus=spec.device_kind == DeviceKind.GPU,
        host_rank=rank,
        num_hosts=spec.hosts,
        main_host=main_host.strip("[]"),
    )


def _environment(inherited: Mapping[str, str]) -> dict[str, str]:
    variables = dict(inherited)
    # ours would hide modules of the program; the user's was put aside
    variables.pop("PYTHONPATH", None)
    own_path = variables.pop(PYTHONPATH_VARIABLE, "")
    if own_path:
        variables["PYTHONPATH"] = own_path
    variables.setdefault("PYTHONUNBUFFERED", "1")  # lines come when they are printed
    variables[ORCHESTRATOR_VARIABLE] = str(os.getpid())  # an orphan of ours is found by it
    return variables


def _not_started(file: str, error: OSError) -> str:
    if isinstance(error, PermissionError):
        return template.not_executable(file)
    if error.errno == errno.ENOEXEC:
        return f"{file} is neither a program nor a script with a #! line; name its interpreter"
    if isinstance(error, FileNotFoundError):
        with Path(file).open("rb") as script:
            line = quoted(script.readline(200).decode(errors="replace").strip(), 100)
        if line.startswith("#!"):
            return (
                f"{file} cannot be started: there is no interpreter as its first line says, {line}"
            )
    return f"{file} cannot be started: {error.strerror}"


def record_software(program: Program, folder: RunFolder) -> Mapping[str, Any]:
    """Find, write and return it. What asks git and the interpreter has ended afterwards."""
    described = refs.describe(program.software_words, program.place)
    own_process.write_environment(folder, described, program.set_by_trial)
    return described


def software_doubt(program: Program, described: Mapping[str, Any], since_s: float) -> str:
    """Return what is not known of the software that was described before the program ran, or which
    sources were written since; empty for nothing.
    """
    words, place = program.software_words, program.place
    written = program_software.written_since(words, place.folder, since_s)
    if written and refs.describe(words, place)["program"] != described["program"]:
        named = listed(shortened(written, _MOST_NAMED))
        return (
            f"sources changed while it ran ({named}), so the next attempt is of another version; "
            "where the program writes them, let it write below {run_dir}"
        )
    return program_software.doubt(words, described)
