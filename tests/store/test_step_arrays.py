"""Steps in one row: packed, unpacked, and read by plain SQL through the view."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalemark.records.attempt import pack_steps, unpack_steps
from scalemark.records.measurement import Phase, StepSample
from store.database import open_for_reading
from store.ledger import ClaimResult
from store.reading import queries
from store.writer import Writer
from tests.filled import NOON, PLACEMENT, STEPS, attempt, begin
from tests.specs import small

seconds = st.floats(0, 1e5).map(lambda value: round(value, 6))
losses = (
    st.none()
    | st.floats(-(2**20), 2**20, width=32, allow_subnormal=False)
    | st.floats(2**-126, 2**-20, width=32)
)


@st.composite
def samples(draw: st.DrawFn) -> list[StepSample]:
    num, num_steps, first = (
        draw(st.integers(1, 30)),
        draw(st.integers(1, 10)),
        draw(st.integers(0, 5)),
    )
    num_warm_up = draw(st.integers(0, num))
    found, now = [], 0.0
    for index in range(num):
        start, duration = now + draw(seconds), draw(seconds)
        now = start + duration
        phase = Phase.WARM_UP if index < num_warm_up else Phase.MEASURE
        step = first + index * num_steps
        found.append(
            StepSample(
                step=step,
                phase=phase,
                start_s=start,
                duration_s=duration,
                data_wait_s=draw(seconds),
                loss=draw(losses),
                num_steps=num_steps,
            )
        )
    return found


@given(samples())
def test_times_and_losses_come_back_to_five_digits(steps):
    packed = pack_steps(steps)
    found, unit_s = unpack_steps(packed), packed["time_unit_us"] / 1e6
    assert unit_s == 1e-6 or unit_s <= 1.1e-4 * min(step.duration_s for step in steps)
    largest = max((abs(step.loss) for step in steps if step.loss is not None), default=0.0)
    for before, after in zip(steps, found, strict=True):
        assert replace(after, start_s=0, duration_s=0, data_wait_s=0, loss=None) == replace(
            before, start_s=0, duration_s=0, data_wait_s=0, loss=None
        )
        for name in ("start_s", "duration_s", "data_wait_s"):
            assert math.isclose(
                getattr(after, name), getattr(before, name), abs_tol=0.51 * unit_s, rel_tol=1e-12
            )
        assert (after.loss is None) == (before.loss is None)
        if before.loss is not None and after.loss is not None:
            assert abs(after.loss - before.loss) <= 1e-4 * largest


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([STEPS[0], STEPS[2]], "step 2: wanted step 1, in calls of 1 steps"),
        ([STEPS[1], replace(STEPS[2], num_steps=2)], "step 2: wanted step 2, in calls of 1 steps"),
        ([STEPS[1], replace(STEPS[2], phase=Phase.WARM_UP)], "warm_up before measure"),
        ([replace(STEPS[0], duration_s=math.nan)], r"step 0: duration_s=nan: wanted 0 to "),
        ([replace(STEPS[0], start_s=math.inf)], r"step 0: start_s=inf: wanted -"),
        ([replace(STEPS[0], duration_s=-1.0)], r"step 0: duration_s=-1\.0: wanted 0 to "),
        ([replace(STEPS[0], start_s=1e300)], "step 0: start_s=1e\\+300: wanted "),
        ([replace(STEPS[0], data_wait_s=-0.1)], "data_wait_s=-0.1: wanted 0 to "),
        ([STEPS[0], replace(STEPS[1], loss=-1e308)], "step 1: loss=-1e\\+308: wanted "),
        ([replace(STEPS[0], step=-1)], "step -1: step=-1: wanted 0 to "),
        ([replace(STEPS[0], num_steps=0)], "num_steps=0: wanted 1 to "),
    ],
)
def test_what_no_attempt_can_leave_is_refused(steps, message):
    with pytest.raises(ValueError, match=message):
        pack_steps(steps)


def test_the_view_has_a_row_per_step_as_it_was(db):
    steps = [
        StepSample(
            step=0,
            phase=Phase.WARM_UP,
            start_s=0.000012,
            duration_s=2.5,
            data_wait_s=0.5,
            loss=None,
            num_steps=5,
        ),
        StepSample(
            step=5,
            phase=Phase.MEASURE,
            start_s=2.6,
            duration_s=0.101,
            data_wait_s=0.000001,
            loss=6.9078,
            num_steps=5,
        ),
        StepSample(
            step=10,
            phase=Phase.MEASURE,
            start_s=2.8,
            duration_s=0.099,
            data_wait_s=0.0,
            loss=-0.5,
            num_steps=5,
        ),
    ]
    writer = Writer(db)
    ledger = begin(writer, {small(): 2}, rerun=True)
    for repeat, reported in zip(ledger.open_repeats(), (steps, STEPS), strict=True):
        assert ledger.claim(repeat) is ClaimResult.TAKEN
        number = ledger.run(repeat, "/runs/x", PLACEMENT, NOON)
        ledger.finish(
            repeat.repeat_id,
            replace(attempt(small(), 5.0, repeat=repeat.repeat, number=number), steps=reported),
        )
    writer.close()
    found = queries.rows(
        open_for_reading(db), "SELECT * FROM step_samples WHERE attempt_id = 1 ORDER BY step"
    )
    assert [
        StepSample(**{name: value for name, value in row.items() if name != "attempt_id"})
        for row in found
    ] == [
        replace(step, loss=None if step.loss is None else pytest.approx(step.loss))
        for step in steps
    ]
    assert len(queries.rows(open_for_reading(db), "SELECT * FROM step_samples")) == 6


def test_one_loss_that_exploded_does_not_cost_the_others_their_digits():
    losses = [2.301, 2.2, 1.9, 5.1e9, 0.5]
    steps = [
        replace(STEPS[1], step=index, start_s=0.1 * index, loss=loss)
        for index, loss in enumerate(losses)
    ]
    found = [step.loss for step in unpack_steps(pack_steps(steps))]
    assert found == pytest.approx(losses, rel=1e-5)
