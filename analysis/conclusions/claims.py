"""The answer of `conclusions`: each published claim held against results."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files

from analysis.conclusions.pairs import ClaimPair
from analysis.conclusions.rules import RULES, Statement
from analysis.results import Result
from scalemark.host.own_code import typed
from scalemark.records import overrides
from scalemark.records.machine import DeviceKind
from scalemark.records.references import Origin

_SWEEP = "python sweep.py "


class ClaimVerdict(StrEnum):
    """Whether a claim holds for the results."""

    HOLDS = "holds"
    IN_PART = "in part"  # some of it; for the rest results say otherwise, or are missing
    DOES_NOT_HOLD = "does not hold"
    CANNOT_BE_TOLD = "cannot be told"  # ties, or single runs
    NO_RESULTS = "no results"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A row of `store/published/conclusions.csv`."""

    id: str
    short: str  # in a few words
    claim: str  # in full
    source: str
    citation: str
    supply: str  # the command that would supply results
    profile: str  # hardware that it is about, where that can be simulated; empty: any


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedClaim:
    """One of the statements that a claim makes, with the pairs of results behind the verdict."""

    says: str
    verdict: ClaimVerdict
    num_for: int
    num_against: int
    num_open: int  # ties and single runs
    pairs: tuple[ClaimPair, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """A claim held against results."""

    id: str
    short: str
    claim: str
    source: str
    citation: str
    verdict: ClaimVerdict
    statements: tuple[JudgedClaim, ...]
    supply: str  # the command that supplies more results; beside simulated results it simulates


def conclusions(results: Sequence[Result]) -> list[Conclusion]:
    """Judge every claim, in order. They are about GPUs: CPU devices supply no results."""
    on_gpus = [
        result for result in results if result.environment.device_kind is not DeviceKind.CPU_DEVICE
    ]
    found = []
    for claim in claims():
        statements = tuple(judged(statement) for statement in RULES[claim.id](on_gpus))
        found.append(
            Conclusion(
                id=claim.id,
                short=claim.short,
                claim=claim.claim,
                source=claim.source,
                citation=claim.citation,
                verdict=verdict_of([statement.verdict for statement in statements]),
                statements=statements,
                supply=_supply(claim, results),
            )
        )
    return found


@cache
def claims() -> tuple[Claim, ...]:
    """Return all, in their order."""
    text = files("store").joinpath("published", "conclusions.csv").read_text(encoding="utf-8")
    return tuple(Claim(**row) for row in csv.DictReader(text.splitlines()))


def judged(statement: Statement) -> JudgedClaim:
    pairs = statement.pairs
    num_for = sum(pair.holds is True for pair in pairs)
    num_against = sum(pair.holds is False for pair in pairs)
    if not pairs:
        verdict = ClaimVerdict.NO_RESULTS
    elif num_for and num_against:
        verdict = ClaimVerdict.IN_PART
    elif num_for:
        verdict = ClaimVerdict.HOLDS
    elif num_against:
        verdict = ClaimVerdict.DOES_NOT_HOLD
    else:
        verdict = ClaimVerdict.CANNOT_BE_TOLD
    return JudgedClaim(
        says=statement.says,
        verdict=verdict,
        num_for=num_for,
        num_against=num_against,
        num_open=len(pairs) - num_for - num_against,
        pairs=pairs,
    )


def verdict_of(verdicts: Sequence[ClaimVerdict]) -> ClaimVerdict:
    """Return the verdict on a claim from those on its statements."""
    different = set(verdicts)
    if len(different) == 1:
        return different.pop()
    open_ones = {ClaimVerdict.CANNOT_BE_TOLD, ClaimVerdict.NO_RESULTS}
    if different <= open_ones:
        return ClaimVerdict.CANNOT_BE_TOLD
    if different <= {ClaimVerdict.DOES_NOT_HOLD, *open_ones}:
        return ClaimVerdict.DOES_NOT_HOLD
    return ClaimVerdict.IN_PART


def _supply(claim: Claim, results: Sequence[Result]) -> str:
    simulated = [
        result.environment for result in results if result.environment.origin is Origin.SIMULATED
    ]
    if not simulated or not claim.supply.startswith(_SWEEP):
        return claim.supply
    hardware = simulated[0].hardware
    if claim.profile:
        hardware = ("engine=simulated", f"hardware={claim.profile}")
    return f"{claim.supply} {overrides.sweep(hardware).removeprefix(typed('sweep')).lstrip()}"
