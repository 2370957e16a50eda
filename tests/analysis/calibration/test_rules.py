"""One-line rules carry a curve on to more GPUs, from its own rows alone."""

from dataclasses import replace

import numpy as np
import pytest

from analysis.calibration.rules import carried, leverages, log_times
from tests.analysis.calibration.test_fit import TRUE, row

COUNTS = (1, 2, 4)


def logs(times: dict[int, float]) -> dict[int, float]:
    return {num_gpus: float(np.log(time)) for num_gpus, time in times.items()}


@pytest.mark.parametrize(
    ("rule", "times", "on_8"),
    [
        ("linear", {1: 1.0, 2: 1.1, 4: 1.1}, 1.1),
        ("ring", {num: 1 + 0.2 * 2 * (num - 1) / num for num in COUNTS}, 1 + 0.2 * 1.75),
        ("doubling", {1: 1.0, 2: 1.1, 4: 1.21}, 1.331),
        ("amdahl", {num: 1 + 0.1 * (num - 1) for num in COUNTS}, 1.7),
        ("usl", {num: 1 + 0.1 * (num - 1) + 0.01 * num * (num - 1) for num in COUNTS}, 2.26),
    ],
)
def test_a_rule_carries_its_own_curve_on(rule: str, times: dict[int, float], on_8: float) -> None:
    assert np.exp(carried(logs(times), 8)[rule]) == pytest.approx(on_8)


def test_no_rule_lets_a_gpu_more_be_worth_more_than_the_first() -> None:
    found = carried(logs({1: 1.0, 2: 0.9, 4: 0.8}), 8)
    assert {name for name, log in found.items() if np.exp(log) < 0.79} == {"doubling"}


def test_rules_neither_go_back_nor_on_from_one_count() -> None:
    assert carried(logs({1: 1.0, 4: 1.1}), 4) == {}
    assert carried(logs({1: 1.0}), 8) == {}
    assert "usl" not in carried(logs({1: 1.0, 2: 1.1}), 8)


def test_rules_that_go_further_from_few_counts_carry_more_noise_on() -> None:
    found = leverages(logs({1: 1.0, 2: 1.1}), 8)
    assert found["linear"] == pytest.approx(1)
    assert found["doubling"] == pytest.approx(2**2 + 3**2)
    assert found["ring"] == pytest.approx((0.75 / 1.075) ** 2 + (1.75 * 1.1 / 1.175) ** 2, rel=0.2)
    assert found["amdahl"] > found["doubling"]


def test_a_curve_is_of_rows_that_differ_in_gpus_alone() -> None:
    known = [row("vgg16", num, "nccl", TRUE) for num in COUNTS]
    others = [row("vgg16", 2, "nccl", TRUE, 32), row("vgg16", 2, "ps_cpu", TRUE)]
    accumulated = replace(known[1], work=replace(known[1].work, gradient_accumulation=4))
    target = row("vgg16", 8, "nccl")
    assert sorted(log_times(target, [*known, *others, accumulated])) == list(COUNTS)


def test_figures_of_one_count_are_averaged() -> None:
    one = row("vgg16", 1, "nccl", TRUE)
    twice = replace(one, throughput=4 * (one.throughput or 0))
    found = log_times(row("vgg16", 8, "nccl"), [one, twice])
    assert np.exp(found[1]) == pytest.approx(1 / (2 * (one.throughput or 0)))
