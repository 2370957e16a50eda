"""Turns the end of a program into the outcome of its trial, with the line that says why."""

import re
import signal
from collections.abc import Iterator, Sequence

from command.curve import PrintedNumbers
from command.ends import reason
from command.measuring import NO_NUMBER
from command.watch import ProgramEnd
from scalemark.host import processes
from scalemark.readers.log_text import named_rank
from scalemark.records.measurement import (
    LAST_LINES,
    WENT_ON,
    AttemptResult,
    Outcome,
    ended,
    judge_kill,
)
from scalemark.records.trial import TrialSpec
from scalemark.text.untrusted import quoted

_ERROR = re.compile(  # of a line without what a launcher puts before it
    r"^(?:\w[\w.\d]*:? )?[\w.]*(?:Error|Exception|Interrupt)\b|[Ff]atal|FATAL"
    r"|\berror:\s+(?![\d.])|\bCUDA (?:error|failure)|\bNCCL (?:error|failure)"
    r"|noticed that process rank \d+ .* exited on signal|Segmentation fault"
)
_OF_LAUNCHERS = re.compile(
    r"ChildFailedError|CalledProcessError|ProcessExitedException|Horovod detected|SignalException"
    r"|RayTaskError|TrainingFailedError"
    r"|^(?:srun|slurmstepd|mpirun|prterun): error"
)
_SAYS_LITTLE = re.compile(  # what is not the error, or stands around it
    r"^(?:srun|slurmstepd): .*(?:CANCELLED|Terminated$)|ChildFailedError:\s*$|^\W*$"
    r"|^Exception (?:raised from|ignored in)|^(?:Exception|Error)s? in |HYDRA_FULL_ERROR"
    r"|^    \w+[:=]"
)
_CONSEQUENCES = re.compile(
    r"Connection (?:closed|reset) by (?:remote )?peer|[Bb]roken pipe|BrokenPipeError"
    r"|ncclRemoteError|remote process (?:exited|exiting)|failed to recv, got 0 bytes"
    r"|communicator was aborted"
)
_TRACEBACK = "Traceback (most recent call last):"
_IGNORED = "Exception ignored in"
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?::\s.*)?")
_SUMMARY = "Root Cause (first observed failure):"  # of torchrun, with these lines below it
_RANK = re.compile(r"^ *rank +: (\d+) ")
_EXIT_CODE = re.compile(r"^ *exitcode +: (-?\d+) ")
_FAILED_RANK = re.compile(  # as mpirun and srun name it
    r"^\s*Process name: \[\[\d+,\d+\],(\d+)\]|^srun: error: \S+ task (\d+): "
)


def last_error(lines: Sequence[str]) -> str:
    """Return the last line that looks like an error of the program, else the last one.

    Where a launcher names the rank that failed first, its lines come before those of others. An
    error without a text is shown with the line above it, one that ends with a colon with the next.
    """
    texts = [named_rank(line)[1] for line in lines]
    errors = _errors(texts)
    own = [place for place in errors if not _OF_LAUNCHERS.search(texts[place])]
    causes = [place for place in own if not _CONSEQUENCES.search(texts[place])]
    rank = _after_summary(lines, _RANK) or _first(_FAILED_RANK, lines)
    of_rank = [place for place in own if rank and named_rank(lines[place])[0] == int(rank)]
    others = [place for place, text in enumerate(texts) if not _SAYS_LITTLE.search(text)]
    for places in (of_rank, causes, own, errors, others):
        if places:
            place = places[-1]
            above = texts[place - 1].strip() if place > 0 and places is not others else ""
            if above and re.fullmatch(r"[\w.]+:?\s*", texts[place]):
                return f"{lines[place]} ({above})"
            below = texts[place + 1 : place + 2] if texts[place].endswith(":") else []
            return " ".join([lines[place], *map(str.strip, below)])
    return ""


def _errors(texts: Sequence[str]) -> list[int]:
    """Return which lines tell of errors: by their words, or as the end of a traceback."""
    errors: list[int] = []
    in_traceback = is_ignored = False
    for place, text in enumerate(texts):
        if text.startswith(_IGNORED):
            is_ignored = True
        elif text.startswith(_TRACEBACK):
            in_traceback = True
        elif in_traceback and not text.startswith(" ") and _RAISED.fullmatch(text):
            if not is_ignored:
                errors.append(place)
            in_traceback = is_ignored = False
        elif is_ignored and not in_traceback:  # it has no traceback, and this is what was ignored
            is_ignored = False
        elif _ERROR.search(text) and not _SAYS_LITTLE.search(text):
            errors.append(place)
    return errors


def ended_rank(lines: Sequence[str]) -> str:
    """Say which rank a signal has ended first, as torchrun tells; empty where none was."""
    exit_code = int(_after_summary(lines, _EXIT_CODE) or 0)
    if -exit_code not in set(signal.Signals):
        return ""
    return f"rank {_after_summary(lines, _RANK)} was ended by {signal.Signals(-exit_code).name}"


def _after_summary(lines: Sequence[str], pattern: re.Pattern[str]) -> str:
    if _SUMMARY not in lines:
        return ""
    return _first(pattern, lines[lines.index(_SUMMARY) :])


def _first(pattern: re.Pattern[str], lines: Sequence[str]) -> str:
    for line in lines:
        match = pattern.match(line)
        if match and match.lastindex:
            return match[match.lastindex]
    return ""


HOW_TO_READ = "`scalemark read LOG` says what reads its log.txt"
SHOWN_LINES = 20
_AT_END = 3  # lines
_LONGEST_LINE = 90  # shown in a message, which holds 2,000 characters
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127  # exit codes of a shell
_BY_SIGNAL = 128  # of a shell, plus the signal's number


class CrashedError(Exception):
    """Raised for a program that a signal has ended, and no line says why: a retry may succeed."""


_KILLED = re.compile(  # as shells, launchers and Python tell of a child that SIGKILL has ended
    r"(?<!via )SIGKILL|\bKilled\b|\bsignal 9\b|exitcode *: -9\b|exited unexpectedly"
    r"|terminated abruptly"
)


def failed(end: ProgramEnd, *, shares_host: bool = False) -> AttemptResult | None:
    """Return the result of a program that did not end well; None for exit code 0.

    A kill by the kernel counts where the program tells of it, and for certain where no other trial
    shares the host.
    Raises CrashedError.
    """
    if end.was_interrupted:
        return ended(Outcome.INTERRUPTED, "interrupted")
    if end.exit_code == 0:
        return None
    by = _signal_of(end.exit_code)
    how = f"the program ended with exit code {end.exit_code}"
    if by:
        how = f"the program was ended by {by.name}"
        if remedy := processes.other_limit(by.name):
            how += f": {remedy}"
    is_killed = by == signal.SIGKILL
    is_killed = is_killed or _KILLED.search("\n".join(end.last_lines)) is not None
    if is_killed and end.num_kernel_kills < processes.num_kernel_kills():
        outcome, killed = judge_kill(by_kernel=True, shares_host=shares_host)
        how = f"{killed} ({how})"
        if outcome is Outcome.OUT_OF_MEMORY:
            return ended(outcome, how + _and_left(end))
    why = reason(end.last_lines)
    if why:
        line = quoted(why.line.strip(), 300)
        return ended(why.outcome, f"{why.meaning} ({how}): {line}{_and_left(end)}")
    last = quoted(last_error(end.last_lines).strip(), 300)
    if end.exit_code == _NOT_FOUND:
        return ended(Outcome.UNSUPPORTED, f"a shell found no such program ({how}): {last}")
    if end.exit_code == _NOT_EXECUTABLE:
        return ended(Outcome.UNSUPPORTED, f"a shell could not execute it ({how}): {last}")
    rank = ended_rank(end.last_lines)
    if rank:
        how = f"{rank} ({how})"
    if not end.last_lines:
        last = "it printed nothing"
    message = f"{how}{f': {last}' if last else ''}{_and_left(end)}"
    if rank or by:
        raise CrashedError(message)
    return ended(Outcome.FAILED, message)


def out_of_memory(printed: PrintedNumbers) -> AttemptResult | None:
    """Return the result of a program whose exit code 0 hides that it ran out of memory, as that of
    `train.py | tee log` does; None where it went on.
    """
    if not printed.ran_out:
        return None
    line = quoted(printed.ran_out.strip(), 300)
    return ended(
        Outcome.OUT_OF_MEMORY, f"out of memory; try a smaller batch (exit code 0 hid it): {line}"
    )


def doubts(printed: PrintedNumbers) -> Iterator[str]:
    """Doubt what was measured before an error, or beside one that the program caught."""
    if printed.went_on_after:
        line = quoted(printed.went_on_after.strip(), 200)
        yield f"{WENT_ON}, perhaps with a smaller batch than was asked for: {line}"
    lines = [line for line in printed.lines_since if line.strip()]
    texts = [named_rank(line)[1] for line in lines]
    errors = _errors(texts) if any(text.startswith(_TRACEBACK) for text in texts) else []
    if errors and errors[-1] >= len(lines) - _AT_END:
        line = quoted(lines[errors[-1]].strip(), 200)
        yield f"its output ends with an error, which its exit code 0 hides: {line}"


def no_number(problem: str, spec: TrialSpec, end: ProgramEnd) -> AttemptResult:
    """Return the result of a program that ended well without a number that counts."""
    hint = ""
    if problem == NO_NUMBER and end.last_lines:
        hint = f"; {HOW_TO_READ}"
    message = f"read={quoted(spec.read, 200)}: {problem}{hint}{_and_left(end)}."
    if not end.last_lines:
        return ended(Outcome.INVALID, f"{message}\nIt printed nothing.")
    shown = [quoted(line, _LONGEST_LINE) for line in end.last_lines[-SHOWN_LINES:]]
    return ended(Outcome.INVALID, "\n".join([message, LAST_LINES, *shown]))


def completion_notes(
    end: ProgramEnd, spec: TrialSpec, num_gpus_here: int, rated_by: str
) -> Iterator[str]:
    """Say what is to know of a program that was measured; nothing where all is as it should be."""
    if end.left_behind:
        yield _left_behind(end)
    if 0 < num_gpus_here < spec.num_gpus:
        yield f"clocks and neighbors of GPUs were watched on the first of {spec.hosts} hosts only"
    if rated_by and spec.num_gpus > 1 and not spec.per_gpu:
        yield (
            f"{rated_by}, and that of one is taken for all; where each counts its own items, give "
            "command.per_gpu=true"
        )


def _left_behind(end: ProgramEnd) -> str:
    """Say what had to be ended after the program; empty where nothing had."""
    if not end.left_behind:
        return ""
    left = "1 process that it had left running was"
    if len(end.left_behind) > 1:
        left = f"{len(end.left_behind)} processes that it had left running were"
    first = quoted(end.left_behind[0], 80)
    return f"{left} ended ({first}); start programs in the foreground"


def _and_left(end: ProgramEnd) -> str:
    said = _left_behind(end)
    return f"; {said}" if said else ""


def _signal_of(exit_code: int) -> signal.Signals | None:
    """Return the signal that ended a program, as the kernel or a shell tells it."""
    number = -exit_code
    if exit_code > _BY_SIGNAL:
        number = exit_code - _BY_SIGNAL
    if number not in set(signal.Signals):
        return None
    return signal.Signals(number)
