"""The tutorial and the page of guard show what their commands print."""

import inspect
import re

import pytest

from docs import make_guard, make_python, make_tutorial
from scalemark.api import Results
from tests.conftest import PROJECT


def test_every_method_of_results_is_documented():
    methods = {
        name for name, _ in inspect.getmembers(Results, inspect.isfunction) if name[0] != "_"
    }
    assert methods == set(re.findall(r"^### Results\.(\w+)", make_python.page(), re.MULTILINE))


def test_contributing_names_files_that_exist():
    page = (PROJECT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"`([a-z][\w.]*/[\w./-]*\.\w+)`", page))
    # of the files that an example changes, those that it does not add
    named |= set(
        re.findall(r"^\+\+\+ b/(scalemark/records\S+|trainer/\w+\.py)", page, re.MULTILINE)
    )
    assert len(named) > 50
    assert [path for path in sorted(named) if not (PROJECT / path).exists()] == []


def without_figures(text: str) -> str:
    """Each simulated process has noise of its own, in which a drift may be seen."""
    text = re.sub(r"^.*attempt \d+: steps become .*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"[\s-]+|\d[\d.,]*", " ", text)


@pytest.mark.integration
def test_the_tutorial_prints_what_it_says():
    page = make_tutorial.PAGE.read_text()
    made = make_tutorial.renewed(page)
    assert without_figures(made) == without_figures(page), "run: python -m docs.make_tutorial"
    assert made.count("```console") == 5


@pytest.mark.integration
def test_the_page_of_guard_prints_what_it_says():
    page = make_guard.PAGE.read_text()
    make_guard.write_nights()
    assert make_guard.renewed(page) == page, "run: python -m docs.make_guard"
