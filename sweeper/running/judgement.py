"""Turns the end of an attempt into an outcome, and decides what follows."""

from __future__ import annotations

import signal
from dataclasses import dataclass, fields

from conf.schema import RetryConfig
from scalemark.host.memory import OUT_OF_HOST_MEMORY, other_limit, says_so
from scalemark.records.attempt import HOST_LOST, RANK_LOST
from scalemark.records.measurement import AttemptResult, said_of_others
from scalemark.records.outcomes import TRAINER_EXIT_CODES, Doing, Outcome
from scalemark.run_folder import RunFolder, with_gpu_errors
from sweeper.errors import SweepRefusedError
from sweeper.running.attempt import Ended, Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The result of an attempt, and whether it crashed."""

    result: AttemptResult
    # failed without a result of its own or of a rank, or interrupted but not by us: worth a retry
    crashed: bool


def judge(folder: RunFolder, ended: Ended, limits: Limits) -> Judged:
    """Judge an attempt by its result, or else by its end."""
    unreadable = ""
    try:
        written = folder.read_result()
    except (OSError, ValueError) as error:
        written, unreadable = None, str(error)
    if written and _counts(written, ended):
        crashed = written.outcome == Outcome.INTERRUPTED or ended.exit_code == RANK_LOST
        crashed = crashed and ended.exit_code != HOST_LOST  # it is not what the host died of
        return Judged(result=written, crashed=crashed)
    outcome, message = _judge_end(ended, limits)
    if outcome is Outcome.FAILED:
        why = unreadable or ended.unreadable or ended.last_error
        message = f"{message}: {why or 'see log.txt in its run folder'}"
    result = AttemptResult(outcome=outcome, message=message, measurement=None, op_placement={})
    return Judged(result=with_gpu_errors(result, folder), crashed=outcome is Outcome.FAILED)


def _counts(written: AttemptResult, ended: Ended) -> bool:
    """Return whether a result fits the end of its process.

    It is written whole, as the last thing, so a kill that comes later changes nothing. When we
    ended the attempt, its word that it was interrupted or failed says nothing new.
    """
    if ended.exit_code not in (None, HOST_LOST, -signal.SIGKILL):
        codes = TRAINER_EXIT_CODES | {RANK_LOST: Outcome.FAILED}
        if codes.get(ended.exit_code) != written.outcome:
            return False
    return ended.cause is None or written.outcome not in (Outcome.INTERRUPTED, Outcome.FAILED)


def _judge_end(ended: Ended, limits: Limits) -> tuple[Outcome, str]:
    if ended.cause is Outcome.INTERRUPTED:
        return Outcome.INTERRUPTED, "the sweep was interrupted"
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


MOST_RETRIES = 100

CRASHED = "crashed"
"""A way to end that is no Outcome of its own: failed without a result, or interrupted by somebody
who was not this sweep."""


DISTURBED = "disturbed"
"""Another one: completed, while other programs computed on its GPUs."""


def check(retry: RetryConfig) -> None:
    """Raise SweepRefusedError, naming the setting, for counts that cannot be."""
    for field in fields(retry):
        count = getattr(retry, field.name)
        if not 0 <= count <= MOST_RETRIES:
            raise SweepRefusedError(
                f"retry.{field.name}={count}: wanted 0 to {MOST_RETRIES} further attempts"
            )


def disturbances(result: AttemptResult) -> list[str]:
    """Return what made an attempt `disturbed`, as its verdict says it; nothing for others."""
    if result.outcome != Outcome.COMPLETED:
        return []
    return [said_of_others(gpu) for gpu in result.gpu_telemetry if gpu.num_foreign_processes]


def ended_so(outcome: Outcome, *, crashed: bool, disturbed: bool = False) -> str:
    """Return how an attempt ended: as a setting of `retry.*` names it, or else its outcome.

    `crashed` is as `sweeper.running.judgement.Judged` has it, `disturbed` as `disturbances` finds.
    """
    if disturbed and outcome is Outcome.COMPLETED:
        return DISTURBED
    if crashed and outcome in (Outcome.FAILED, Outcome.INTERRUPTED):
        return CRASHED
    return outcome.value


def is_tried_again(retry: RetryConfig, ended: str, num_ended: int) -> bool:
    """Decide after an attempt that `ended_so`, the repeat's `num_ended`-th that did. Each way to
    end is counted on its own, so that a crash uses up no retry that is meant for a disturbance.
    """
    if ended == CRASHED:
        return num_ended <= retry.crashed
    if ended == Outcome.FAILED:
        return num_ended <= retry.failed
    if ended == DISTURBED:
        return num_ended <= retry.disturbed
    return ended == Outcome.INTERRUPTED
