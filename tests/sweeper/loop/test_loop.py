"""The loop with a fake ledger, start and clock: what it does, in which order, and when."""

import signal
from dataclasses import replace

import pytest

from scalemark.records.measurement import Outcome, State
from store.errors import LockedError
from sweeper.early_stopping import contests
from sweeper.report import first_unread
from tests.command.programs import ONE as ONE_NUMBER
from tests.command.programs import STEPS, spec_of
from tests.specs import small
from tests.sweeper.loop.fakes import Loop, Script

ONE, TWO = small(seed=1), small(seed=2)
PACKED = {"share_host": True}


def test_every_repeat_is_claimed_and_run_once(stack):
    loop = Loop(stack, [ONE, TWO], repeats=2)
    assert loop.run() == {State.COMPLETED: 4}
    assert loop.ledger.ended is True
    assert all(story == ["claimed", "running", "completed"] for story in loop.ledger.story.values())
    assert loop.clock.now_s == 40.0
    assert loop.notes.settled_states == {State.COMPLETED: 4}


def test_a_state_is_written_before_it_is_acted_upon(stack):
    loop = Loop(stack, [ONE])
    order = []

    def note(what: str) -> None:
        order.append((what, len(loop.start.processes)))

    loop.ledger.fails = note
    loop.run()
    written = [one for one in order if one[0] != "beat"]
    assert written == [("claim", 0), ("run", 0), ("started", 1), ("finish", 1)]


def test_side_by_side_they_take_as_long_as_the_longest(stack):
    loop = Loop(stack, [small(seed=seed) for seed in range(8)], launcher=PACKED)
    assert loop.run() == {State.COMPLETED: 8}
    assert loop.clock.now_s == 10.0


def test_a_crash_is_tried_again_once(stack):
    scripts = {1: Script(crashes=1), 2: Script(crashes=2)}
    loop = Loop(stack, [ONE, TWO], scripts)
    assert loop.run() == {State.COMPLETED: 1, State.FAILED: 1}
    assert loop.ledger.attempts == {1: 2, 2: 2}
    assert loop.orchestrator.ran.num_retries == 2
    (failure,) = loop.orchestrator.ran.failures
    assert "SIGSEGV" in failure.why


def test_an_attempt_that_is_too_slow_is_ended_with_patience(stack):
    loop = Loop(stack, [ONE], {1: Script(takes_s=1e6, deaf=True)}, launcher={"timeout_s": 100.0})
    assert loop.run() == {State.TIMED_OUT: 1}
    assert loop.start.processes[0].signals[:3] == [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]
    assert 100.0 + 2 * 5.0 <= loop.clock.now_s < 112.0


def test_an_attempt_without_a_first_step_has_hung(stack):
    launcher = {"timeout_s": 1e5, "start_timeout_s": 30.0}
    loop = Loop(stack, [ONE], {1: Script(takes_s=1e6)}, launcher=launcher)
    assert loop.run() == {State.HUNG: 1}
    assert 30.0 <= loop.clock.now_s < 32.0


def test_a_stop_ends_what_runs_and_starts_no_more(stack):
    loop = Loop(stack, [ONE, TWO])
    loop.at[3.0] = lambda: loop.stop.ask(1)
    assert loop.run() == {State.INTERRUPTED: 1}
    assert (loop.orchestrator.num_left, loop.ledger.ended) == (1, False)
    assert loop.orchestrator.ran.was_interrupted


def test_a_second_stop_kills(stack):
    loop = Loop(stack, [ONE], {1: Script(takes_s=1e6, deaf=True)})
    loop.at |= {3.0: lambda: loop.stop.ask(1), 4.0: lambda: loop.stop.ask(2)}
    assert loop.run() == {State.INTERRUPTED: 1}
    assert loop.clock.now_s < 6.0


def test_a_first_trial_without_a_number_stops_the_sweep_and_asks(stack):
    specs = [spec_of("train.sh", free=(("axes.zero", zero),)) for zero in (0, 1)]
    unread = {specs[0].seed: Script(outcome=Outcome.INVALID)}
    loop = Loop(stack, specs, unread)
    assert loop.run() == {State.INVALID: 1}
    assert loop.notes.texts == [
        "the first trial has no number, and nothing more is started; "
        "write a pattern for its last lines, as scalemark read --sweep s 'read=regex:img/s ([0-9.,]+)'"
    ]


@pytest.mark.parametrize(("read", "stops"), [(STEPS, False), (ONE_NUMBER, True)])
def test_a_first_trial_without_a_number_stops_nothing_where_its_pattern_read_one(
    stack, read, stops
):
    specs = [spec_of("train.sh", seed=zero, free=(("axes.zero", str(zero)),)) for zero in range(3)]
    unread = {spec.seed: Script(outcome=Outcome.INVALID) for spec in specs[1:]}
    loop = Loop(stack, specs[1:], unread, finished=[replace(specs[0], read=read)])
    assert loop.run() == {State.INVALID: 1 if stops else 2}
    assert bool(loop.notes.texts) == stops


def test_the_question_shows_what_would_read_the_log(tmp_path):
    log = tmp_path / "log.txt"
    log.write_text("step 1 | a 40 tokens/s\nstep 2 | a 41 tokens/s\n")
    headline, choice = first_unread(str(log), "json", "scalemark read --sweep night")
    assert headline.endswith("by one of these, then repeat the command with the same settings")
    assert choice.startswith("scalemark read --sweep night 'read=regex:")
    assert choice.endswith("command.item=tokens")
    same = "regex:(?P<throughput>[0-9]+) tokens/s"
    (refused,) = first_unread(str(log), same, "scalemark read --sweep night")
    assert refused.endswith(
        "; do what its message asks, as scalemark read --sweep night command.items_per_step=64 or read=..."
    ), "a pattern that reads the numbers needs no other"
    slow = "regex:(?P<throughput>[0-9]+)(a|a)*(a|a)*(a|a)*b"
    assert len(first_unread(str(log), slow, "scalemark read --sweep night")) == 2


def test_a_race_gives_up_what_cannot_lead_any_more(stack, monkeypatch):
    monkeypatch.setattr(contests, "RACING", ("seed",))
    specs = [small(seed=seed) for seed in (1, 2)]
    scripts = {1: Script(throughput=100.0), 2: Script(throughput=10.0)}
    loop = Loop(stack, specs, scripts, repeats=4, sweep={"budget": "inf"})
    assert loop.run() == {State.COMPLETED: 3, State.SKIPPED: 5}
    assert sorted(loop.start.order) == [1, 1, 2]
    assert loop.orchestrator.ran.saved.num_spared == 5


def test_what_another_sweep_runs_is_asked_for_again(stack):
    loop = Loop(stack, [ONE])
    loop.ledger.busy = {1}
    assert loop.run() == {State.COMPLETED: 1}
    assert loop.notes.texts == ["waiting: another sweep runs repeats that this one would run"]
    assert loop.clock.now_s == 11.0


def test_a_start_that_must_be_loaded_is_waited_for(stack):
    loop = Loop(stack, [ONE])
    loop.start.loads_until_s = 25.0
    assert loop.run() == {State.COMPLETED: 1}
    assert loop.ledger.story[1] == ["claimed", "running", "completed"]
    assert loop.clock.now_s >= 35.0


def test_a_stop_during_loading_leaves_the_repeat_to_the_next_command(stack):
    loop = Loop(stack, [ONE])
    loop.start.loads_until_s = 1e6
    loop.at[5.0] = lambda: loop.stop.ask(1)
    assert loop.run() == {State.INTERRUPTED: 1}
    assert loop.start.processes == []
    message = loop.ledger.finished[0].result.message
    assert message == "the sweep was interrupted, before it was started"


def test_it_beats_while_an_attempt_runs(stack):
    loop = Loop(stack, [ONE], {1: Script(takes_s=100.0)})
    loop.run()
    assert 10 <= loop.ledger.num_beats <= 12


def test_a_locked_database_is_tried_again_and_then_given_up(stack):
    loop = Loop(stack, [ONE, TWO])
    loop.ledger.fails = lambda what: LockedError("locked") if what == "finish" else None
    assert loop.run() == {}
    assert str(loop.orchestrator.failure) == "locked"
    assert loop.notes.texts == ["locked; trying again"] * 9  # the end of the sweep says the error
    assert list(loop.ledger.states.values()).count(State.RUNNING) == 1
    ran = loop.orchestrator.ran
    assert (ran.num_not_started, ran.num_cut_off) == (1, 1)
