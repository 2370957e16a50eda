"""Records how attempts end, and what follows for the repeats that wait."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from scalemark.records.axes import Engine
from scalemark.records.measurement import AttemptResult, Outcome, State, Verdict
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder, readable
from store.database import own_command
from store.errors import StoreError
from store.rows import FinishedAttempt
from sweeper import SweepRefusedError
from sweeper.early_stopping.contests import Contest, Observer
from sweeper.loop import attempt, run_folders
from sweeper.loop.backlog import Eta, Given, Repeat
from sweeper.loop.supervision import Shared
from sweeper.report import Failure, Ran, first_unread


class Recorder:
    """Writes ends to the run folder first and then to the ledger: the database is rebuilt from
    run folders. Counts in `ran` what came of repeats.
    """

    def __init__(
        self,
        shared: Shared,
        eta: Eta,
        contests: Sequence[Contest],
        finished: Sequence[TrialSpec] = (),  # trials that have all their numbers already
    ) -> None:
        self.ran = Ran()
        # programs whose output is known to be read by this pattern
        self._read_already = {(spec.command, spec.read) for spec in finished}
        self._shared, self._eta = shared, eta
        self._backlog, self._stopping = shared.backlog, shared.stopping
        self._progress = shared.tools.progress
        self.observer = Observer(contests, shared.backlog, self.skip)

    def record(self, given: Given, judged: attempt.Judged) -> None:
        """Nothing more is started when it cannot be written."""
        placement = given.placement
        if placement.rank_start:
            placement = run_folders.placement_of(given.folder, placement)
        repeat = given.repeat
        left = run_folders.recorded_left(given.folder, judged.result)
        result = left.result
        end, most_retries = attempt.end_of(result, crashed=judged.crashed)
        repeat.num_ended[end] += 1
        again = None
        # a stop leaves it to the next command
        if repeat.num_ended[end] <= most_retries and not self._stopping.is_stopping:
            again = f"tried again after {end}"
        disturbances = attempt.disturbances_of(result)
        if again is not None and disturbances:
            # its numbers are kept, and neither shown in tables nor counted as a repeat: the next
            # attempt stands for it
            message = "; ".join(disturbances)
            result = replace(
                result, outcome=Outcome.INVALID, message=message, verdict=Verdict.INVALID
            )
        finished = FinishedAttempt(
            trial_id=repeat.open.trial_id,
            repeat=repeat.open.repeat,
            attempt=repeat.open.num_attempts,
            exit_code=judged.exit_code,
            placement=placement,
            run_dir=str(given.folder.path),
            started_at=given.started_at,
            duration_s=judged.duration_s,
            result=result,
            steps=left.steps,
            environment=left.environment,
        )
        try:
            self._write(given, finished, again=again is not None)
        except (StoreError, SweepRefusedError) as error:
            self._stopping.give_up(error)
        else:
            self._go_on(repeat, finished, again)

    def _go_on(self, repeat: Repeat, finished: FinishedAttempt, again: str | None) -> None:
        """Do what follows from an end that was written down: `again` is why it is tried again."""
        result, duration_s = finished.result, finished.duration_s or 0.0
        outcome = Outcome(result.outcome)
        final = None
        if again is None:
            final = outcome
            self.settle(State(outcome))
        else:
            self.ran.num_retries += 1
            self._backlog.queue.push(repeat.task)
        if outcome is Outcome.COMPLETED:
            self._eta.completed(duration_s)
            if repeat.task.expected_s is None:
                self._backlog.expect(repeat.open.trial_id, duration_s)
        self.observer.ended(repeat.task.key, final)
        waiting = [*self._backlog.waiting(), *self.observer.expected()]
        self._eta.update(waiting, list(self._shared.runs.values()))
        eta_s = self._eta.left_s()
        self._progress.attempt_ended(repeat.trial, result, duration_s, again=again, eta_s=eta_s)
        self.steer(repeat)
        if again is None and outcome is not Outcome.COMPLETED:
            self._record_failure(repeat, result, f"{finished.run_dir}/log.txt")

    def _record_failure(self, repeat: Repeat, result: AttemptResult, log: str) -> None:
        """Note that a repeat is not tried again, and stop where a program cannot be read."""
        self.ran.failures.append(
            Failure(label=repeat.trial.label, ended=result.outcome, why=result.message, log=log)
        )
        spec = repeat.trial.spec
        is_first = (
            self.ran.states.total() == 1
            and repeat.open.num_attempts == 1
            and (spec.command, spec.read) not in self._read_already
        )
        # a program that ran to its end, of which the pattern reads no number
        is_unread = (
            spec.engine == Engine.command
            and result.outcome == Outcome.INVALID
            and result.measurement is None
        )
        if is_first and is_unread and self._backlog.waiting():
            self._stopping.starts_no_more = True
            begin = RunFolder(Path(log).parent).read_attempt()
            sweep = begin.sweep if begin else "SWEEP"
            again = own_command(self._shared.tools.ledger.engine, "read", "--sweep", sweep)
            for line in first_unread(log, spec.read, again):
                self._progress.note(line)

    def finished_elsewhere(self, repeat: Repeat) -> None:
        self.ran.num_finished_elsewhere += 1
        self._progress.settled(State.SKIPPED)
        self.steer(repeat)

    def settle(self, state: State) -> None:
        self.ran.states[state] += 1
        self._progress.settled(state)

    def skip(self, keys: Sequence[int], reason: str) -> None:
        """Write down that these are not run. Raises StoreError."""
        self._shared.heartbeat.write(lambda: self._shared.tools.ledger.skip(keys, reason))
        for _ in keys:
            self.settle(State.SKIPPED)

    def end(self, *, finished: bool) -> None:
        """Write down that this process runs nothing more. Raises StoreError."""
        self._shared.heartbeat.write(
            lambda: self._shared.tools.ledger.end(datetime.now(UTC), finished=finished)
        )

    def steer(self, repeat: Repeat | None = None) -> None:
        """Have the observer judge again what is worth running. After a stop the next command judges
        by what was completed.
        """
        if self._stopping.is_stopping:
            return
        try:
            if repeat is None:
                self.observer.steer_all()
            else:
                self.observer.steer(repeat.task.key)
        except StoreError as error:
            self._stopping.give_up(error)

    def _write(self, given: Given, finished: FinishedAttempt, *, again: bool) -> None:
        folder = given.folder
        # one that was taken for dead has its end written by another
        if readable(folder.read_ended) is None:
            run_folders.write_end(folder, finished, datetime.now(UTC))
        repeat_id = given.repeat.open.repeat_id
        self._shared.heartbeat.write(
            lambda: self._shared.tools.ledger.finish(repeat_id, finished, again=again)
        )
