"""Parsers written for tf_cnn_benchmarks read our log."""

import re

from scalemark.records.measurement import StepSample
from scalemark.records.outcomes import Phase
from trainer.ancestor_log import lines

# The pattern that tf_cnn_benchmarks' own tests use (benchmark_cnn_test_util: `regex = ...`).
STEP_LINE = re.compile(
    r"^(\d+)\timages/sec: (\d+\.\d) \+/- (\d+\.\d) \(jitter = (\d+\.\d)\)\t(\d+\.\d{3}|nan)$"
)


def samples(durations_s, num_steps=1, loss=7.0):
    return [
        StepSample(
            step=index * num_steps,
            phase=Phase.MEASURE,
            start_s=0.0,
            duration_s=s,
            data_wait_s=0.0,
            loss=loss,
            num_steps=num_steps,
        )
        for index, s in enumerate(durations_s)
    ]


def test_the_first_and_every_tenth_step_have_a_line():
    heading, *steps, rule, total, last_rule = lines(samples([0.5] * 21), 32, 64.0)
    assert heading == "Step\tImg/sec\ttotal_loss"
    assert [STEP_LINE.match(line).groups() for line in steps] == [
        (step, "64.0", "0.0", "0.0", "7.000") for step in ("1", "10", "20")
    ]
    assert (rule, total, last_rule) == ("-" * 64, "total images/sec: 64.00", "-" * 64)


def test_calls_of_many_steps_count_their_steps():
    steps = [
        line for line in lines(samples([1.0] * 5, num_steps=4), 8, 32.0) if STEP_LINE.match(line)
    ]
    assert [line.split("\t")[0] for line in steps] == ["4", "12", "20"]
    assert "images/sec: 32.0 " in steps[0]


def test_the_spread_is_the_ancestors():
    """Mean is images over time; uncertainty is the deviation of speeds over the root of their number."""
    step = [line for line in lines(samples([0.5] * 5 + [1.0] * 5), 1, 1.3) if line.startswith("10")]
    assert STEP_LINE.match(step[0]).groups() == ("10", "1.3", "0.2", "0.7", "7.000")


def test_a_call_of_many_steps_is_one_sample_of_the_spread():
    calls = [
        line
        for line in lines(samples([4.0] * 5 + [8.0] * 5, num_steps=10), 1, 1.7)
        if line.startswith("100\t")
    ]
    assert "+/- 0.2 " in calls[0], "deviation 0.625 over the root of 10 calls, not of 100 steps"


def test_a_loss_that_is_no_number_prints_as_nan():
    assert any(line.endswith("\tnan") for line in lines(samples([0.5], loss=None), 1, 2.0))
