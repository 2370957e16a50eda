"""Turns the ends of a trial's ranks into the result of the trial."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass

from scalemark.records.cluster import RANK_LOST, WORKER_0, Rank
from scalemark.records.measurement import Result
from scalemark.records.outcomes import TRAINER_EXIT_CODES, Outcome
from scalemark.run_folder.folder import RunFolder
from scalemark.run_folder.last_error import last_error
from scalemark.text.redact import without_secrets

_EXIT_CODES = {outcome: code for code, outcome in TRAINER_EXIT_CODES.items()}
_OF_WORKER_0 = TRAINER_EXIT_CODES | {RANK_LOST: Outcome.FAILED}
# of worker 0, whatever others came to
_OWN = (Outcome.COMPLETED, Outcome.OUT_OF_MEMORY, Outcome.UNSUPPORTED, Outcome.INVALID)
# of other ranks; whatever else they say, they failed
_TOLD_BY_EXIT = (Outcome.OUT_OF_MEMORY, Outcome.UNSUPPORTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankEnds:
    """How ranks ended, before the others were ended."""

    exit_codes: Mapping[Rank, int | None]  # as StartedRanks.look tells
    missed: tuple[Rank, str] | None = None  # one that missed a deadline, and which
    interrupted: bool = False
    # the kernel killed something of this control group for memory meanwhile
    kernel_killed: bool = False
    shares_host: bool = False  # other attempts of the sweep may have run beside it


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEnd:
    """What the trial came to."""

    result: Result
    exit_code: int  # what looks after the ranks ends with


def judge(folder: RunFolder, ends: RankEnds) -> TrialEnd:
    """Take worker 0's result, unless another rank is why it failed; all ranks have ended."""
    written, unreadable = _written(folder, ends.exit_codes.get(WORKER_0))
    if written and written.outcome in _OWN:
        return _by_outcome(written)
    if ends.interrupted:
        return _by_outcome(_result(Outcome.INTERRUPTED, "interrupted"))
    if ends.missed:
        rank, told = ends.missed
        return _by_outcome(_result(Outcome.HUNG, f"rank {rank.name} {told}; {_see(folder, rank)}"))
    if (rank := _first_lost(ends.exit_codes)) != WORKER_0:
        return _of_lost(folder, rank, ends)
    if written and ends.exit_codes.get(WORKER_0) == RANK_LOST:
        return TrialEnd(result=written, exit_code=RANK_LOST)
    return _by_outcome(written) if written else _of_lost(folder, WORKER_0, ends, unreadable)


def failed(outcome: Outcome, message: str) -> TrialEnd:
    """Make the end of a trial whose ranks could not be started, or not be watched."""
    return _by_outcome(_result(outcome, message))


def is_over(exit_codes: Mapping[Rank, int | None]) -> bool:
    """Say whether worker 0 has ended, or another rank without doing its part."""
    return WORKER_0 in exit_codes or any(exit_code != 0 for exit_code in exit_codes.values())


def is_settled(exit_codes: Mapping[Rank, int | None]) -> bool:
    """Say whether it is known who failed first: others may be about to tell why worker 0 did."""
    return _first_lost(exit_codes) != WORKER_0 or exit_codes[WORKER_0] not in (
        _EXIT_CODES[Outcome.FAILED],
        RANK_LOST,
    )


def first_failed(exit_codes: Mapping[Rank, int | None]) -> Rank | None:
    """Return the rank that failed by itself; it may have waited for one that still runs."""
    rank = _first_lost(exit_codes)
    return rank if exit_codes.get(rank) in (_EXIT_CODES[Outcome.FAILED], RANK_LOST) else None


def _first_lost(exit_codes: Mapping[Rank, int | None]) -> Rank:
    """Return the rank that took the others along, though worker 0 may be seen first."""
    lost = [rank for rank, exit_code in exit_codes.items() if exit_code != 0 and rank != WORKER_0]
    # nor did it find that another had gone before
    if exit_codes.get(WORKER_0, RANK_LOST) != RANK_LOST:
        lost = [rank for rank in lost if exit_codes[rank] != _EXIT_CODES[Outcome.FAILED]]
    return lost[0] if lost else WORKER_0


def _of_lost(folder: RunFolder, rank: Rank, ends: RankEnds, unreadable: str = "") -> TrialEnd:
    exit_code = ends.exit_codes[rank]
    outcome = None if exit_code is None else TRAINER_EXIT_CODES.get(exit_code)
    if rank != WORKER_0 and outcome in _TOLD_BY_EXIT:
        return _by_outcome(_result(outcome, f"rank {rank.name}: {outcome}; {_see(folder, rank)}"))
    if exit_code == -signal.SIGKILL and ends.kernel_killed:
        return _of_kernel(folder, rank, ends)
    told = unreadable or _see(folder, rank)
    crashed = exit_code is None or exit_code < 0 or rank == WORKER_0
    result = _result(Outcome.FAILED, f"rank {rank.name} {_ended(exit_code)}; {told}")
    return TrialEnd(result=result, exit_code=RANK_LOST if crashed else _EXIT_CODES[Outcome.FAILED])


def _of_kernel(folder: RunFolder, rank: Rank, ends: RankEnds) -> TrialEnd:
    """Blame the kernel, which counts its kills for all of the control group alone."""
    if not ends.shares_host:
        return _by_outcome(
            _result(
                Outcome.OUT_OF_MEMORY,
                f"rank {rank.name} was killed by the kernel for lack of host memory",
            )
        )
    perhaps = "perhaps by the kernel: it lacked host memory, for this trial or one beside it"
    return TrialEnd(
        result=_result(
            Outcome.FAILED, f"rank {rank.name} ended by SIGKILL, {perhaps}; {_see(folder, rank)}"
        ),
        exit_code=RANK_LOST,
    )


def _ended(exit_code: int | None) -> str:
    if exit_code is None:
        return "ended unseen"
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        return f"ended by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"ended by signal {-exit_code}"  # a real-time signal has no name


def _see(folder: RunFolder, rank: Rank) -> str:
    """Point to its log, and quote the last error in it."""
    log = folder.rank_log(rank)
    try:
        error = last_error(log)
    except OSError as unreadable:
        error = str(unreadable)
    return f"see {log.name}: {error}" if error else f"see {log.name}"


def _written(folder: RunFolder, exit_code: int | None) -> tuple[Result | None, str]:
    """Return worker 0's result, unless its exit code contradicts it, or why it is unreadable."""
    try:
        written = folder.read_result()
        counts = written and (
            exit_code in (None, -signal.SIGKILL) or _OF_WORKER_0.get(exit_code) == written.outcome
        )
        return written if counts else None, ""
    except (OSError, ValueError) as error:
        return None, str(error)


def _by_outcome(result: Result) -> TrialEnd:
    return TrialEnd(result=result, exit_code=_EXIT_CODES[Outcome(result.outcome)])


def _result(outcome: Outcome, message: str) -> Result:
    return Result(
        outcome=outcome, message=without_secrets(message), measurement=None, op_placement={}
    )
