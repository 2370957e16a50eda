"""Knows what lines of libraries say of the end of a program, by the patterns of ends.toml."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from scalemark.host import processes
from scalemark.readers.log_text import named_rank
from scalemark.records.measurement import Outcome

_IS_NO_ERROR = re.compile(  # a source line that a traceback quotes, or advice
    r"^(?:\S*[]:>])? {4}|^\W*(?i:hint|tip|note)\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """The end of a program, by a line that it printed."""

    outcome: Outcome
    meaning: str
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """The meaning of lines that a library prints."""

    outcome: Outcome
    meaning: str
    pattern: re.Pattern[str]
    may_go_on: bool  # programs catch it, and go on with less


@cache
def _known() -> Sequence[_End]:
    content = tomllib.loads(Path(__file__).with_name("ends.toml").read_text())
    return [
        _End(
            outcome=Outcome(end["outcome"]),
            meaning=end["meaning"],
            pattern=re.compile("|".join(end["patterns"])),
            may_go_on=end.get("may_go_on", False),
        )
        for end in content["end"]
    ]


def says_memory_ran_out(line: str) -> bool:
    """Return whether a line says so of a program that may catch it, and go on with less."""
    if "emory" not in line or _IS_NO_ERROR.search(line):  # most of many lines
        return False
    return any(end.may_go_on and end.pattern.search(line) for end in _known())


def reason(lines: Sequence[str]) -> Reason | None:
    """Return why a program ended, by the last of its lines that tells; None where none does."""
    errors = [line for line in reversed(lines) if not _IS_NO_ERROR.search(line)]
    for line in errors:
        if processes.says_so(line):
            meaning = "out of host memory; try a smaller batch, or a higher limit (ulimit -v)"
            if re.search(r"\bCUDA (?:out of memory|error)", line):
                meaning = "out of GPU memory; try a smaller batch"
            return Reason(outcome=Outcome.OUT_OF_MEMORY, meaning=meaning, line=line)
    for end in _known():
        for line in errors:
            if end.pattern.search(named_rank(line)[1]):
                return Reason(outcome=end.outcome, meaning=end.meaning, line=line)
    return None
