"""Follows the attempts of a shared sweep as they end elsewhere, and prints each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from conf.schema import OnFailure
from scalemark.records.outcomes import Outcome, State
from store.sweeps.agents import EndedRow
from sweeper.agents.orders import Orders
from sweeper.live.progress import Progress
from sweeper.live.snapshot import EndedAttempt
from sweeper.loop.source import Wish
from sweeper.planning.plan import PlannedTrial
from sweeper.report import Failure

# Times in a row before a repeat is given up: preemption seldom hits the same one so often, a time
# limit that is too short for it does so always.
MOST_INTERRUPTED = 5
_Key = tuple[str, int]  # trial id, number of the repeat


class Results:
    """Attempts that were seen to end: `last_attempt` is the id of the newest one."""

    def __init__(
        self,
        progress: Progress,
        orders: Orders,
        on_failure: OnFailure,
        trials: Mapping[str, PlannedTrial],
        runs_dir: Path,
        last_attempt: int,
    ) -> None:
        self.last_attempt = last_attempt
        self._progress, self._orders, self._on_failure = progress, orders, on_failure
        self._trials, self._runs_dir = trials, runs_dir
        self._durations_s: list[float] = []
        self._num_attempts: Counter[int] = Counter()  # that have ended, by repeat
        # the rows of a repeat that was interrupted last, and nothing else since
        self._interrupted: dict[int, list[EndedRow]] = {}
        self._failures: dict[_Key, Failure] = {}
        self._settled: set[int] = set()  # repeats, as far as `progress` knows

    @property
    def failures(self) -> list[Failure]:
        """Return the repeats that did not complete."""
        return list(self._failures.values())

    @property
    def num_attempts(self) -> int:
        return self._num_attempts.total()

    @property
    def num_retries(self) -> int:
        """Count attempts beyond the first of a repeat."""
        return self.num_attempts - len(self._num_attempts)

    def tell(self, rows: Sequence[EndedRow], eta_s: Callable[[], float | None]) -> None:
        for row in rows:
            self.last_attempt = row.attempt_id
            self._num_attempts[row.repeat_id] += 1
            if row.duration_s is not None:
                self._durations_s.append(row.duration_s)
            # here: what a stop leaves is the next command's
            is_last = row.is_final or self._orders.wanted > Wish.GO_ON
            if is_last:
                self._settle(row.repeat_id, State(row.outcome))
            if row.outcome is Outcome.INTERRUPTED:
                self._interrupted.setdefault(row.repeat_id, []).append(row)
            else:
                self._interrupted.pop(row.repeat_id, None)
            again = None if is_last else f"tried again after {row.outcome}"
            ended = EndedAttempt(
                label=self.label(row.trial_id),
                outcome=row.outcome,
                message=row.message,
                duration_s=row.duration_s or 0.0,
                throughput=row.throughput,
                item=row.item,
                median_step_s=row.median_step_s,
                jitter_s=row.jitter_s,
                verdict=row.verdict,
                verdict_reasons=row.verdict_reasons,
            )
            self._progress.attempt_ended(ended, again=again, eta_s=eta_s())
            if row.outcome is Outcome.COMPLETED:
                self._failures.pop((row.trial_id, row.repeat), None)
            elif is_last:
                self._note_failure(row)

    def give_up_what_never_ends(self, give_up: Callable[[int, str], bool]) -> None:
        """Skip repeats that outlast every agent: they would be run for ever. `give_up` skips one,
        and is False where an agent has it already.
        """
        for repeat_id, rows in list(self._interrupted.items()):
            num, row = len(rows), rows[-1]
            if num < MOST_INTERRUPTED:
                continue
            why = (
                f"interrupted {num} times: it may take longer than its agents may live; see the "
                "time limits of their jobs"
            )
            named = f"{self.label(row.trial_id)} repeat {row.repeat}"
            if give_up(repeat_id, why):
                del self._interrupted[repeat_id]
                self._settle(repeat_id, State.SKIPPED)
                failure = Failure(label=named, ended="skipped", why=why)
                self._failures[row.trial_id, row.repeat] = failure
                self._progress.note(failure.line)
            # agents are quicker to take it than we are
            elif num >= 2 * MOST_INTERRUPTED and not self._orders.is_finishing:
                self._orders.is_finishing = True
                self._progress.note(f"{named} {why}; nothing more is started")

    def eta_s(self, num_left: int, num_running: int) -> float | None:
        """Assume that the rest takes as long as what was seen, as many at a time as run now."""
        if not self._durations_s:
            return None
        return fmean(self._durations_s) * num_left / max(1, num_running)

    def label(self, trial_id: str) -> str:
        planned = self._trials.get(trial_id)
        return self._progress.label(planned) if planned else trial_id[:8]

    def _settle(self, repeat_id: int, state: State) -> None:
        """Count a repeat once: an agent that has not heard of a stop may take what another has left
        open.
        """
        if repeat_id not in self._settled:
            self._settled.add(repeat_id)
            self._progress.settled(state)

    def _note_failure(self, row: EndedRow) -> None:
        log = self._runs_dir / row.run_dir / "log.txt"
        planned = self._trials.get(row.trial_id)
        label = planned.label if planned else row.trial_id[:8]
        self._failures[row.trial_id, row.repeat] = Failure(
            label=label, ended=row.outcome, why=row.message, log=str(log)
        )
        if self._on_failure is OnFailure.stop and self._orders.wanted is Wish.GO_ON:
            self._orders.is_finishing = True
            self._progress.note("sweep.on_failure=stop: nothing more is started")
