"""Models stand in the order in which they were asked for, whatever ran first."""

from functools import partial

import pytest

from analysis.pivot import pivot
from analysis.selection import Selection, load
from store.writer import Writer
from tests.analysis.commands.command import analysis as run
from tests.filled import NOON, PLACEMENT, attempt, begin
from tests.specs import small

VGG, RESNET, ALEXNET = (small(model=model) for model in ("vgg16", "resnet50", "alexnet"))


@pytest.fixture
def analysis(capsys, monkeypatch):
    return partial(run, capsys, monkeypatch)


def run_sweep(name, asked, in_order):
    """A sweep that ran its trials in another order than it asked for them."""
    writer = Writer("results.db")
    ledger = begin(writer, dict.fromkeys(asked, 1), name=name)
    waiting = {repeat.trial_id: repeat for repeat in ledger.open_repeats()}
    for spec in in_order:
        repeat = waiting[spec.trial_id]
        ledger.claim(repeat)
        ledger.run(repeat, "/runs/x", PLACEMENT, NOON)
        ledger.finish(repeat.repeat_id, attempt(spec, 10.0))
    ledger.end(NOON, finished=True)
    writer.close()


def models():
    return [result.axes["model"] for result in load(Selection(db="results.db"))]


def test_results_of_all_sweeps_are_in_the_order_asked_for():
    run_sweep("first", [VGG, RESNET], [RESNET, VGG])
    run_sweep("second", [ALEXNET], [ALEXNET])
    assert models() == ["vgg16", "resnet50", "alexnet"]


def test_models_across_are_in_the_order_asked_for():
    run_sweep("first", [VGG, RESNET, ALEXNET], [ALEXNET, RESNET, VGG])
    (table,) = pivot(load(Selection(db="results.db")), ("strategy",), ("model",))
    assert table.columns == (("vgg16",), ("resnet50",), ("alexnet",))


def test_advice_is_in_the_order_asked_for(analysis):
    """A bug: its lines stood as attempts had ended, another order in each sweep of the grid."""
    run_sweep("first", [VGG, RESNET, ALEXNET], [ALEXNET, RESNET, VGG])
    shown = analysis("advise").stdout.split("best, on N")[1]
    assert shown.index("vgg16") < shown.index("resnet50") < shown.index("alexnet")
