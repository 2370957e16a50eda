"""Answers name an environment variable like any axis, and say of a trial without it: inherited."""

from dataclasses import replace
from functools import partial

import pytest

from tests.analysis.commands.command import analysis as run
from tests.filled import fill
from tests.specs import small

RING = small(num_gpus=2, free=(("env.NCCL_ALGO", "Ring"),))
TREE = small(num_gpus=2, free=(("env.NCCL_ALGO", "Tree"),))
INHERITED = small(num_gpus=2)


@pytest.fixture
def analysis(capsys, monkeypatch):
    return partial(run, capsys, monkeypatch)


@pytest.mark.parametrize(
    "arguments",
    [("advise",), ("compare", "NCCL_ALGO=Ring", "NCCL_ALGO=")],
    ids=" ".join,
)
def test_every_answer_names_a_variable(analysis, snapshot, arguments):
    fill("results.db", [(RING, 100.0), (RING, 101.0), (INHERITED, 80.0), (INHERITED, 81.0)])
    assert analysis(*arguments).stdout == snapshot


def test_a_suggested_command_sets_it(analysis):
    fill("results.db", [(RING, 100.0), (TREE, 99.0)])
    shown = analysis("advise").stdout
    assert f"from={RING.trial_id[:8]}" in shown


def test_a_suggested_command_leaves_it_inherited(analysis):
    """A bug: the trial that set it was taken as the nearest, and every axis was said."""
    fill("results.db", [(RING, 100.0), (INHERITED, 99.0)])
    shown = analysis("advise", "--all").stdout
    assert f"from={INHERITED.trial_id[:8]}" in shown
    assert "model=" not in shown


def test_a_row_of_several_models_names_the_variable_that_is_best(analysis, snapshot):
    of_vgg = [replace(RING, model="vgg16"), replace(INHERITED, model="vgg16")]
    measured = [(RING, 100.0), (INHERITED, 80.0), (of_vgg[0], 40.0), (of_vgg[1], 50.0)]
    fill("results.db", measured)
    assert analysis("advise").stdout == snapshot


def test_of_equal_single_runs_none_is_ahead(analysis, snapshot):
    fill("results.db", [(RING, 100.0), (TREE, 100.0), (INHERITED, 80.0)])
    assert analysis("advise").stdout.splitlines()[1] == snapshot
