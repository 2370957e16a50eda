"""Runs Slurm's commands."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

from scalemark.text.untrusted import quoted

TIMEOUT_S = 60.0  # they give up themselves after 10 s where nobody answers
_SILENCE = (
    "Unable to contact slurm controller",
    "Socket timed out",
    "Connection refused",
    "Connection reset by peer",
    "Connection timed out",
    "Zero Bytes were transmitted",
    "backup controller in standby mode",
    "Transport endpoint is not connected",
)
_ENDED = ("Invalid job id specified", "Job/step already completing or completed")
_KEPT = ("SLURM_CONF", "SLURM_CLUSTERS")
_LEFT_OUT = ("SLURM_", "SBATCH_", "SQUEUE_", "SCANCEL_", "SACCT_")


class SlurmError(Exception):
    """Slurm refuses. The text is its own, in one line."""


class SlurmSilentError(SlurmError):
    """Its controller does not answer, or is too busy to: the same may be asked again later."""


class SlurmEndedError(SlurmError):
    """All jobs that it complains of have ended: it did with the others what it was asked for."""


def ask(
    *command: str, script: str | None = None, variables: Mapping[str, str] | None = None
) -> str:
    """Return what the command prints. Raises SlurmError, and its kinds."""
    # An allocation that we run in has variables which a submitted job would take for its own, and
    # users set options by variables: the same settings give the same jobs, wherever they are given.
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_LEFT_OUT) or name in _KEPT
    }
    try:
        ended = subprocess.run(
            command,
            env=environment | dict(variables or {}),
            input=script or "",
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise SlurmSilentError(f"{command[0]} did not end within {TIMEOUT_S:g} s") from error
    except OSError as error:
        raise SlurmError(f"{command[0]}: {error.strerror}") from error
    if ended.returncode:
        raise _error(command[0], ended)
    return ended.stdout


def _error(program: str, ended: subprocess.CompletedProcess[str]) -> SlurmError:
    lines = []
    for line in ended.stderr.splitlines():
        said = line.split("error: ", 1)[-1].strip()
        if said and not said.startswith("Try "):
            lines.append(said)
    said = quoted("; ".join(lines), 500) or f"{program} ended with exit code {ended.returncode}"
    if any(sign in ended.stderr for sign in _SILENCE):
        return SlurmSilentError(said)
    if lines and all(any(sign in line for sign in _ENDED) for line in lines):
        return SlurmEndedError(said)
    return SlurmError(said)
