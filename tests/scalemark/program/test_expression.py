"""Items per step are arithmetic of axes, and nothing else is items_per_step."""

import pytest

from scalemark.program.expression import (
    ExpressionError,
    amount,
    names,
    substituted,
    value_of,
)

AXES = {
    "batch_size": 64,
    "num_gpus": 4,
    "precision": "fp16",
    "axes.seq_len": 2048,
    "momentum": None,
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("batch_size*num_gpus*seq_len", 64 * 4 * 2048),
        ("(batch_size + 1) // 2 / 4", 8.0),
        ("-batch_size + 70", 6),
        ("1.5", 1.5),
    ],
)
def test_it_is_arithmetic_of_axes(text, value):
    assert amount("items_per_step", AXES | {"items_per_step": text}) == value


def test_it_tells_the_axes_it_names():
    assert names("num_gpus*(batch_size+num_gpus)") == ["num_gpus", "batch_size"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("batchsize*2", "batchsize is no axis of this trial, did you mean batch_size?"),
        ("momentum*2", "momentum is no axis of this trial"),
        ("2**40", r"found 2 \*\* 40; wanted numbers, axes"),
        ("__import__('os').system('x')", "found __import__"),
        ("batch_size.real", "found batch_size.real"),
        ("[1][0]", "found "),
        ("True", "is True; wanted more than 0"),
        ("'8'", "is 8; wanted more than 0"),
        ("batch_size *", "wanted numbers, axes"),
        (" ", "wanted numbers, axes"),
        ("(" * 150 + "1" + ")" * 150, "301 characters; wanted 200 or less"),
        ("1/0", "division by zero; wanted numbers, axes"),
        ("batch_size-64", "is 0; wanted more than 0"),
        ("1e308*10", "is inf; wanted a finite number"),
        ("precision*2", "found fp16, which is no number"),
    ],
)
def test_what_has_no_value_is_refused(text, problem):
    with pytest.raises(ExpressionError, match=problem):
        amount("items_per_step", AXES | {"items_per_step": text})


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("num_gpu*2", "num_gpu is no axis of this trial, did you mean num_gpus?"),
        ("zzz*2", "zzz is no axis of this trial, wanted one of num_gpus, width"),
        ("batch*2", "batch is no axis of this trial, did you mean batch_size?"),
        ("batch_size*2", "as nothing uses it; give batch_size=, and write {batch_size} into"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(text, hint):
    with pytest.raises(ExpressionError) as error:
        value_of(text, {"num_gpus": 2, "precision": "fp16", "width": 8})
    assert hint in str(error.value)


def test_comparisons_are_true_or_false():
    axes = {"tp": 4, "num_gpus": 2, "parallel": "fsdp"}
    assert value_of("tp > num_gpus and parallel == 'fsdp'", axes) is True
    assert value_of("not tp % num_gpus == 0", axes) is False


def test_derived_axes_stand_for_their_expressions():
    derived = {"accum": "global_batch // micro", "micro": "axes.batch + 1"}
    text = substituted("2*accum", derived)
    assert value_of(text, {"global_batch": 64, "batch": 7}) == 16
    with pytest.raises(ExpressionError, match="derived from itself"):
        substituted("a", {"a": "b*2", "b": "a*2"})
