"""Runs the repeats of one sweep: an event loop that starts what fits, watches it, and records how
it ended. Read this file first, then the parts in the order in which it calls them:

```
        open repeats          take          claim, begin           go on
  ledger ─────────► backlog ─────────► room ──────────────► starter ──────► attempts
     ▲              ▲     ▲ holds back                                            │ ends
     │ heartbeat    │     └ observer                                              ▼
     └──────────────┴────── tried again ◄── database: outcome, measurement ◄── recorder
```

`sweeper.sweep` makes an Orchestrator and calls `run`, which turns once for whatever is due.
Each turn it

1. gives a sign that it lives (supervision.py), and obeys signals;
2. looks at what runs: what has ended is judged, and recorded (recording.py) by way of
   `Dispatcher.record`, which frees its devices;
3. has `Dispatcher.start_what_fits` (dispatch.py) take devices, claim the repeat in the database,
   and hand both to the starter;
4. sleeps until a process ends, a signal comes or something is due.

All of this is one thread. Every state is in the database before it is acted upon, so that killing
this process loses at most the attempts that run.
"""

import math
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace

from scalemark.host.processes import wait_readable
from scalemark.records.trial import TrialSpec
from scalemark.text.wording import counted
from store.errors import StoreError
from store.ledger import LostError
from sweeper import SweepRefusedError
from sweeper.devices.machine import Inventory
from sweeper.early_stopping.contests import Contest
from sweeper.grid.plan import PlannedTrial
from sweeper.loop.attempt import Attempt, judge
from sweeper.loop.backlog import Backlog, Eta, Given, planned_repeats
from sweeper.loop.dispatch import Dispatcher
from sweeper.loop.recording import Recorder
from sweeper.loop.supervision import Heartbeat, Policy, Shared, Stopping, Tools
from sweeper.report import Ran

SHOW_EVERY_S = 1.0  # drawing takes a core for a moment, beside what is measured


class Orchestrator:
    """Runs what the ledger has open. `expected_s` of a trial is None where it is not known; a sweep
    that races or judges a change has `contests`; `most_left_s` is what is left of its budget.
    """

    def __init__(
        self,
        tools: Tools,
        policy: Policy,
        inventory: Inventory,
        trials: Sequence[PlannedTrial] = (),
        expected_s: Callable[[TrialSpec], float | None] = lambda _: None,
        contests: Sequence[Contest] = (),
        most_left_s: Callable[[], float] = lambda: math.inf,
    ) -> None:
        ledger, tell, clock = tools.ledger, tools.tell, tools.clock
        slots = tools.slots
        self._tools, self._policy = tools, policy
        self._runs: dict[Attempt, Given] = {}  # that run now
        self._num_obeyed = 0  # how often we were asked to stop, and did
        self._stopping = Stopping(tools.stop, self._runs, tell)
        self._heartbeat = Heartbeat(ledger, self._stopping, policy.heartbeat_timeout_s, tell, clock)
        completed: dict[str, int] = {}
        for contest in contests:
            completed.update(contest.num_completed)
        repeats = planned_repeats(ledger.open_repeats(), trials, expected_s, completed, slots.width)
        self._backlog = Backlog(repeats, seed=1, packs=slots.packs)
        self._eta = Eta(slots.num_devices, slots.most_at_once, clock, most_left_s)
        shared = Shared(
            tools=tools,
            policy=policy,
            backlog=self._backlog,
            heartbeat=self._heartbeat,
            stopping=self._stopping,
            runs=self._runs,
        )
        finished = [trial.spec for trial in trials if not trial.num_repeats]
        self._recorder = Recorder(shared, self._eta, contests, finished)
        self._dispatcher = Dispatcher(shared, inventory, self._recorder)
        self._show_s = clock()

    @property
    def failure(self) -> StoreError | SweepRefusedError | None:
        """Say why results could no longer be written."""
        return self._stopping.failure

    @property
    def num_left(self) -> int:
        """Count repeats that were not begun, or are to be tried again."""
        return len(self._backlog) + len(self._recorder.observer.held_back)

    @property
    def ran(self) -> Ran:
        ran = self._recorder.ran
        num_cut_off, failure = 0, None
        if self.failure:
            failure = str(self.failure)
            num_over = ran.states.total() + ran.num_finished_elsewhere
            num_cut_off = self._backlog.num_known - num_over - self.num_left
        return replace(
            ran,
            num_not_started=self.num_left,
            num_cut_off=num_cut_off,
            was_interrupted=self._stopping.was_interrupted,
            failure=failure,
            saved=self._recorder.observer.saved,
        )

    def run(self) -> None:
        """Run until nothing is left, or until something stops it; then `failure` says why results
        could no longer be written, if so.
        """
        with self._tools.stop.listening() as woken:
            try:
                self._recorder.steer()
                while self._go_on():
                    self._sleep(woken)
                if self.failure is None:
                    finished = self.num_left == 0 and not self._stopping.was_interrupted
                    self._recorder.end(finished=finished)
            except LostError:
                self._stopping.failure = StoreError(
                    f"this sweep gave no sign for {self._policy.heartbeat_timeout_s:g} s, and "
                    "another took it for dead; repeat the command"
                )
            finally:
                self._end_all(at_once=True)

    def _go_on(self) -> bool:
        """Do all that is due now; False when the sweep is over."""
        self._heartbeat.beat_if_due()
        self._obey()
        self._look()
        dispatcher = self._dispatcher
        dispatcher.go_on_starting()
        if not self._stopping.is_stopping and not dispatcher.starting:
            dispatcher.start_what_fits()
        progress, now_s = self._tools.progress, self._tools.clock()
        if progress.is_live and now_s >= self._show_s:
            running = list(self._runs.values())
            progress.show(running, now_s, self._eta.left_s(), dispatcher.waits_for)
            self._show_s = self._tools.clock() + SHOW_EVERY_S
        is_open = len(self._backlog) > 0
        if self._runs or dispatcher.starting:
            return True
        return is_open and not self._stopping.is_stopping

    def _obey(self) -> None:
        """Do what signals asked for since the last call."""
        asked = self._tools.stop.times_asked
        if asked == self._num_obeyed:
            return
        self._num_obeyed = asked
        at_once = asked > 1
        self._end_all(at_once=at_once)
        if self._runs and not at_once:
            attempts = counted(len(self._runs), "running attempt")
            self._tools.tell(f"ending {attempts}; Ctrl-C once more kills")

    def _end_all(self, *, at_once: bool) -> None:
        for attempt in self._runs:
            attempt.stop(at_once=at_once)

    def _look(self) -> None:
        for attempt, given in list(self._runs.items()):
            self._heartbeat.beat_if_due()  # recording the one before may have taken long
            attempt.look()
            ended = attempt.ended()
            if ended is None:
                continue
            del self._runs[attempt]
            judged = judge(given.folder, ended, self._policy.launcher)
            self._dispatcher.record(given, judged)

    def _sleep(self, woken: socket.socket) -> None:
        """Sleep until a process ends, a signal comes, or something is due."""
        due_s = [self._heartbeat.next_s]
        if self._tools.progress.is_live:
            due_s.append(self._show_s)
        if not self._stopping.is_stopping:
            due_s.append(self._dispatcher.due_s)
        wait_s = min(due_s) - self._tools.clock()
        descriptors = [woken.fileno()]
        for attempt in self._runs:
            wait_s = min(wait_s, attempt.next_look_s())
            descriptors.append(attempt.descriptor)
        if self._dispatcher.starting:
            descriptors.append(self._dispatcher.starting.loading)
        self._tools.wait(descriptors, max(0.0, wait_s))
        if wait_readable([woken.fileno()]):
            woken.recv(4096)
