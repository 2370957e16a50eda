"""Runs the process that measures, and reads its figures while it does."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

from scalemark.cli.terminal import Progress
from scalemark.host.gpu_libraries import COMPILED_FROM, version
from scalemark.host.own_code import module_command
from scalemark.records.machine import Figure, Gpu, Probed, ProbeRequest
from scalemark.records.validation import build
from scalemark.run_folder import last_error_in
from scalemark.text.untrusted import quoted

STALL_S = 300.0  # without another figure: a library hangs, as NCCL may
COMPILING_S = 1800.0  # where a driver may have to compile kernels first
_READ_BYTES = 2**16
_MOST_CHARACTERS = 300
COMMAND = module_command("trainer.probing")


@dataclass(slots=True, kw_only=True)
class Measured:
    """The figures measured so far; filled while the process runs."""

    figures: list[Figure] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    problem: str = "interrupted"  # why the process ended early; empty where it did not


def patience_s(gpus: Iterable[Gpu]) -> float:
    """Return how long a figure of these GPUs may take; of none, as of CPU devices, too."""
    for gpu in gpus:
        if version(gpu.compute_capability) >= COMPILED_FROM:
            return COMPILING_S
    return STALL_S


def measure(
    request: ProbeRequest,
    environment: Mapping[str, str],
    measured: Measured,
    progress: Progress,
    command: tuple[str, ...] = COMMAND,
    stall_s: float = STALL_S,
) -> None:
    """Fill `measured`; whatever ends this call ends the process, too."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*command, request.to_json()],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            with process.stdout as output:
                is_stalled = not _read(output.fileno(), measured, progress, stall_s)
            exit_code = None if is_stalled else process.wait()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if is_stalled:
            measured.problem = f"no figure for {stall_s:.0f} s: ended"
        elif exit_code:
            measured.problem = f"its process ended with {exit_code}: {_cause(log, exit_code)}"
        else:
            measured.problem = ""


def _read(descriptor: int, measured: Measured, progress: Progress, stall_s: float) -> bool:
    """Return whether the process closed its output; False where it was silent for too long."""
    total = 0
    for line in _lines(descriptor, stall_s):
        if line is None:
            return False
        value = _json(line)
        if "total" in value:
            total = int(value["total"])
        elif "doubt" in value:
            measured.doubts.append(str(value["doubt"]))
        elif "what" in value:
            measured.figures.append(build(Figure, value))
        name = measured.figures[-1].what if measured.figures else Probed.PEAK
        progress(f"probing: {Probed(name).about}", len(measured.figures), total)
    return True


def _lines(descriptor: int, stall_s: float) -> Iterator[bytes | None]:
    """Yield each line; None, and no more, where none comes for so long."""
    rest = b""
    while select.select([descriptor], [], [], stall_s)[0]:
        read = os.read(descriptor, _READ_BYTES)
        if not read:
            return
        *lines, rest = (rest + read).split(b"\n")
        yield from lines
    yield None


def _json(line: bytes) -> dict[str, Any]:
    """Return an empty dict for what libraries print."""
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _cause(log: IO[bytes], exit_code: int) -> str:
    """Return the last line, as of an exception; of a process ended by a signal its last error."""
    log.seek(0)
    text = log.read().decode(errors="replace")
    if exit_code < 0 and (cause := last_error_in(text)):
        return cause
    said = [line.strip() for line in text.splitlines() if line.strip()]
    return quoted(said[-1], _MOST_CHARACTERS) if said else "it said nothing"
