"""A published conclusion, and what rows say to it."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files

from analysis.conclusions.cases import Compared
from analysis.results import Result
from scalemark.stats.welch import Relation


class Answer(StrEnum):
    """Of rows to a claim."""

    AGREES = "agrees"
    IN_PART = "in part"  # some of it; of the rest rows say otherwise, or there are none
    DISAGREES = "disagrees"
    UNDECIDED = "undecided"  # ties, or one process each
    NO_ROWS = "no rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """As `store/published/conclusions.csv` has it."""

    id: str
    claim: str  # in our words
    source: str
    citation: str
    supply: str  # the command that would supply rows, see `analysis.claims.supplying`
    profile: str  # of hardware that it is about, where that can be simulated; empty: of any


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One thing that rows say to it."""

    holds: bool | None  # None = they cannot tell
    text: str
    rows: tuple[Result, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One of the statements that a claim makes."""

    says: str
    cases: tuple[Case, ...]

    @property
    def answer(self) -> Answer:
        decided = {case.holds for case in self.cases} - {None}
        if not self.cases:
            return Answer.NO_ROWS
        if not decided:
            return Answer.UNDECIDED
        return (
            Answer.IN_PART
            if len(decided) > 1
            else Answer.AGREES
            if True in decided
            else Answer.DISAGREES
        )

    @property
    def num_decided(self) -> int:
        return sum(case.holds is not None for case in self.cases)

    @property
    def told(self) -> str:
        """As `holds in 3 of 5 cases, not in 1, 1 cannot tell`."""
        if not self.cases:
            return "no rows"
        counts = {
            value: sum(case.holds is value for case in self.cases) for value in (True, False, None)
        }
        found = [
            f"holds in {counts[True]} of {len(self.cases)} case{'s' if len(self.cases) > 1 else ''}"
        ]
        found += [f"not in {counts[False]}"] if counts[False] else []
        found += [f"{counts[None]} cannot tell"] if counts[None] else []
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
            return next(iter(answers))
        if answers <= {Answer.UNDECIDED, Answer.NO_ROWS}:
            return Answer.UNDECIDED
        return (
            Answer.DISAGREES
            if answers <= {Answer.DISAGREES, Answer.UNDECIDED, Answer.NO_ROWS}
            else Answer.IN_PART
        )

    @property
    def told(self) -> str:
        """The answer, and of how many cases it is where others cannot tell, as `agrees where it can
        be told (4 of 10 cases)`.

        Of several parts those are named of which most cases cannot tell.
        """
        cases = [case for part in self.parts for case in part.cases]
        decided = [case for case in cases if case.holds is not None]
        if self.answer not in (Answer.AGREES, Answer.DISAGREES) or len(decided) == len(cases):
            return str(self.answer)
        thin = [
            part
            for part in self.parts
            if len(self.parts) > 1 and 2 * part.num_decided < len(part.cases)
        ]
        but = "".join(
            f"; of those on whether {part.says} only {part.num_decided} of {len(part.cases)}"
            for part in thin
        )
        return f"{self.answer} where it can be told ({len(decided)} of {len(cases)} cases{but})"

    @property
    def rows(self) -> tuple[Result, ...]:
        found = {
            (row.place.key, row.trial_id): row
            for part in self.parts
            for case in part.cases
            for row in case.rows
        }
        return tuple(found.values())


@cache
def claims() -> tuple[Claim, ...]:
    """All, in their order."""
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
    """Holds where the relation of first to second is the wanted one; a tie, if it does not hold,
    cannot tell.
    """
    relation = compared.relation
    open_ = relation is Relation.UNKNOWN or (relation is Relation.TIE and not tie_holds)
    holds = None if open_ else relation in (wanted, Relation.TIE)
    return Case(
        holds=holds,
        text=f"{compared.told(subject, way)}, {compared.first.place.host}",
        rows=compared.rows,
    )


def cases(
    compared: Sequence[Compared],
    subject: Callable[[Result], str],
    way: Callable[[Result], str],
    wanted: Relation = Relation.MORE,
    *,
    tie_holds: bool = False,
) -> tuple[Case, ...]:
    """See `case`."""
    return tuple(case(one, subject, way, wanted, tie_holds=tie_holds) for one in compared)
