"""What scripts read: records as objects, and no number that JSON lacks."""

import json
from dataclasses import dataclass
from enum import StrEnum

from scalemark.cli.terminal import print_json


class Color(StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Inner:
    rate: float


@dataclass(frozen=True, slots=True)
class Answer:
    color: Color
    rows: tuple[Inner, ...]


def test_a_record_is_an_object_and_infinity_is_null(capsys):
    print_json(Answer(color=Color.RED, rows=(Inner(rate=1.5), Inner(rate=float("inf")))))
    printed = json.loads(capsys.readouterr().out)
    assert printed == {"color": "red", "rows": [{"rate": 1.5}, {"rate": None}]}
