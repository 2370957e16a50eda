"""Runs Slurm's commands."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

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
    """What the command prints, given this script and these variables more. Raises SlurmError, and
    its kinds.
    """
    try:
        ended = subprocess.run(
            command,
            env={**_environment(), **(variables or {})},
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
    if ended.returncode == 0:
        return ended.stdout
    lines = _lines(ended.stderr)
    told = quoted("; ".join(lines), 500) or f"{command[0]} ended with exit code {ended.returncode}"
    raise _kind(lines)(told)


def _kind(lines: Sequence[str]) -> type[SlurmError]:
    if any(sign in line for line in lines for sign in _SILENCE):
        return SlurmSilentError
    return (
        SlurmEndedError
        if lines and all(any(sign in line for sign in _ENDED) for line in lines)
        else SlurmError
    )


def _environment() -> dict[str, str]:
    """Without what an allocation that we run in told, which a job that is submitted would take for
    its own, and without options by variables: the same settings give the same jobs, and those are
    found whatever their user likes to see.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_LEFT_OUT) or name in _KEPT
    }


def _lines(text: str) -> list[str]:
    told = [line.split("error: ", 1)[-1].strip() for line in text.splitlines()]
    return [line for line in told if line and not line.startswith("Try ")]
