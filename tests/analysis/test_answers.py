"""The pages with answers show what their commands say."""

import re

import pytest

from docs.make_answers import PAGES, renewed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_shown_says_what_the_page_has(page):
    text = page.read_text(encoding="utf-8")
    assert renewed(text) == text, "run: python -m docs.make_answers"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_command_is_shown_without_an_answer(page):
    blocks = re.findall(
        r"^```console\n\$ (.*?)\n(.*?)^```$",
        page.read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    assert blocks
    assert all(
        command.startswith("python -m ") and len(answer.splitlines()) > 3
        for command, answer in blocks
    )
