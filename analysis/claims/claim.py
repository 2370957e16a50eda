"""A published conclusion, and what rows say to it."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files

from analysis.conclusions.cases import Compared
from analysis.results import Origin, Result
from scalemark.host.own_code import typed
from scalemark.records import overrides
from scalemark.stats.welch import Relation

_SWEEP = "python sweep.py "


class Answer(StrEnum):
    """The answer of rows to a claim."""

    AGREES = "agrees"
    IN_PART = "in part"  # some of it; of the rest rows say otherwise, or there are none
    DISAGREES = "disagrees"
    UNDECIDED = "undecided"  # ties, or single runs
    NO_ROWS = "no rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A row of `store/published/conclusions.csv`."""

    id: str
    claim: str  # in our words
    source: str
    citation: str
    supply: str  # the command that would supply rows
    profile: str  # hardware that it is about, where that can be simulated; empty: any

    def supplied_by(self, results: Sequence[Result]) -> str:
        """Return the command that supplies rows; beside simulated results it simulates them."""
        environments = [
            one.environment for one in results if one.environment.origin is Origin.SIMULATED
        ]
        if not environments or not self.supply.startswith(_SWEEP):
            return self.supply
        hardware = environments[0].hardware
        if self.profile:
            hardware = ("engine=simulated", f"hardware={self.profile}")
        return f"{self.supply} {overrides.sweep(hardware).removeprefix(typed('sweep')).lstrip()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One comparison of rows that speaks for or against a claim."""

    holds: bool | None  # None: not conclusive
    text: str
    rows: tuple[Result, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One of the statements that a claim makes."""

    says: str
    cases: tuple[Case, ...]

    @property
    def answer(self) -> Answer:
        if not self.cases:
            return Answer.NO_ROWS
        decided = {case.holds for case in self.cases} - {None}
        if not decided:
            return Answer.UNDECIDED
        if len(decided) > 1:
            return Answer.IN_PART
        return Answer.AGREES if True in decided else Answer.DISAGREES

    @property
    def summary(self) -> str:
        """Return `holds in 3 of 5 cases, not in 1, 1 not conclusive`."""
        if not self.cases:
            return "no rows"
        all_of_them = f"{len(self.cases)} case{'s' if len(self.cases) > 1 else ''}"
        yes, no, unknown = (
            sum(one.holds is it for one in self.cases) for it in (True, False, None)
        )
        found = [f"holds in {yes} of {all_of_them}"]
        if no:
            found.append(f"not in {no}")
        if unknown:
            found.append(f"{unknown} not conclusive")
        return ", ".join(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A claim held against rows."""

    claim: Claim
    parts: tuple[Part, ...]

    @property
    def answer(self) -> Answer:
        answers = {part.answer for part in self.parts}
        if len(answers) == 1:
            return answers.pop()
        if answers <= {Answer.UNDECIDED, Answer.NO_ROWS}:
            return Answer.UNDECIDED
        if answers <= {Answer.DISAGREES, Answer.UNDECIDED, Answer.NO_ROWS}:
            return Answer.DISAGREES
        return Answer.IN_PART

    @property
    def summary(self) -> str:
        """Return the answer, as `agrees where cases are conclusive (4 of 10)`."""
        cases = [case for part in self.parts for case in part.cases]
        num_decided = sum(case.holds is not None for case in cases)
        if self.answer not in (Answer.AGREES, Answer.DISAGREES) or num_decided == len(cases):
            return str(self.answer)
        return f"{self.answer} where cases are conclusive ({num_decided} of {len(cases)})"

    @property
    def rows(self) -> list[Result]:
        return [row for part in self.parts for case in part.cases for row in case.rows]


@cache
def claims() -> tuple[Claim, ...]:
    """Return all, in their order."""
    text = files("store").joinpath("published", "conclusions.csv").read_text(encoding="utf-8")
    return tuple(Claim(**row) for row in csv.DictReader(text.splitlines()))


def case(
    compared: Compared,
    subject: Callable[[Result], str],
    way: Callable[[Result], str],
    wanted: Relation = Relation.MORE,
    *,
    tie_holds: bool = False,
) -> Case:
    """Hold a relation against the wanted one; a tie is not conclusive unless it holds."""
    relation = compared.relation
    holds: bool | None = relation is wanted
    if relation is Relation.TIE:
        holds = True if tie_holds else None
    elif relation is Relation.UNKNOWN:
        holds = None
    text = f"{compared.text(subject, way)}, {compared.first.environment.host}"
    return Case(holds=holds, text=text, rows=(compared.first, compared.second))


def part(
    says: str,
    compared: Sequence[Compared],
    subject: Callable[[Result], str],
    way: Callable[[Result], str],
    wanted: Relation = Relation.MORE,
    *,
    tie_holds: bool = False,
) -> Part:
    """Return a statement with a `case` for each comparison."""
    cases = (case(one, subject, way, wanted, tie_holds=tie_holds) for one in compared)
    return Part(says=says, cases=tuple(cases))
