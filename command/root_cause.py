"""Finds the line that says why a program failed, above what its launcher says of it.

```
  [rank1]: ValueError: boom               the cause
  [rank0]: RuntimeError: ... closed by peer        what followed from it
  ...ChildFailedError:                             what torchrun says
  Root Cause (first observed failure):
    rank      : 1 (local_rank: 1)         where to look
    exitcode  : -9 (pid: 24677)           where there is nothing to look at
```
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from signal import Signals

PREFIX = r"^(?:\[(?:rank|default)?\d+(?:,\d+)?\](?:<\w+>)?:? ?|\d+: )*"
"""What launchers write before a line of a rank: torchrun, mpirun --tag-output, srun --label."""

_ERROR = re.compile(
    PREFIX + r"(?:\w[\w.\d]*:? )?[\w.]*(?:Error|Exception|Interrupt)\b|[Ff]atal|FATAL"
)
_OF_LAUNCHERS = re.compile(
    r"ChildFailedError|CalledProcessError|ProcessExitedException|Horovod detected|SignalException"
)
_CONSEQUENCES = re.compile(
    r"Connection (?:closed|reset) by (?:remote )?peer|[Bb]roken pipe|BrokenPipeError"
    r"|ncclRemoteError|remote process (?:exited|exiting)|failed to recv, got 0 bytes"
)
_SUMMARY = "Root Cause (first observed failure):"  # of torchrun, with these lines below it
_RANK = re.compile(r"^ *rank +: (\d+) ")
_EXIT_CODE = re.compile(r"^ *exitcode +: (-?\d+) ")


def last_error(lines: Sequence[str]) -> str:
    """Return the last line that looks like an error of the program, else the last one.

    Where torchrun names the rank that failed first, its lines come before those of others.
    """
    errors = [line for line in lines if _ERROR.search(line)]
    own = [line for line in errors if not _OF_LAUNCHERS.search(line)]
    causes = [line for line in own if not _CONSEQUENCES.search(line)]
    rank = _after_summary(lines, _RANK)
    of_rank = [line for line in own if line.startswith((f"[rank{rank}]:", f"[default{rank}]:"))]
    for found in (of_rank, causes, own, errors, lines):
        if found:
            return found[-1]
    return ""


def ended_rank(lines: Sequence[str]) -> str:
    """Say which rank a signal has ended first, as torchrun tells; empty where none was."""
    exit_code = int(_after_summary(lines, _EXIT_CODE) or 0)
    if -exit_code not in set(Signals):
        return ""
    return f"rank {_after_summary(lines, _RANK)} was ended by {Signals(-exit_code).name}"


def _after_summary(lines: Sequence[str], pattern: re.Pattern[str]) -> str:
    if _SUMMARY not in lines:
        return ""
    for line in lines[lines.index(_SUMMARY) :]:
        if found := pattern.match(line):
            return found[1]
    return ""
