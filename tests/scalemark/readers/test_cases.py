"""Numbers that were read wrong: each log with what its lines say, or that they cannot tell."""

from pathlib import Path

import pytest

from scalemark.readers.log_text import log_text
from scalemark.readers.search import search

CASES = Path(__file__).parent / "cases"
RIGHT = {  # rates or times per step, steps, item, whether they are of one GPU
    "apostrophe.log": ([1234.5, 1240.1, 1241.1], [10, 20, 30], "images", None),
    "bars_of_16_ranks.log": ([1.147], [1, 2, 3, 4], "samples", False),
    "colossalchat.log": ([118.42], [], "samples", False),
    "dataloader_model.log": ([1912, 1913, 1911], [10, 20, 30], "samples", None),
    "detectron2_then_bar.log": ([2.1912, 2.1675, 2.1442], [19, 39, 59], "", None),
    "dglke.log": ([0.00726, 0.0076, 0.00726, 0.00732], [1900, 2000, 2100, 2200], "", None),
    "elapsed_and_speed.log": ([497.5, 1000, 1000], [100, 200, 300], "images", None),
    "flair.log": ([139.12, 151.9, 163.26], [15, 30, 45], "samples", None),
    "gnmt_mlperf06.log": ([11990, 89553, 98103, 84030], [0, 10, 20, 30], "tokens", None),
    "keras_us_per_step.log": ([52631.6, 66666.7, 66666.7], [], "samples", False),
    "lightning_metrics.csv": ([514.6, 517.1, 519.7], [49, 99, 149], "samples", None),
    "lightning_throughput_monitor.log": ([514.6, 517.1, 519.7], [], "samples", None),
    "local_global.log": ([8096, 8104, 8088], [10, 20, 30], "samples", False),
    "maskrcnn_mlperf06.log": ([0.3149, 0.3171], [20, 40], "", None),
    "megatron_global_batch.log": ([0.087, 0.0865, 0.0884], [25, 26, 27], "", None),
    "mmcv.log.json": ([0.97546, 0.86075, 0.83724], [100, 200, 300], "", None),
    "rl_games_new.log": ([181660, 185195, 198211], [376, 377, 378], "frames", False),
    "rl_games_old.log": ([78179.2, 79179.9, 78379.1], [], "frames", False),
    "rollout_train.log": ([2964.3, 2964.5, 2964.4], [50, 100, 150], "", None),
    "rsl_rl.log": ([36373, 36512, 36481], [10, 11, 12], "timesteps", None),
    "sample_factory.log": ([21299.2, 22528.2, 23142.4], [], "frames", None),
    "sb3.log": ([2730.67, 1224.8, 1170.29], [1, 17, 18], "frames", None),
    "space_thousands.log": ([12345, 12410, 12400], [10, 20, 30], "tokens", None),
    "stylegan.log": ([2.6016, 5.7257, 5.7267, 5.7251], [], "images", None),
    "target_peak.log": ([91234, 91250, 91270], [10, 20, 30], "tokens", None),
    "time_per_100_steps.log": ([0.352, 0.351, 0.353], [100, 200, 300], "", None),
    "trainer_state.json": ([26.3], [], "samples", False),
    "utf16.log": ([12345.6, 12400.1, 12398.7], [10, 20, 30], "tokens", None),
    "verl.log": ([114.89, 114.49], [1, 2], "tokens", True),
    "wandb-summary.json": ([26.3], [16], "samples", None),
    "warm_up_stage.log": ([812.3, 812.9, 812.5], [1, 2, 3], "samples", None),
}


def test_every_case_is_in_the_table():
    assert {path.name for path in CASES.iterdir()} == set(RIGHT)


@pytest.mark.parametrize("name", RIGHT)
def test_a_number_that_was_read_wrong_is_read_right(name: str):
    rates, steps, item, per_gpu = RIGHT[name]
    result = search(log_text(CASES / name).lines, CASES / name)
    best = result.fits[0]
    rated = [one for one in best.rated if one.throughput or not rates[0] > 1 or not item]
    assert not result.is_unsure
    assert [one.throughput or one.step_s for one in rated][: len(rates)] == pytest.approx(
        rates, rel=1e-3
    )
    assert [one.step for one in best.readings if one.step is not None][: len(steps)] == steps
    assert any(one.step is not None for one in best.readings) == bool(steps)
    assert (best.item, best.per_gpu) == (item, per_gpu)


PRINTED = [  # lines of a kind that was read wrong: rates or times per step, and whether of one GPU
    ("iter {n} loss 2.1 step: {n} (3.5{n} s per 100 iterations)", [], None),
    (
        "steps: {n} loss: 10.8 iter time (s): 13.92 samples/sec: 18.3{n}",
        [18.31, 18.32, 18.33],
        None,
    ),
    ("step {n}: 31{n} images/sec/GPU (249{n} images/sec)", [311, 312, 313], True),
    ("step: {n} | consumed_tokens: {n}.05M | tokens_per_sec: 853{n}", [8531, 8532, 8533], None),
]


@pytest.mark.parametrize(("form", "rates", "per_gpu"), PRINTED)
def test_a_line_that_was_read_wrong_is_read_right_or_not_at_all(form, rates, per_gpu):
    result = search([form.format(n=n) for n in (1, 2, 3)])
    rated = [reading for fit in result.fits[:1] for reading in fit.rated]
    assert not result.is_unsure
    assert [reading.throughput for reading in rated] == rates
    assert [reading.items_per_step for reading in rated] == [None] * len(rates)
    assert per_gpu is None or result.fits[0].per_gpu == per_gpu


def test_the_items_of_a_step_are_counted_and_not_asked_for():
    path = CASES / "megatron_global_batch.log"
    assert search(log_text(path).lines, path).fits[0].readings[-1].items_per_step == 2
