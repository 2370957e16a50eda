"""Turns the end of an attempt into an outcome, by its result or the end of its process."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from scalemark.host.cudnn_limit import too_large
from scalemark.host.host_memory import OUT_OF_HOST_MEMORY, other_limit, says_so
from scalemark.records.cluster import RANK_LOST
from scalemark.records.measurement import Result
from scalemark.records.outcomes import TRAINER_EXIT_CODES, Doing, Outcome
from scalemark.run_folder.folder import RunFolder
from scalemark.run_folder.gpu_errors import with_gpu_errors
from sweeper.running.attempt import Ended, Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The result of an attempt, and whether it crashed."""

    result: Result
    # failed without a result of its own or of a rank, or interrupted but not by us: worth a retry
    crashed: bool


def judge(
    folder: RunFolder, ended: Ended, limits: Limits, interrupted: str = "the sweep was interrupted"
) -> Judged:
    """Judge an attempt by its result, or else by its end; `interrupted` is the text if it was."""
    unreadable = ""
    try:
        written = folder.read_result()
    except (OSError, ValueError) as error:
        written, unreadable = None, str(error)
    if written and _counts(written, ended):
        crashed = written.outcome == Outcome.INTERRUPTED or ended.exit_code == RANK_LOST
        return Judged(result=written, crashed=crashed)
    outcome, message = _judge_end(ended, limits, interrupted)
    if outcome is Outcome.FAILED:
        why = unreadable or ended.unreadable or ended.last_error
        message = f"{message}: {why or 'see log.txt in its run folder'}"
    result = Result(outcome=outcome, message=message, measurement=None, op_placement={})
    return Judged(result=with_gpu_errors(result, folder), crashed=outcome is Outcome.FAILED)


def _counts(written: Result, ended: Ended) -> bool:
    """Return whether a result fits the end of its process.

    It is written whole, as the last thing, so a kill that comes later changes nothing. When we
    ended the attempt, its word that it was interrupted or failed says nothing new.
    """
    if ended.exit_code not in (None, -signal.SIGKILL):
        codes = TRAINER_EXIT_CODES | {RANK_LOST: Outcome.FAILED}
        if codes.get(ended.exit_code) != written.outcome:
            return False
    return ended.cause is None or written.outcome not in (Outcome.INTERRUPTED, Outcome.FAILED)


def _judge_end(ended: Ended, limits: Limits, interrupted: str) -> tuple[Outcome, str]:
    if ended.cause is Outcome.INTERRUPTED:
        return Outcome.INTERRUPTED, interrupted
    if ended.cause is Outcome.TIMED_OUT:
        return Outcome.TIMED_OUT, f"not finished within launcher.timeout_s={limits.timeout_s:g}"
    if ended.cause is Outcome.HUNG and ended.gave_up:
        return Outcome.OUT_OF_MEMORY, (
            f"out of GPU memory, and other GPUs waited for it in vain: {ended.gave_up}; try a "
            "smaller batch_size, image_px or seq_len"
        )
    if ended.cause is Outcome.HUNG:
        return Outcome.HUNG, _missed(ended, limits)
    if ended.cause is Outcome.FAILED:
        return Outcome.FAILED, "ended, for its run folder could not be read"
    if ended.exit_code is None:
        why = "ended unseen, and left no result (the fork server that started it was lost)"
        return Outcome.FAILED, why
    if ended.exit_code == -signal.SIGKILL:
        return _judge_kill(ended)
    if (ended.exit_code > 0 or ended.exit_code == -signal.SIGABRT) and says_so(ended.last_error):
        return Outcome.OUT_OF_MEMORY, OUT_OF_HOST_MEMORY
    if reason := too_large(ended.last_error):
        return Outcome.UNSUPPORTED, reason
    remedy = other_limit(ended.last_error)
    why = f" ({remedy})" if remedy else ""
    if ended.exit_code < 0:
        name = _signal_name(-ended.exit_code)
        remedy = remedy or other_limit(name)
        return Outcome.FAILED, f"ended by {name}{f' ({remedy})' if remedy else ''}"
    return Outcome.FAILED, f"ended with exit code {ended.exit_code} and left no result{why}"


def _missed(ended: Ended, limits: Limits) -> str:
    if ended.doing is Doing.BUILDING:
        and_no_output = ", and no output" if ended.heard else ""
        return (
            f"no first step{and_no_output} within "
            f"launcher.start_timeout_s={limits.start_timeout_s:g}"
        )
    if ended.doing is Doing.PROFILING:
        return (
            f"no end within launcher.start_timeout_s={limits.start_timeout_s:g} after the "
            "measured steps"
        )
    after = "the first step" if ended.last_step is None else f"step {ended.last_step}"
    and_no_output = " and no output" if ended.heard else ""
    return (
        f"no step{and_no_output} within launcher.step_timeout_s={limits.step_timeout_s:g} after "
        f"{after}"
    )


def _judge_kill(ended: Ended) -> tuple[Outcome, str]:
    if ended.kernel_killed and ended.shares_host:  # the kernel counts for all of a control group
        return (
            Outcome.FAILED,
            "killed by SIGKILL, perhaps by the kernel: it lacked host memory, for this trial or "
            "one beside it",
        )
    if ended.kernel_killed:
        return Outcome.OUT_OF_MEMORY, "killed by the kernel for lack of host memory"
    return Outcome.FAILED, "killed by SIGKILL from outside (perhaps for lack of memory)"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # a real-time signal has no name
