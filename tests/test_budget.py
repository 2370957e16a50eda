"""The house stays small: lines, files, words and options are at most what tests/budget.tsv allows.

The numbers only fall: a commit that raises one says why, and what goes for it. A number that is far above what there is
must be lowered, too.
"""

import csv
from pathlib import Path

import pytest

from docs import make_commands, make_settings
from tests.conftest import PROJECT

SLACK = 0.05  # share of a budget that may be unused
with (PROJECT / "tests" / "budget.tsv").open() as table:
    BUDGET = {row["what"]: row for row in csv.DictReader(table, delimiter="\t")}
ROOMS = [name for name, row in BUDGET.items() if row["files"]]


def files_of(room: str, ending: str = "py") -> list[Path]:
    """Return the files of a folder, without what was made while running."""
    found = (PROJECT / room).rglob(f"*.{ending}")
    return [path for path in found if "__pycache__" not in path.parts]


def num_lines(files: list[Path]) -> int:
    return sum(len(path.read_text().splitlines()) for path in files)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_keeps_its_budget(room):
    files = files_of(room)
    check(num_lines(files), int(BUDGET[room]["amount"]))
    check(len(files), int(BUDGET[room]["files"]))


def test_the_documentation_keeps_its_budget_of_words():
    pages = [path.read_text() for path in files_of("docs", "md")]
    check(sum(len(page.split()) for page in pages), int(BUDGET["words of docs"]["amount"]))


def test_options_axes_and_settings_keep_their_budget():
    rows = (make_commands.page() + make_settings.page()).splitlines()
    num_options = sum(row.startswith("| `") for row in rows)
    check(num_options, int(BUDGET["options"]["amount"]))


def check(amount: int, budget: int) -> None:
    assert amount <= budget, "too much: take something away, or raise tests/budget.tsv and say why"
    assert amount >= (1 - SLACK) * budget - 5, "lower tests/budget.tsv"
