"""docs/llms.txt promises to programs what `judge` has: its options, verdicts and the fields of its JSON."""

import re

import typer

from scalemark.cli.commands import COMMANDS
from store.command_line import typer_app
from sweeper.early_stopping.judge import SCHEMA_VERSION
from sweeper.early_stopping.rule import ChangeVerdict
from tests.conftest import PROJECT

PAGE = (PROJECT / "docs" / "llms.txt").read_text()


def test_a_program_finds_what_the_page_names():
    command = typer.main.get_command(typer_app({"judge": COMMANDS["judge"]})).commands["judge"]
    options = {option for parameter in command.params for option in parameter.opts}
    lines = [line for line in PAGE.splitlines() if "scalemark judge" in line]
    assert set(re.findall(r"--[a-z-]+", "\n".join(lines))) - {"--help"} <= options
    assert f"schema_version: {SCHEMA_VERSION}." in PAGE
    assert all(re.search(rf"\b{verdict}\b", PAGE) for verdict in ChangeVerdict)


def fields_of_json() -> set[str]:
    """Return the fields that the page names."""
    (listed,) = re.findall(r"^- (attempts, .*?)\.$", PAGE, re.MULTILINE)
    named = re.sub(r" \(.*?\)", "", listed).split(", ")
    pairs = (
        "metric, lower, gain_percent, low_percent, high_percent",
        "change_values, baseline_values",
    )
    for text in pairs:
        assert text in PAGE
        named += text.split(", ")
    return set(named)


def test_the_page_is_of_one_screen():
    assert len(PAGE.splitlines()) <= 60
