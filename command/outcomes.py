"""Turns the end of a program into the outcome of its trial."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from command import root_cause, texts
from command.measuring import NO_NUMBER
from command.watch import Ended
from scalemark.host.host_memory import other_limit
from scalemark.host.kernel_kills import num_kernel_kills
from scalemark.records.measurement import Result
from scalemark.records.outcomes import LAST_LINES, Outcome
from scalemark.records.trial import TrialSpec
from scalemark.text.redact import without_secrets
from scalemark.text.untrusted import quoted

HOW_TO_READ = "`scalemark read LOG` says what reads its log.txt"
SHOWN_LINES = 20
_LONGEST_LINE = 90  # shown in a message, which holds 2,000 characters
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127  # exit codes of a shell
_BY_SIGNAL = 128  # of a shell, plus the signal's number


def ended(outcome: Outcome, message: str) -> Result:
    """Return a result without a measurement."""
    return Result(
        outcome=outcome, message=without_secrets(message), measurement=None, op_placement={}
    )


class CrashedError(Exception):
    """Raised for a program that a signal has ended, and no line says why: it may end well when it
    is tried again.
    """


def failed(end: Ended) -> Result | None:
    """Return the result of a program that did not end well; None for exit code 0.

    Raises CrashedError.
    """
    if end.was_told_to:
        return ended(Outcome.INTERRUPTED, "interrupted")
    if end.exit_code == 0:
        return None
    how = _how(end.exit_code)
    if end.num_kernel_kills < num_kernel_kills():
        message = f"killed by the kernel for lack of host memory ({how})"
        return ended(Outcome.OUT_OF_MEMORY, f"{message}{_and_left(end)}")
    if found := texts.reason(end.last_lines):
        line = quoted(found.line, 300)
        return ended(found.outcome, f"{found.meaning} ({how}): {line}{_and_left(end)}")
    if end.exit_code in (_NOT_FOUND, _NOT_EXECUTABLE):
        last = quoted(root_cause.last_error(end.last_lines), 300)
        return ended(Outcome.UNSUPPORTED, f"a shell found no such program ({how}): {last}")
    last = quoted(root_cause.last_error(end.last_lines), 300)
    rank = root_cause.ended_rank(end.last_lines)
    if rank:
        how = f"{rank} ({how})"
    message = f"{how}: {last or 'it printed nothing'}{_and_left(end)}"
    if rank or _signal_of(end.exit_code):
        raise CrashedError(message)
    return ended(Outcome.FAILED, message)


def nothing(problem: str, spec: TrialSpec, end: Ended) -> Result:
    """Return the result of a program that ended well without a number that counts."""
    hint = ""
    if problem == NO_NUMBER and end.last_lines:
        hint = f"; {HOW_TO_READ}"
    message = f"read={quoted(spec.read, 200)}: {problem}{hint}{_and_left(end)}."
    return ended(Outcome.INVALID, f"{message}\n{_last_lines(end.last_lines)}")


def noted(end: Ended, spec: TrialSpec, num_gpus_here: int) -> str:
    """Say what is to know of a program that was measured; empty where all is as it should be."""
    said = [_left_behind(end)]
    if 0 < num_gpus_here < spec.num_gpus:
        said.append(
            f"clocks and neighbors of GPUs were watched on the first of {spec.hosts} hosts only"
        )
    return "; ".join(filter(None, said))


def _left_behind(end: Ended) -> str:
    """Say what had to be ended after the program; empty where nothing had."""
    if not end.left_behind:
        return ""
    count, first = len(end.left_behind), quoted(end.left_behind[0], 80)
    were = "1 process that it had left running was" if count == 1 else f"{count} processes that it"
    rest = "" if count == 1 else " had left running were"
    return f"{were}{rest} ended ({first}); start programs in the foreground"


def _and_left(end: Ended) -> str:
    said = _left_behind(end)
    return f"; {said}" if said else ""


def _how(exit_code: int) -> str:
    if by := _signal_of(exit_code):
        remedy = other_limit(by.name)
        return f"the program was ended by {by.name}{f': {remedy}' if remedy else ''}"
    return f"the program ended with exit code {exit_code}"


def _signal_of(exit_code: int) -> signal.Signals | None:
    """Return the signal that ended a program, as the kernel or a shell tells it."""
    number = -exit_code
    if exit_code > _BY_SIGNAL:
        number = exit_code - _BY_SIGNAL
    if number not in set(signal.Signals):
        return None
    return signal.Signals(number)


def _last_lines(lines: Sequence[str]) -> str:
    if not lines:
        return "It printed nothing."
    shown = [quoted(line, _LONGEST_LINE) for line in lines[-SHOWN_LINES:]]
    return "\n".join([LAST_LINES, *shown])
