"""Generated pages are what their programs write today; the notebook and the tutorial show what they say."""

import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

from docs import make_commands, make_guard, make_notebook, make_python, make_tutorial
from frames.results import Results


@pytest.mark.parametrize("program", [make_commands, make_python])
def test_a_generated_page_is_up_to_date(program):
    assert program.PAGE.read_text() == program.page(), f"run: python -m {program.__name__}"


def test_every_method_of_results_is_documented():
    methods = {
        name for name, _ in inspect.getmembers(Results, inspect.isfunction) if name[0] != "_"
    }
    assert methods == set(re.findall(r"^### Results\.(\w+)", make_python.page(), re.MULTILINE))


def notebook() -> dict[str, Any]:
    return json.loads(make_notebook.NOTEBOOK.read_text())


def test_the_page_of_the_notebook_is_the_notebook():
    page, pictures = make_notebook.as_page(notebook())
    assert make_notebook.PAGE.read_text() == page, "run: python -m docs.make_notebook"
    for name, data in pictures.items():
        assert (make_notebook.FOLDER / name).read_bytes() == data
    assert len(pictures) == 1


def without_figures(text: str) -> str:
    """Each simulated process has noise of its own, in which a drift may be seen."""
    text = re.sub(r"^.*attempt \d+: steps become .*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"[\s-]+|\d[\d.,]*", " ", text)


def outputs(of: dict[str, Any]) -> list[str]:
    shown = [output for cell in of["cells"] for output in cell.get("outputs", ())]
    return [without_figures("".join(one["data"]["text/plain"])) for one in shown]


@pytest.mark.integration
def test_the_notebook_runs_and_shows_what_it_says():
    committed = notebook()
    made = make_notebook.executed(committed)
    assert outputs(made) == outputs(committed)
    assert len(outputs(made)) == 6
    assert "image/png" in made["cells"][-2]["outputs"][0]["data"]
    assert not list(Path().iterdir())


def test_a_cell_shows_what_it_prints_and_its_last_value():
    cell = {"cell_type": "code", "source": ["x = 2\n", "print('seen')\n", "x + 1"]}
    (made,) = make_notebook.executed({"cells": [cell]})["cells"]
    assert [one.get("text") or one["data"]["text/plain"] for one in made["outputs"]] == [
        ["seen\n"],
        ["3"],
    ]
    with pytest.raises(ZeroDivisionError):
        make_notebook.executed({"cells": [{"cell_type": "code", "source": ["1 / 0"]}]})


@pytest.mark.integration
def test_the_tutorial_prints_what_it_says():
    page = make_tutorial.PAGE.read_text()
    made = make_tutorial.renewed(page)
    assert without_figures(made) == without_figures(page), "run: python -m docs.make_tutorial"
    assert made.count("```console") == 5


@pytest.mark.integration
def test_the_page_of_guard_prints_what_it_says():
    page = make_guard.PAGE.read_text()
    make_guard.write_table()
    assert make_guard.renewed(page) == page, "run: python -m docs.make_guard"
