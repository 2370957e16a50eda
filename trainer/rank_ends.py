"""Holds the ranks of a trial to their deadlines, and turns their ends into its result."""

import signal
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from scalemark.host.processes import AwakeClock, signal_name
from scalemark.records.attempt import (
    HOST_LOST,
    RANK_CRASHED,
    RANK_LOST,
    WORKER_0,
    Cluster,
    Rank,
    RankLimits,
)
from scalemark.records.measurement import (
    EXIT_CODES,
    TRAINER_EXIT_CODES,
    AttemptResult,
    Outcome,
    Verdict,
    judge_kill,
)
from scalemark.run_folder import RunFolder, last_error
from scalemark.text.wording import listed
from trainer.own_rank import JOINING

_WORTH_A_RETRY = (RANK_LOST, RANK_CRASHED)
_OF_WORKER_0 = TRAINER_EXIT_CODES | dict.fromkeys(_WORTH_A_RETRY, Outcome.FAILED)
# Outcomes of worker 0 that stand, whatever others came to.
_OWN = (Outcome.COMPLETED, Outcome.OUT_OF_MEMORY, Outcome.UNSUPPORTED, Outcome.INVALID)
# Outcomes of other ranks that their exit code says; whatever else they say, they failed.
_KNOWN_BY_EXIT = (Outcome.OUT_OF_MEMORY, Outcome.UNSUPPORTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankEnds:
    """The ends of ranks, before the others were ended."""

    exit_codes: Mapping[Rank, int | None]  # see StartedRanks.look
    must_complete: tuple[Rank, ...] = ()  # those without which a completed worker 0 is not enough
    missed: tuple[Rank, str] | None = None  # one that missed a deadline, and which
    interrupted: bool = False
    # the kernel killed something of this control group for memory meanwhile
    kernel_killed: bool = False
    shares_host: bool = False  # other attempts of the sweep may have run beside it


TrialEnd = tuple[AttemptResult, int]  # and the exit code of the supervisor


def judge(folder: RunFolder, ends: RankEnds) -> TrialEnd:
    """Take worker 0's result, unless another rank is why it failed; all ranks have ended."""
    worker_0_code = ends.exit_codes.get(WORKER_0)
    written, unreadable = _written(folder, worker_0_code)
    if written and written.outcome == Outcome.COMPLETED:
        return _completed(folder, written, ends)
    if written and written.outcome in _OWN:
        return written, EXIT_CODES[Outcome(written.outcome)]
    if ends.interrupted:
        return trial_end(Outcome.INTERRUPTED, "interrupted")
    for rank, exit_code in ends.exit_codes.items():
        if exit_code == HOST_LOST:
            why = f"the host of rank {rank.name} was lost; {_see(folder, rank)}"
            return trial_end(Outcome.INTERRUPTED, why, HOST_LOST)
    if ends.missed:
        rank, what = ends.missed
        return trial_end(Outcome.HUNG, f"rank {rank.name} {what}; {_see(folder, rank)}")
    rank = _first_lost(ends.exit_codes)
    if rank == WORKER_0 and written:
        own_code = EXIT_CODES[Outcome(written.outcome)]
        return written, RANK_LOST if worker_0_code in _WORTH_A_RETRY else own_code
    see = unreadable if rank == WORKER_0 and unreadable else _see(folder, rank)
    return _end_of_lost(rank, ends, see)


def trial_end(outcome: Outcome, message: str, exit_code: int | None = None) -> TrialEnd:
    """Make a result; it ends with the exit code of its outcome unless another is given."""
    result = AttemptResult(outcome=outcome, message=message)
    return result, EXIT_CODES[outcome] if exit_code is None else exit_code


def is_over(exit_codes: Mapping[Rank, int | None]) -> bool:
    """Say whether worker 0 has ended, or another rank without doing its part."""
    return WORKER_0 in exit_codes or any(exit_code != 0 for exit_code in exit_codes.values())


def is_settled(folder: RunFolder, exit_codes: Mapping[Rank, int | None]) -> bool:
    """Say whether it is known who failed first: others may be about to tell why worker 0 did.

    Worker 0 is about to end once its result is there.
    """
    if WORKER_0 not in exit_codes:
        return not folder.result.exists()
    failed = exit_codes.get(WORKER_0) in (EXIT_CODES[Outcome.FAILED], *_WORTH_A_RETRY)
    return not failed or _first_lost(exit_codes) != WORKER_0


def _first_lost(exit_codes: Mapping[Rank, int | None]) -> Rank:
    """Return the rank that took the others along, though worker 0 may be seen first."""
    lost = [rank for rank, exit_code in exit_codes.items() if exit_code != 0 and rank != WORKER_0]
    # nor did it find that another had gone before
    if exit_codes.get(WORKER_0, RANK_LOST) != RANK_LOST:
        lost = [rank for rank in lost if exit_codes[rank] != EXIT_CODES[Outcome.FAILED]]
    return lost[0] if lost else WORKER_0


def _completed(folder: RunFolder, written: AttemptResult, ends: RankEnds) -> TrialEnd:
    """Take worker 0's result, as far as the others let it stand.

    One that must complete and ended badly fails the trial, by whatever and however late: on one
    host a program that prints its numbers and then fails has none either.
    """
    for rank in ends.must_complete:
        if ends.exit_codes.get(rank, 0) != 0:
            but = f", though {WORKER_0.name} completed"
            return _end_of_lost(rank, ends, _see(folder, rank), but)
    late = [rank.name for rank in ends.must_complete if rank not in ends.exit_codes]
    if late and ends.interrupted:
        return trial_end(Outcome.INTERRUPTED, "interrupted")
    if late and written.verdict != Verdict.INVALID:
        reason = f"{listed(late)} had not ended some time after {WORKER_0.name}, and was ended"
        reasons = (reason, *written.verdict_reasons)
        written = replace(written, verdict=Verdict.SUSPECT, verdict_reasons=reasons)
    return written, EXIT_CODES[Outcome.COMPLETED]


def _end_of_lost(rank: Rank, ends: RankEnds, see: str, but: str = "") -> TrialEnd:
    exit_code = ends.exit_codes[rank]
    if exit_code is not None and rank != WORKER_0:
        outcome = TRAINER_EXIT_CODES.get(exit_code)
        if outcome in _KNOWN_BY_EXIT:
            return trial_end(outcome, f"rank {rank.name}: {outcome}; {see}")
    how = f"rank {rank.name} {ended(exit_code)}{but}"
    if exit_code == -signal.SIGKILL and ends.kernel_killed:
        outcome, killed = judge_kill(by_kernel=True, shares_host=ends.shares_host)
        how = f"rank {rank.name} was {killed}"
        if outcome is Outcome.OUT_OF_MEMORY:
            return trial_end(outcome, how)
        how += but
    crashed = exit_code in (None, RANK_CRASHED) or exit_code < 0 or rank == WORKER_0
    return trial_end(Outcome.FAILED, f"{how}; {see}", RANK_LOST if crashed else None)


def ended(exit_code: int | None) -> str:
    """Say how a process ended, as in "worker-0 ended by SIGKILL"."""
    if exit_code is None:
        return "ended unseen"
    if exit_code == RANK_CRASHED:
        return "ended by a signal"
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    return f"ended by {signal_name(-exit_code)}"


def _see(folder: RunFolder, rank: Rank) -> str:
    """Point to its log, and quote the last error in it."""
    log = folder.rank_log(rank)
    try:
        error = last_error(log)
    except OSError as unreadable:
        error = str(unreadable)
    if error:
        return f"see {log.name}: {error}"
    return f"see {log.name}"


def _written(folder: RunFolder, exit_code: int | None) -> tuple[AttemptResult | None, str]:
    """Return worker 0's result, unless its exit code contradicts it, or why it is unreadable."""
    try:
        written = folder.read_result()
    except (OSError, ValueError) as error:
        return None, str(error)
    if written is None or exit_code in (None, -signal.SIGKILL):
        return written, ""
    return written if _OF_WORKER_0.get(exit_code) == written.outcome else None, ""


LOOK_EVERY_S = 0.5


@dataclass(slots=True)
class _Pulse:
    number: str  # as it was read last; empty until the rank can be reached
    changed_s: float

    @property
    def joins(self) -> bool:
        """It waits for others, and cannot beat meanwhile."""
        return self.number.endswith(JOINING)

    @property
    def beats(self) -> bool:
        return bool(self.number) and not self.joins


class Pulses:
    """The heartbeats of all ranks. `clock` counts seconds; the clocks of their hosts do not matter.

    Time between looks that were late is left out.
    """

    def __init__(
        self,
        folder: RunFolder,
        cluster: Cluster,
        limits: RankLimits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._limits = folder, limits
        self._clock = AwakeClock(clock, LOOK_EVERY_S)
        now_s = self._clock.look()
        # Worker 0 waits for the others: it is named only where they all are well.
        ranks = sorted(cluster.ranks, key=lambda rank: rank == WORKER_0)
        self._pulses = {rank: _Pulse("", now_s) for rank in ranks}

    def missed(self, ended: Collection[Rank]) -> tuple[Rank, str] | None:
        """Return a rank that missed a deadline, and which; nothing is expected of ended ones."""
        now_s = self._clock.look()
        for rank, pulse in self._pulses.items():
            number = self._read(rank)
            if number not in ("", pulse.number):
                pulse.number, pulse.changed_s = number, now_s
        late = [
            rank
            for rank, pulse in self._pulses.items()
            if rank not in ended and now_s - pulse.changed_s >= self._limit_s(pulse)
        ]
        if not late:
            return None
        rank = min(late, key=lambda each: self._pulses[each].joins)  # those wait for others
        return rank, self._deadline(self._pulses[rank])

    def _limit_s(self, pulse: _Pulse) -> float:
        if pulse.beats:
            return self._limits.timeout_s
        return self._limits.start_timeout_s

    def _deadline(self, pulse: _Pulse) -> str:
        if pulse.beats:
            return f"gave no sign of life for launcher.rank_timeout_s={self._limits.timeout_s:g}"
        what = "could not be reached"
        if pulse.joins:
            what = "had not met the others"
        return f"{what} within {self._limits.start_timeout_s:g} s"

    def _read(self, rank: Rank) -> str:
        """Read a heartbeat; empty when there is none yet, or it cannot be read."""
        try:
            return self._folder.rank_beat(rank).read_text()
        except OSError:
            return ""
