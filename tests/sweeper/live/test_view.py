"""The table of a sweep fits every width, says what runs where, and takes no text for markup."""

import io
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import AttemptResult, State
from store.reading.sweeps import SweepState
from sweeper.live.view import (
    MOST_OF_MESSAGE,
    EndedAttempt,
    RunningAttempt,
    Snapshot,
    counts_of,
    plain_line,
    render,
)


def running(
    *slots: int, label: str = "resnet50-replicated_nccl-x4", **changes: object
) -> RunningAttempt:
    attempt = RunningAttempt(
        slots=slots,
        label=label,
        repeat=2,
        attempt=1,
        doing="step 12 of about 40",
        elapsed_s=34.2,
        expected_s=80.0,
    )
    return replace(attempt, **changes)


def ended(label: str = "vgg16-ps_cpu-x1", **changes: object) -> EndedAttempt:
    attempt = EndedAttempt(
        label=label,
        outcome="completed",
        message="",
        duration_s=12.34,
        throughput=1234.5,
        item="images",
        median_step_s=0.1,
        jitter_s=0.002,
        verdict="valid",
        verdict_reasons=(),
    )
    return replace(attempt, **changes)


def failed(outcome: str, message: str) -> EndedAttempt:
    return ended(
        outcome=outcome,
        message=message,
        throughput=None,
        item=None,
        median_step_s=None,
        jitter_s=None,
        verdict=None,
    )


def shown_on(*attempts: RunningAttempt, **changes: object) -> Snapshot:
    return replace(
        Snapshot(
            sweep="night-1",
            machine="host7: 64 cores, 503 GiB; 8 usable GPUs: NVIDIA A100-SXM4-80GB, driver 535.1",
            kind=DeviceKind.GPU,
            running=attempts,
            counts={
                State.COMPLETED: 9,
                State.OUT_OF_MEMORY: 2,
                State.HUNG: 1,
                State.SKIPPED: 4,
                State.RUNNING: len(attempts),
                State.PENDING: 28 - len(attempts),
            },
            recent=(ended(), failed("out_of_memory", "no room\nfor it")),
            eta_s=3725.0,
        ),
        **changes,
    )


def drawn(
    shown: Snapshot, width: int = 80, height: int = 50, *, terminal: bool = True
) -> list[str]:
    console = Console(
        width=width, height=height, record=True, file=io.StringIO(), force_terminal=terminal
    )
    console.print(render(shown))
    return [line.rstrip() for line in console.export_text().splitlines()]


EIGHT = (
    running(0, 1, 2, 3),
    running(4, 6, label="vgg16-ps_cpu-x1", doing="building", attempt=2, expected_s=None),
)


@pytest.mark.parametrize("width", [100, 40])
def test_it_tells_what_runs_where_and_what_has_ended(width, snapshot):
    assert drawn(shown_on(*EIGHT), width) == snapshot


@pytest.mark.parametrize("width", [20, 60, 80, 160])
@pytest.mark.parametrize("num", [0, 1, 16])
def test_no_line_is_wider_than_the_terminal(num, width):
    attempts = [running(slot, label=f"resnet50-x1 seed={slot}") for slot in range(num)]
    lines = drawn(shown_on(*attempts), width)
    assert max(map(cell_len, lines)) <= width
    if width >= 60:
        for slot in range(num):
            assert sum(f"seed={slot} " in line and f"GPU {slot} " in line for line in lines) == 1


def test_what_was_interrupted_is_no_failure_and_not_done():
    states = {State.COMPLETED: 2, State.INTERRUPTED: 1, State.RUNNING: 2, State.PENDING: 1}
    counts = counts_of(states, num_running=1)
    assert counts == {
        State.COMPLETED: 2,
        State.INTERRUPTED: 1,
        State.RUNNING: 1,
        State.PENDING: 2,
    }
    assert drawn(shown_on(counts=counts, eta_s=None))[2].endswith("  2/6  no ETA yet")
    for state in (SweepState.ENDED, SweepState.KILLED):
        assert drawn(shown_on(counts=counts, eta_s=None, state=state))[2].endswith("  2/6")


def test_failures_are_red_where_there_are_colors():
    colored = Console(
        width=80, file=io.StringIO(), force_terminal=True, color_system="standard", no_color=False
    )
    colored.print(render(shown_on()))
    assert "\x1b[1;31m2 out_of_memory" in colored.file.getvalue()


def test_speeds_are_shown_as_they_land_with_what_makes_them_doubtful():
    doubtful = ended("b", item="tokens", verdict="suspect", verdict_reasons=("jitter 12 %", "hot"))
    lines = drawn(shown_on(recent=(ended(), doubtful)))
    assert "1234.50 images/s  vgg16-ps_cpu-x1" in lines
    assert "1234.50 tokens/s  b                (suspect: jitter 12 %, and 1 more)" in lines


@pytest.mark.parametrize(
    ("counts", "eta_s", "reported"),
    [
        ({State.PENDING: 1000}, 10.0, "0/1000  ETA 10 s"),
        (
            {State.COMPLETED: 10, State.SKIPPED: 10, State.PENDING: 20},
            None,
            "20/40  no ETA yet",
        ),
        ({State.COMPLETED: 20, State.HUNG: 20}, 0.0, "40/40"),
        ({}, None, "0/0"),
    ],
)
def test_the_bar_has_counts_and_the_time_that_is_left(counts, eta_s, reported):
    assert drawn(shown_on(counts=counts, eta_s=eta_s))[2].endswith(f"  {reported}")


def test_markup_in_names_is_shown_as_it_is():
    evil = "[red]x[/red]"
    shown = shown_on(
        running(0, label=evil),
        sweep=evil,
        machine=evil,
        recent=(ended(evil), failed("failed", evil)),
        notes=(evil,),
    )
    assert sum(line.count(evil) for line in drawn(shown, 160)) == 6
    assert evil in plain_line(ended(evil), num_done=1, total=2, eta_s=None).plain


@settings(deadline=None, max_examples=50)
@given(st.text(max_size=60), st.integers(30, 160))
def test_no_text_moves_the_cursor_or_leaves_the_terminal(text, width):
    shown = shown_on(
        running(0, label=text, doing=text),
        sweep=text,
        machine=text,
        recent=(failed("failed", text),),
        notes=(text,),
    )
    lines = drawn(shown, width)
    assert all(char.isprintable() for line in lines for char in line)
    assert max(map(cell_len, lines)) <= width


def test_a_plain_line_tells_speed_doubt_time_and_eta():
    line = plain_line(
        ended(verdict="suspect", verdict_reasons=("hot",), message="no profile"),
        num_done=3,
        total=12,
        eta_s=330.0,
    )
    assert line.plain == (
        f"[ 3/12] {'vgg16-ps_cpu-x1':<36}   1234.50 images/s  step    100.0 ms, jitter 2.0  (no profile)  (suspect: hot)"
        "  took 12.3 s  ETA 6 min"
    )


def test_a_plain_line_tells_what_was_wrong_in_one_line():
    line = plain_line(failed("out_of_memory", "no room\nfor it"), num_done=12, total=12, eta_s=0.0)
    assert (
        line.plain == f"[12/12] {'vgg16-ps_cpu-x1':<36} out_of_memory: no room for it  took 12.3 s"
    )


def test_a_plain_line_leaves_out_what_a_program_printed():
    why = failed("invalid", "found no number.\nIts last lines:\nhello")
    line = plain_line(why, num_done=1, total=1, eta_s=0.0)
    assert "invalid: found no number.  took" in line.plain


def test_a_long_message_is_cut_in_a_plain_line():
    line = plain_line(failed("invalid", "no number " * 100), num_done=1, total=1, eta_s=0.0)
    assert "no number…  took" in line.plain
    assert len(line.plain) < MOST_OF_MESSAGE + 100


def test_an_ended_attempt_has_figures_only_when_it_completed():
    result = AttemptResult(outcome="failed", message="x")
    assert EndedAttempt.of("a", result, 1.0) == EndedAttempt(
        label="a", outcome="failed", message="x", duration_s=1.0
    )
