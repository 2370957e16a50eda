"""What tests of tables, charts and pages share: the command called like a function, and a browser with windows for one test each."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import pytest
from playwright.sync_api import Browser

from scalemark.records.machine import Machine
from scalemark.records.references import Origin
from tests import browser
from tests.filled import MACHINE, fill
from tests.plots.command import plots


@pytest.fixture(name="plots")
def run_plots(capsys, monkeypatch):
    return partial(plots, capsys, monkeypatch)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One per module (it starts in a second): tests of other modules fork, and want an event loop of their own."""
    program = browser.needed_program(browser.find_program(), in_ci=os.environ.get("CI") == "true")
    with browser.running(program, tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[Callable[..., browser.Visit]]:
    """open_page(path or URL, width_px=375, color_scheme="dark") is a `browser.visit`, which ends with the test."""
    with ExitStack() as visits:
        yield lambda address, **window: visits.enter_context(
            browser.visit(chromium, address, **window)
        )


@pytest.fixture
def second_machine() -> Machine:
    return replace(MACHINE, host="otherbox")


@pytest.fixture
def published() -> Origin:
    """What a selection of published figures has, with a database that knows them."""
    fill("results.db", [])
    return Origin.PUBLISHED
