"""A record that travels says all that is known of a number, and nothing that no attempt can be."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.exchange.portable import Annotation, PackedSteps, PortableAttempt, from_json, to_json
from tests.filled import NOON, STEPS
from tests.portables import attempt, everything, measured
from tests.specs import small


@pytest.mark.parametrize("record", everything(), ids=lambda record: type(record).__name__)
def test_a_record_is_read_back_as_it_was_written(record):
    text = to_json(record)
    assert "\n" not in text
    assert from_json(text) == record
    assert to_json(from_json(text)) == text


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
numbers = st.floats(allow_nan=False, allow_infinity=False, width=64)
times = st.datetimes(
    min_value=datetime(1970, 1, 2), max_value=datetime(2100, 1, 1), timezones=st.just(UTC)
)


@st.composite
def packed(draw: st.DrawFn) -> PackedSteps:
    num_calls = draw(st.integers(1, 20))
    whole = st.lists(st.integers(0, 2**40), min_size=num_calls, max_size=num_calls)
    durations = draw(whole)
    gaps = draw(st.lists(st.integers(-(2**20), 2**40), min_size=num_calls, max_size=num_calls))
    losses = draw(
        st.lists(st.integers(0, 10**5) | st.none(), min_size=num_calls, max_size=num_calls)
    )
    return PackedSteps(
        first_step=draw(st.integers(0, 10**6)),
        num_steps=draw(st.integers(1, 100)),
        num_warm_up=draw(st.integers(0, num_calls)),
        time_unit_us=10 ** draw(st.integers(0, 4)),
        least_duration=min(durations),
        least_loss=draw(numbers) if any(loss is not None for loss in losses) else None,
        loss_unit=draw(st.floats(1e-300, 1e300)),
        duration_over_least=tuple(duration - min(durations) for duration in durations),
        data_wait=tuple(draw(whole)),
        gap_before=tuple(gaps),
        loss_over_least=tuple(losses),
    )


@st.composite
def attempts(draw: st.DrawFn) -> PortableAttempt:
    spec = small(
        seed=draw(st.integers(0, 2**31 - 1)),
        learning_rate=draw(st.floats(0, 10)),
        data_dir=draw(texts),
    )
    throughput = draw(st.floats(0, 1e299))
    return attempt(
        spec,
        throughput,
        message=draw(texts),
        exit_code=draw(st.none() | st.integers(-255, 255)),
        run_dir=draw(texts),
        started_at=draw(times),
        duration_s=draw(st.none() | st.floats(0, 3e8)),
        deleted_at=draw(st.none() | times),
        steps=draw(st.none() | packed()),
        tags=tuple(draw(st.lists(st.builds(Annotation, text=texts, added_at=times), max_size=3))),
        measured=replace(
            measured(throughput),
            op_placement=draw(
                st.dictionaries(texts, st.dictionaries(texts, st.integers(0, 9)), max_size=2)
            ),
        ),
    )


@given(attempts())
@settings(deadline=None)
def test_whatever_is_in_a_record_is_read_back(record):
    assert from_json(to_json(record)) == record


def changed(*path: str, to: Any) -> str:
    """The JSON of an attempt with one value in it changed."""
    reported = json.loads(to_json(attempt()))
    around = reported
    for name in path[:-1]:
        around = around[name]
    around[path[-1]] = to
    return json.dumps(reported)


IN_MEASUREMENT = ("measured", "measurement")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (changed(*IN_MEASUREMENT, "throughput", to=-1), r"throughput=-1.0: wanted 0 or more"),
        (changed(*IN_MEASUREMENT, "throughput", to=float("nan")), r"NaN: wanted a finite number"),
        (changed(*IN_MEASUREMENT, "throughput", to=float("inf")), r"Infinity: wanted a finite number"),
        (changed(*IN_MEASUREMENT, "throughput", to="100"), r"measurement.throughput=100: wanted a number"),
        (changed(*IN_MEASUREMENT, "throughput", to=None), r"wanted a number"),
        (changed(*IN_MEASUREMENT, "throughput_low", to=106), r"throughput_low=106.0 is more than throughput_high=105"),
        (changed(*IN_MEASUREMENT, "window_s", to=-0.5), r"window_s=-0.5: wanted 0 or more"),
        (changed(*IN_MEASUREMENT, "steady", to=1), r"steady=1: wanted true or false"),
        (changed("spec", "num_gpus", to=0), r"num_gpus=0: wanted 1 or more"),
        (changed("spec", "device_kind", to="tpu"), r"device_kind=tpu: wanted one of gpu, cpu_device"),
        (changed("spec", "seed", to=2), r"trial_id=\w{16}: the digest of its spec is \w{16}"),
        (changed("spec", "colour", to="red"), r"spec: unknown: colour; wanted model, num_gpus"),
        (changed("spec", to=[]), r"spec: found \[\], wanted an object"),
        (changed("started_at", to="2026-01-01T00:00:00"), r"started_at=2026-01-01 00:00:00: a time without zone"),
        (changed("started_at", to="yesterday"), r"started_at=yesterday: wanted a time, as 2026"),
        (changed("started_at", to=12), r"started_at=12: wanted a time"),
        (changed("outcome", to="great"), r"outcome=great: wanted one of completed, failed"),
        (changed("measured", "verdict", to="good"), r"verdict=good: wanted one of valid, suspect, invalid"),
        (changed("measured", to=None), r"outcome=completed: wanted a measurement"),
        (changed("measured", "measurement", to={}), r"measurement: cores_taken_by_others, .* missing"),
        (changed("repeat", "num_attempts", to=0), r"attempt=1: wanted no more than the 0 of"),
        (changed("repeat", "state", to="running"), r"repeat.state=running: wanted pending"),
        (changed("repeat", "number", to=0), r"repeat.number=0: wanted 1 or more"),
        (changed("attempt", to=0), r"attempt=0: wanted 1 or more"),
        (changed("attempt", to=True), r"attempt=True: wanted a whole number"),
        (changed("exit_code", to=2**31), r"exit_code=2147483648: wanted no more than 2147483647"),
        (changed("duration_s", to=-1), r"duration_s=-1.0: wanted 0 or more"),
        (changed("duration_s", to=10**400), r"duration_s=10+\.\.\.: wanted a finite number"),
        (changed("duration_s", to=1e20), r"duration_s=1e\+20: wanted 315576000 \(ten years\) or less"),
        (changed("message", to="a\0b"), r"message: a NUL character in it, which no database takes"),
        (changed("message", to="\ud800"), r"message: half of a surrogate pair"),
        (changed("sweep", "uid", to="xyz"), r"sweep.uid=xyz: wanted 16 hexadecimal digits"),
        (changed("sweep", "name", to=""), r"sweep.name is empty"),
        (changed("environment", "packages", to=[]), r"environment.packages: wanted an object"),
        (changed("environment", "packages", "keras", to=3), r"environment.packages.keras: wanted text"),
        (changed("machine", "gpus", to=[{}]), r"machine.gpus\[0\]: compute_capability, .* missing"),
        (changed("steps", "gap_before", to=[0]), r"steps: lists of \[1, 3\] calls; wanted all of one length"),
        (changed("steps", "duration_over_least", to=[1, 2, 3]), r"steps.duration_over_least: wanted a least of 0"),
        (changed("steps", "data_wait", to=[0, -1, 0]), r"steps.data_wait=-1: wanted 0 or more"),
        (changed("steps", "loss_unit", to=0), r"steps.loss_unit=0.0: wanted a number greater than 0"),
        (changed("steps", "num_warm_up", to=9), r"steps.num_warm_up=9: there are 3 calls"),
        (changed("scalemark", to=2), r'"scalemark": 2: this version reads 1; upgrade scalemark'),
        (changed("kind", to="guess"), r"kind='guess': wanted one of attempt, trial, sweep, reference"),
        (changed("more", to=1), r"unknown: more; wanted sweep, position"),
        ("{}", r'no record of scalemark: wanted an object with "scalemark": 1'),
        ("[1", r"Expecting"),
        ("[" * 100_000, r"nested too deeply"),
    ],
)  # fmt: skip
def test_what_no_attempt_can_be_is_refused_with_its_reason(text, reason):
    with pytest.raises(ValueError, match=reason):
        from_json(text)


def sampled(*indexes: int) -> str:
    """The JSON of an attempt whose steps are a list of these samples."""
    steps = [
        {
            "step": s.step,
            "phase": s.phase,
            "start_s": s.start_s,
            "duration_s": s.duration_s,
            "data_wait_s": 0,
            "loss": s.loss,
        }
        for s in STEPS
    ]
    return changed("steps", to=[steps[index] for index in indexes])


def test_steps_may_be_reported_one_by_one():
    assert from_json(sampled(0, 1, 2)) == attempt()


def test_steps_out_of_order_are_refused():
    with pytest.raises(ValueError, match="step 2: wanted step 1, in calls of 1 steps"):
        from_json(sampled(0, 2, 1))


def test_a_specification_keeps_its_identity_when_a_number_in_it_is_whole():
    record = attempt(small(learning_rate=1))
    assert (
        from_json(to_json(record)).trial_id == record.trial_id != small(learning_rate=1.0).trial_id
    )


def test_the_content_of_an_attempt_is_what_was_measured():
    """Not where its folder is, nor what people made of it."""
    record = attempt()
    moved = replace(
        record,
        run_dir="/moved",
        deleted_at=NOON,
        tags=(Annotation(text="x", added_at=NOON),),
        steps=None,
    )
    assert moved.content() == record.content() != attempt(throughput=101.0).content()
