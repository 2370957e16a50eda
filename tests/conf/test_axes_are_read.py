"""An engine reads every axis that its definition gives it: none is accepted without effect."""

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest

from scalemark.records.axes import Engine
from scalemark.records.trial import AXES, USED_BY_PROGRAMS
from tests.conftest import PROJECT

READERS = {
    Engine.tensorflow: ("trainer", "scalemark/records/switches.py"),
    Engine.simulated: ("simulator",),
    Engine.command: ("command", "scalemark/program"),
}

ELSEWHERE = {
    "engine": "it chooses the reader",
    "scaling": "planning divides the batch by it",
    "injected": "read as `injected_values`",
}

WITHOUT_INFLUENCE = {"learning_rate", "learning_rate_warm_up", "weight_decay", "data_dir"}
WITHOUT_INFLUENCE |= {"cache", "seed", "data_format", "momentum", "device_kind"}
"""Simulated trials may have them, and the cost model gives them no time of their own."""

FOR_THE_PROGRAM = {*USED_BY_PROGRAMS, "model", "seed", "compare"} - {"num_steps", "precision"}
"""The program gets these as placeholders and variables, and analysis reads what is compared."""


def names_in(sources: Iterable[str]) -> set[str]:
    """Return attributes that are read, and strings, as in `spec.seed` and `axes["seed"]`."""
    found = set()
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


def sources_of(engine: Engine) -> list[str]:
    paths: list[Path] = []
    for name in READERS[engine]:
        path = PROJECT / name
        paths += [path] if path.is_file() else sorted(path.rglob("*.py"))
    # what is loaded into the user's Python knows no trial
    return [path.read_text() for path in paths if "inside" not in path.parts]


@pytest.mark.parametrize("engine", Engine)
def test_an_engine_reads_every_axis_it_declares(engine):
    declared = {one.name for one in AXES.values() if engine in one.engines}
    unread = declared - names_in(sources_of(engine)) - ELSEWHERE.keys()
    if engine is Engine.command:
        assert unread == FOR_THE_PROGRAM
    elif engine is Engine.simulated:
        assert unread == WITHOUT_INFLUENCE
    else:
        assert unread == set()


def test_an_axis_that_is_only_set_is_not_read():
    assert names_in(["spec.clipping = 1", "print(spec.seed)", "axes['model']"]) >= {"seed", "model"}
    assert "clipping" not in names_in(["spec.clipping = 1"])
