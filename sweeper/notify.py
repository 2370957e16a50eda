"""Runs the user's command at the end of a sweep: `sweep.notify`."""

from __future__ import annotations

import os
import subprocess

from store.database import file_of
from sweeper.report import Report

WITHIN_S = 60


def notify(report: Report, exit_code: int) -> str | None:
    """Return why the command failed, in one line, or None. Its output goes where ours goes.

    The command is its user's own: it gets the address of the database with its password, so that it
    can use it.
    """
    assert report.notify is not None
    path = file_of(report.store_url)
    variables = {
        "SCALEMARK_SWEEP_NAME": report.name,
        "SCALEMARK_SWEEP_EXIT_CODE": str(exit_code),
        "SCALEMARK_SWEEP_SUMMARY": report.summary,
        "SCALEMARK_SWEEP_STORE": str(path.absolute()) if path else report.store_url,
    }
    try:
        ended = subprocess.run(
            report.notify,
            shell=True,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            timeout=WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"sweep.notify: not done within {WITHIN_S} s, and ended"
    return f"sweep.notify: ended with exit code {ended.returncode}" if ended.returncode else None
