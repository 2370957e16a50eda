"""Trials of other work are asked about apart."""

from types import SimpleNamespace

from analysis.advise.questions import axes_apart, questions
from analysis.commands.advise import heading
from scalemark.records.trial import AXES, PROGRAM_AXES, STRATEGY_AXES, WORK
from tests.analysis.made import made


def test_sequences_of_another_length_are_another_question():
    tokens = {"model": "gpt_mini", "image_px": 0}
    results = made(
        ({**tokens, "seq_len": 64}, [100.0, 101.0]),
        ({**tokens, "seq_len": 128}, [60.0, 61.0]),
        ({**tokens, "seq_len": 128, "num_gpus": 2}, [100.0, 101.0]),
    )
    found = questions(results)
    assert [len(one.choices) for one in found] == [1, 2]
    assert [heading(SimpleNamespace(question=one)) for one in found] == [
        "gpt_mini (seq_len 64, synthetic data)",
        "gpt_mini (seq_len 128, synthetic data)",
    ]


def test_every_axis_is_work_or_a_way_to_do_it():
    """An axis of other work that is missing here would be ranked as a choice."""
    devices = ("engine", "device_kind", "num_gpus", "hosts", "scaling")
    ways = (
        *("staged_vars", "gradient_repacking", "compact_gradients", "precision", "loss_scale"),
        *("xla", "recompute", "data_format", "batch_size", "gradient_accumulation"),
        *("steps_per_execution", "cache", "data_threads", "prefetch"),
    )
    measuring = (
        *("min_warm_up_steps", "min_warm_up_s", "num_steps", "min_window_s", "profile"),
        *("replica_times", "seed"),
    )
    known = [*WORK, *PROGRAM_AXES, *STRATEGY_AXES, *devices, *ways, *measuring]
    assert sorted(known) == sorted(AXES)


def test_what_follows_from_a_model_is_told_apart_where_it_does_not():
    settings = [{"model": "a", "learning_rate": 0.1}, {"model": "b", "learning_rate": 0.01}]
    assert axes_apart(settings) == ["model"]
    assert axes_apart([*settings, {"model": "b", "learning_rate": 0.1}]) == [
        *("model", "learning_rate")
    ]


def test_accumulation_is_a_choice_as_the_batch_is():
    results = made(
        ({"num_gpus": 2}, [100.0, 101.0]),
        ({"num_gpus": 2, "gradient_accumulation": 4}, [60.0, 61.0]),
    )
    assert [len(one.choices) for one in questions(results)] == [2]


def test_a_warm_up_of_the_learning_rate_is_no_choice_of_speed():
    results = made(
        ({"learning_rate_warm_up": 0}, [100.0, 101.0]),
        ({"learning_rate_warm_up": 5}, [60.0, 61.0]),
    )
    assert [len(one.choices) for one in questions(results)] == [1, 1]
