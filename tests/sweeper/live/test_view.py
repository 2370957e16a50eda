"""The table of a sweep fits every width, says what runs where, and takes no text for markup."""

import io
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import AttemptResult, Outcome, State
from store.reading.sweeps import FinishedRepeat, SweepState
from sweeper.live.view import (
    MOST_OF_MESSAGE,
    RunningAttempt,
    Snapshot,
    counts_of,
    plain_line,
    render,
)
from tests.filled import measurement


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


def ended(**changes: object) -> FinishedRepeat:
    repeat = FinishedRepeat(
        trial_id="0123abcd",
        model="vgg16",
        strategy="ps_cpu",
        num_gpus=1,
        hosts=1,
        device_kind="gpu",
        repeat=1,
        attempt=1,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        outcome=Outcome.COMPLETED,
        message="",
        throughput=1234.5,
        item="images",
        verdict="valid",
        duration_s=12.34,
    )
    return replace(repeat, **changes)


def failed(outcome: str, message: str, **changes: object) -> FinishedRepeat:
    lacks = {"throughput": None, "item": None, "verdict": None}
    return ended(outcome=Outcome(outcome), message=message, **lacks, **changes)


def line_of(result: AttemptResult, num_done: int = 1, eta_s: float | None = None) -> str:
    return plain_line(
        "vgg16-ps_cpu-x1", result, 12.34, num_done=num_done, total=12, eta_s=eta_s
    ).plain


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
    doubtful = ended(model="b", item="tokens", verdict="suspect")
    lines = drawn(shown_on(recent=(ended(), doubtful)))
    assert "1234.50 images/s  vgg16-ps_cpu-x1 0123abcd" in lines
    assert "1234.50 tokens/s  b-ps_cpu-x1 0123abcd      (in doubt)" in lines


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
        recent=(ended(model=evil), failed("failed", evil, model=evil)),
        notes=(evil,),
    )
    assert sum(line.count(evil) for line in drawn(shown, 160)) == 7
    assert evil in line_of(AttemptResult(outcome="failed", message=evil))


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
    result = AttemptResult(
        outcome="completed",
        message="no profile",
        measurement=replace(measurement(1234.5), median_step_s=0.1, jitter_s=0.002),
        verdict="suspect",
        verdict_reasons=("hot",),
    )
    assert line_of(result, num_done=3, eta_s=330.0) == (
        f"[ 3/12] {'vgg16-ps_cpu-x1':<36}   1234.50 images/s  step    100.0 ms, jitter 2.0  (no profile)  (hot)"
        "  took 12.3 s  ETA 6 min"
    )
    result = replace(result, verdict_reasons=("jitter 12 %", "hot"))
    assert "  (jitter 12 %, and 1 more)  took" in line_of(result)
    unknown = replace(result, measurement=replace(result.measurement, jitter_s=None))
    assert "  step    100.0 ms  (no profile)" in line_of(unknown)


@pytest.mark.parametrize(
    ("outcome", "message", "said"),
    [
        ("out_of_memory", "no room\nfor it", "out_of_memory: no room for it  took 12.3 s"),
        # without what a program printed
        ("invalid", "found no number.\nIts last lines:\nhello", "found no number.  took 12.3 s"),
        ("invalid", "no number " * 100, "no number…  took 12.3 s"),
    ],
)
def test_a_plain_line_tells_what_was_wrong_in_one_line(outcome, message, said):
    line = line_of(AttemptResult(outcome=outcome, message=message), num_done=12, eta_s=0.0)
    assert line.startswith(f"[12/12] {'vgg16-ps_cpu-x1':<36} {outcome}: ")
    assert line.endswith(said)
    assert len(line) < MOST_OF_MESSAGE + 100
