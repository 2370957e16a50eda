"""Tables differ in nothing but the axes down and across, and rank only what competes."""

from dataclasses import replace

import pytest

from analysis.measured import measured
from analysis.pivot import RowRank, pivot, varied_tables
from analysis.titles import model_notes, title
from store.database import open_for_reading
from store.errors import StoreError
from store.reading import queries
from tests.filled import MACHINE, fill
from tests.specs import small
from tests.tables import asked

PS = {"variable_update": "parameter_server", "local_parameter_device": "cpu"}


def results(entries, **options):
    fill("r.db", entries, **options)
    return measured(asked(queries.measured, open_for_reading("r.db")))


def numbers(table):
    return {(*row, *column): cell.result.throughput for (row, column), cell in table.cells.items()}


def ranks(table):
    return {(*row, *column): cell.rank for (row, column), cell in table.cells.items()}


def test_strategies_are_down_and_gpus_across():
    (table,) = pivot(results([(small(num_gpus=4), 300.0), (small(), 100.0), (small(**PS), 50.0)]))
    assert table.rows == (("ps_cpu",), ("replicated_none",))
    assert table.columns == ((1,), (4,))
    assert numbers(table) == {
        ("replicated_none", 4): 300.0,
        ("replicated_none", 1): 100.0,
        ("ps_cpu", 1): 50.0,
    }


@pytest.mark.parametrize(
    "change",
    [{"batch_size": 8}, {"precision": "bf16"}, {"seed": 2}, {"data": "photos"}, {"momentum": 0.5}],
)
def test_trials_that_differ_in_another_axis_get_tables_that_name_it(change):
    first, second = pivot(results([(small(), 10.0), (small(**change), 1000.0)]))
    (axis,) = change
    assert first.setting[axis] != second.setting[axis]
    assert [list(numbers(table).values()) for table in (first, second)] == [[10.0], [1000.0]]


def test_a_table_names_a_variable_that_its_trials_inherit():
    ring = small(free=(("env.NCCL_ALGO", "Ring"),))
    found = pivot(results([(ring, 10.0), (small(), 20.0)]))
    assert [title(table.setting).rpartition(", ")[2] for table in found] == [
        "NCCL_ALGO Ring)",
        "NCCL_ALGO inherited)",
    ]


def test_machines_get_tables_of_their_own():
    fill("r.db", [(small(), 10.0)])
    found = pivot(results([(small(), 99.0)], name="second", machine=replace(MACHINE, host="other")))
    assert [(table.environment.host, *numbers(table).values()) for table in found] == [
        ("testbox", 10.0),
        ("other", 99.0),
    ]


def test_strong_scaling_is_one_table_reported_by_its_global_batch():
    (table,) = pivot(
        results(
            [
                (small(scaling="strong", batch_size=8), 10.0),
                (small(scaling="strong", batch_size=4, num_gpus=2), 15.0),
            ]
        )
    )
    assert str(table.setting["batch_size"]) == "8 in all"


def strong(model, batch_size):
    return small(model=model, scaling="strong", batch_size=batch_size), float(batch_size)


def test_global_batches_go_by_size():
    (table,) = pivot(
        results([strong("vgg16", 256), strong("vgg16", 64)]), ("batch_size",), ("strategy",)
    )
    assert [str(label) for (label,) in table.rows] == ["64 in all", "256 in all"]


def test_models_across_that_have_several_batches_get_a_table_for_each():
    sizes = [strong("vgg16", 256), strong("vgg16", 64), strong("resnet50", 32)]
    found = pivot(results(sizes), ("num_gpus",), ("model",))
    assert [str(table.setting["batch_size"]) for table in found] == [
        "256 in all",
        "64 in all",
        "32 in all",
    ]


def test_a_global_batch_is_never_the_same_as_a_batch_per_gpu():
    found = results([(small(batch_size=8), 10.0), (small(batch_size=8, scaling="strong"), 11.0)])
    assert len(pivot(found, ("scaling",), ("num_gpus",))) == 2


@pytest.mark.parametrize("axis", ["image_px", "seq_len", "num_classes"])
def test_other_work_is_no_better_choice(axis):
    (table,) = pivot(
        results([(small(**{axis: 64}), 100.0), (small(**{axis: 128}), 30.0)]),
        (axis,),
        ("strategy",),
    )
    assert set(ranks(table).values()) == {RowRank.ALONE}


def test_any_axes_go_down_and_across():
    found = results(
        [
            (small(precision=precision, num_gpus=num), num * speed)
            for precision, speed in (("fp32", 10.0), ("bf16", 20.0))
            for num in (1, 2)
        ]
    )
    (table,) = pivot(found, ("num_gpus", "strategy"), ("precision",))
    assert table.columns == (("bf16",), ("fp32",))
    assert numbers(table)[2, "replicated_none", "bf16"] == 40.0


def test_a_part_of_the_strategy_can_be_an_axis():
    (table,) = pivot(
        results([(small(), 10.0), (small(all_reduce="pscpu"), 11.0)]),
        ("all_reduce",),
        ("num_gpus",),
    )
    assert table.rows == (("none",), ("pscpu",))


def test_models_across_keep_what_each_has_of_its_own():
    entries = [
        (small(model="vgg16", batch_size=4), 10.0),
        (small(model="resnet50", image_px=64), 20.0),
        (small(model="resnet50", image_px=64, num_gpus=2), 30.0),
    ]
    (table,) = pivot(results(entries), ("num_gpus",), ("model",))
    assert table.columns == (("vgg16",), ("resnet50",))  # as they were asked for
    assert table.of_models["resnet50"]["image_px"] == 64
    assert table.of_models["vgg16"]["batch_size"] == 4
    assert set(ranks(table).values()) == {RowRank.ALONE}, (
        "a model is no choice, and neither are more GPUs"
    )


@pytest.mark.parametrize(
    ("rows", "columns", "said"),
    [
        (("modl",), ("num_gpus",), "modl: no such axis; did you mean model?"),
        (("model",), ("model",), "model: wanted down or across, once"),
    ],
)
def test_axes_that_are_none_are_refused(rows, columns, said):
    with pytest.raises(StoreError, match=said):
        pivot(results([(small(), 10.0)]), rows, columns)


def test_of_many_axes_those_that_vary_are_named():
    entries = [(small(seed=seed, num_gpus=num), 10.0) for seed in (1, 2) for num in (1, 2)]
    with pytest.raises(
        StoreError,
        match=r"foo: no such axis; of \d+ names these vary: (num_gpus, seed|seed, num_gpus)$",
    ):
        pivot(results(entries), ("foo",))


def test_nothing_has_no_tables():
    assert pivot([]) == []


def test_the_best_of_a_column_ties_with_what_repeats_cannot_tell_from_it():
    entries = [(small(), speed) for speed in (100.0, 102.0, 101.0)]
    entries += [(small(**PS), speed) for speed in (99.0, 103.0, 100.0)]
    entries += [(small(all_reduce="pscpu"), speed) for speed in (50.0, 51.0, 52.0)]
    (table,) = pivot(results(entries))
    assert ranks(table) == {
        ("replicated_none", 1): RowRank.BEST,
        ("ps_cpu", 1): RowRank.TIE,
        ("replicated_pscpu", 1): RowRank.SLOWER,
    }


def test_of_one_process_each_nobody_knows_which_is_slower():
    (table,) = pivot(
        results(
            [
                (small(), 100.0),
                (small(**PS), 50.0),
                (small(num_gpus=2), 150.0),
                (small(num_gpus=2, **PS), None),
            ]
        )
    )
    assert ranks(table) == {
        ("replicated_none", 1): RowRank.BEST,
        ("ps_cpu", 1): RowRank.UNKNOWN,
        ("replicated_none", 2): RowRank.ALONE,
        ("ps_cpu", 2): RowRank.ALONE,
    }


def test_models_of_tokens_keep_their_lengths_and_models_of_images_name_none():
    trials = [
        (small(model="gpt_mini", image_px=0, seq_len=128), 10.0),
        (small(model="bert_tiny", image_px=0, seq_len=64), 20.0),
        (small(model="resnet50", image_px=64), 30.0),
    ]
    (table,) = pivot(results(trials), ("num_gpus",), ("model",))
    lengths = {model: own["seq_len"] for model, own in table.of_models.items()}
    assert lengths == {"gpt_mini": 128, "bert_tiny": 64, "resnet50": 0}
    notes = model_notes(table)
    assert "image_px 64: resnet50" in notes
    assert "seq_len 128: gpt_mini; 64: bert_tiny" in notes


def test_the_title_of_a_model_of_tokens_names_its_length_and_no_image():
    (table,) = pivot(results([(small(model="gpt_mini", image_px=0, seq_len=128), 10.0)]))
    named = title(table.setting)
    assert "seq_len 128" in named
    assert "image_px" not in named


def test_what_was_varied_is_one_table_for_each_model():
    """Precision x XLA x batch x GPUs of two models were 32 tables of one row."""
    entries = [
        (small(model=model, precision=precision, xla=xla, batch_size=batch, num_gpus=num), 10.0)
        for model in ("resnet50", "vgg16")
        for precision in ("fp32", "fp16", "bf16")
        for xla in ("off", "on")
        for batch in (32, 64, 128)
        for num in (1, 2)
    ]
    tables = varied_tables(results(entries))
    assert [table.setting["model"] for table in tables] == ["resnet50", "vgg16"]
    for table in tables:
        assert table.rows_by == ("precision", "xla", "batch_size")
        assert table.columns_by == ("num_gpus",)
        assert len(table.results) == 36
        assert table.setting["strategy"] == "replicated_none"


def test_on_one_number_of_gpus_the_axis_with_most_values_is_across():
    entries = [
        (small(precision=precision, batch_size=batch), 10.0)
        for precision in ("fp32", "bf16")
        for batch in (2, 4, 8)
    ]
    (table,) = varied_tables(results(entries))
    assert (table.rows_by, table.columns_by) == (("precision",), ("batch_size",))


def test_one_axis_of_many_values_is_down():
    entries = [(small(batch_size=batch), 10.0) for batch in range(1, 41)]
    (table,) = varied_tables(results(entries))
    assert (table.rows_by, table.columns_by) == (("batch_size",), ("num_gpus",))
    assert len(table.rows) == 40


def test_an_axis_that_the_planner_sets_by_another_makes_no_rows():
    """A bug: fp16 was never compared with fp32, since data_format=auto differs."""
    formats = {"fp32": "NCHW", "fp16": "NHWC", "bf16": "NHWC"}
    entries = [(small(precision=key, data_format=value), 10.0) for key, value in formats.items()]
    (table,) = varied_tables(results(entries))
    assert table.rows_by == ("precision",)
    assert table.setting["data_format"] == "by precision"


def test_what_follows_from_a_precision_and_another_axis_parts_no_rows():
    """A bug: tf32 takes NHWC with XLA alone, so data_format was an axis beside both."""
    formats = {("fp32", "off"): "NCHW", ("fp32", "on"): "NCHW", ("tf32", "off"): "NCHW"}
    formats["tf32", "on"] = "NHWC"
    specs = [
        small(precision=precision, xla=xla, data_format=value, num_gpus=num)
        for (precision, xla), value in formats.items()
        for num in (1, 2)
    ]
    of = results([(spec, 10.0) for spec in specs])
    for (table,) in (varied_tables(of), pivot(of, ("xla", "precision"))):
        assert set(table.rows_by) == {"precision", "xla"}
        assert table.setting["data_format"] == "by precision and xla"
