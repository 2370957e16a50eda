"""Each column of a foreign table has one meaning, and what is not understood is refused before anything is read."""

import pytest

from store.errors import StoreError
from store.imports import ForeignTable, ImportOptions, understood

MAPS = ("img_s=throughput", "gpus=num_gpus")
COLUMNS = ("gpus", "img_s", "optimizer", "seed")


def said(**changes):
    return ImportOptions(**{"maps": MAPS, "axes": ("optimizer",), "ignored": ("seed",)} | changes)


def meanings(columns, options):
    return understood(ForeignTable(path="results.csv", columns=tuple(columns)), options)


def refused(columns=COLUMNS, **changes) -> str:
    with pytest.raises(StoreError) as refusal:
        meanings(columns, said(**changes))
    return str(refusal.value).removeprefix("results.csv: ")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"maps": ("imgs=throughput",)}, "--map imgs=throughput: no such column; did you mean img_s?"),
        ({"maps": ("img_s=troughput",)}, "--map img_s=troughput: no name of a figure; did you mean throughput?; --axis makes a column an axis"),
        ({"maps": ("img_s",)}, "--map img_s: wanted COLUMN=NAME, as img_s=throughput"),
        ({"maps": (*MAPS, "seed=throughput")}, "--map seed=throughput: another column is throughput already; wanted one column"),
        ({"maps": (*MAPS, "img_s=note")}, "--map img_s=note: the column has a meaning already; wanted one"),
        ({"axes": ("optimiser",)}, "--axis optimiser: no such column; did you mean optimizer?"),
        ({"axes": ("optimizer=Opt Kind",)}, "--axis optimizer=Opt Kind: axes.Opt Kind: wanted a name of lower-case letters, digits and _, with a letter first and 40 characters at most; name it, as --axis COLUMN=NAME"),
        ({"axes": ("optimizer", "seed=optimizer")}, "--axis seed=optimizer: another column is axes.optimizer already; wanted one column"),
        ({"axes": ("optimizer=note",)}, "--axis optimizer=note: note is no axis; --map optimizer=note takes it"),
        ({"ignored": ()}, "this column is neither mapped nor an axis: seed. Rows that agree in all axes count as repeats of one trial: add --axis COLUMN for what was varied, --axis COLUMN=when for dates, and --ignore COLUMN for the rest (--ignore '*' for all that is left)"),
        ({"maps": (), "axes": (), "ignored": ()}, "these columns are neither mapped nor an axis: gpus, img_s, optimizer, seed. Rows that agree in all axes count as repeats of one trial: add --map COLUMN=throughput (items per second), --map COLUMN=num_gpus (the GPUs of a row), --axis COLUMN for what was varied, --axis COLUMN=when for dates, and --ignore COLUMN for the rest (--ignore '*' for all that is left)"),
        ({"ignored": ("sead",)}, "--ignore sead: no such column; did you mean seed?"),
        ({"ignored": ("seed", "gpus")}, "--ignore gpus: the column has a meaning already; wanted one"),
        ({"maps": ("img_s=throughput",), "ignored": ("*",)}, "no column is num_gpus (the GPUs of a row): say which, with --map COLUMN=num_gpus or --set num_gpus=1; did you mean gpus?"),
        ({"constants": {"num_gpus": "2"}}, "--set num_gpus=: column gpus has it; leave one out"),
        ({"constants": {"batch_size": "x"}}, "--set batch_size=x: x; wanted a finite number"),
        ({"constants": {"modle": "x"}}, "--set modle=x: no name of a figure (an axis of your own is axes.modle); did you mean model?"),
        ({"constants": {"axes.optimizer": "x"}}, "--set axes.optimizer=: column optimizer has it; leave one out"),
        ({"compare": "zero"}, "--compare zero: no free axis of this table; there are optimizer"),
    ],
)  # fmt: skip
def test_columns_that_cannot_be_understood_are_refused(changes, message):
    assert refused(**changes) == message


def test_a_pattern_ignores_what_has_no_meaning():
    columns = ("gpus", "img_s", "optimizer", "model", "loss_1", "loss_2", "date")
    found = meanings(columns, said(ignored=("loss_?", "*")))
    assert {column: name for column, name in found.columns.items() if name} == {
        "img_s": "throughput",
        "gpus": "num_gpus",
        "optimizer": "axes.optimizer",
        "model": "model",
    }


@pytest.mark.parametrize(
    "changes", [{}, {"ignored": ("*",)}, {"maps": (*MAPS, "strategy=strategy")}]
)
def test_a_column_of_strategies_is_the_way_of_a_row(changes):
    """A bug: it was refused, and as an axis it was named strategy=ddp."""
    columns = ("gpus", "img_s", "strategy")
    found = meanings(columns, said(**{"axes": (), "ignored": (), **changes}))
    assert found.columns["strategy"] == "variable_update"
    by_axis = meanings(columns, said(axes=("strategy",), ignored=()))
    assert by_axis.columns["strategy"] == "axes.strategy"
