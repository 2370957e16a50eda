"""What the documents show is so: their SQL runs on both engines, and every view is named."""

import re

import pytest

from store.database import open_for_reading
from store.reading import queries
from tests.conftest import PROJECT
from tests.empty import make_empty
from tests.filled import fill
from tests.specs import small
from tests.tables import query

QUESTIONS = (PROJECT / "docs" / "results.md").read_text()
STATEMENTS = re.findall(r"```sql\n(.*?)```", QUESTIONS, re.DOTALL)


def _columns_of_answers() -> list[list[str]]:
    headers = re.findall(r"```\n\n\| (.*?) \|\n", QUESTIONS)
    return [header.split(" | ") for header in headers]


def test_there_are_five_questions_with_their_answers():
    assert len(STATEMENTS) == len(_columns_of_answers()) == 5


@pytest.mark.parametrize(
    ("statement", "columns"), list(zip(STATEMENTS, _columns_of_answers(), strict=True))
)
def test_a_question_is_answered_on_both_engines(db, statement, columns):
    fill(
        db,
        [
            (small(), 50.0),
            (small(), 52.0),
            (small(num_gpus=2, precision="bf16"), 90.0),
            (small(num_gpus=2), None),
        ],
    )
    found, _rows = query(open_for_reading(db), statement)
    assert found == columns


def test_every_view_is_documented():
    make_empty("r.db")
    views = {
        row["name"]
        for row in queries.rows(
            open_for_reading("r.db"), "SELECT name FROM sqlite_master WHERE type = 'view'"
        )
    }
    assert "scaling" in views
    reported = (PROJECT / "docs" / "results.md").read_text()
    assert {view for view in views if f"| `{view}` |" not in reported} == set()
