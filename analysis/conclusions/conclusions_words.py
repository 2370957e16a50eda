"""Words of `conclusions` for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from analysis.conclusions.claims import ClaimVerdict, Conclusion, JudgedClaim
from analysis.conclusions.pairs import ClaimPair
from analysis.text.numbers import number
from scalemark.stats.welch import Relation
from scalemark.text.wording import counted, listed

COLUMNS = ("claim", "", "verdict", "pairs")
PAIRS = "Pairs: of results that speak for the claim / against it / for neither."
_VERBS = {
    ClaimVerdict.HOLDS: "hold",
    ClaimVerdict.IN_PART: "hold in part",
    ClaimVerdict.DOES_NOT_HOLD: "do not hold",
}
_DOUBT = {Relation.TIE: ", a tie", Relation.UNKNOWN: ", single runs"}
_MOST_PAIRS = 3


def headline(answers: Sequence[Conclusion]) -> str:
    """Count the verdicts in a sentence."""
    counts = Counter(one.verdict for one in answers)
    found = []
    for verdict in (ClaimVerdict.HOLDS, ClaimVerdict.IN_PART, ClaimVerdict.DOES_NOT_HOLD):
        if counts[verdict]:
            found.append(f"{counts[verdict]} {_VERBS[verdict]}")
    if num_open := counts[ClaimVerdict.CANNOT_BE_TOLD] + counts[ClaimVerdict.NO_RESULTS]:
        found.append(f"{num_open} cannot be told from these results")
    return f"Of {counted(len(answers), 'published claim')} {listed(found)}."


def row(one: Conclusion) -> tuple[str, str, str, str]:
    """Return the cells of COLUMNS."""
    sums = [
        sum(getattr(statement, name) for statement in one.statements)
        for name in ("num_for", "num_against", "num_open")
    ]
    numbers = "/".join(map(str, sums)) if any(sums) else ""
    return one.id, one.short, str(one.verdict), numbers


def lines(one: Conclusion) -> list[str]:
    """Say what a claim says, and what the pairs say to each of its statements."""
    found = [f"{one.id} {one.verdict} ({one.source})", f"  {one.claim}."]
    for statement in one.statements:
        found.append(f"  - {statement.says}: {_counts(statement)}")
        against_first = sorted(statement.pairs, key=lambda pair: _order(pair.holds))
        found += [f"      {_pair(pair)}" for pair in against_first[:_MOST_PAIRS]]
        if len(against_first) > _MOST_PAIRS:
            found.append(f"      and {len(against_first) - _MOST_PAIRS} more (--json)")
    is_open = {ClaimVerdict.NO_RESULTS, ClaimVerdict.CANNOT_BE_TOLD}
    if is_open & {one.verdict, *(statement.verdict for statement in one.statements)}:
        found.append(f"  To supply results: {one.supply}")
    return found


def _counts(statement: JudgedClaim) -> str:
    if not statement.pairs:
        return "no results"
    return f"{statement.num_for} for, {statement.num_against} against, {statement.num_open} open"


def _order(holds: bool | None) -> int:
    return (False, None, True).index(holds)


def _pair(pair: ClaimPair) -> str:
    values = [pair.first_value, pair.second_value]
    if pair.quantity.endswith("/s"):
        texts = [number(value) for value in values]
        texts[1] += f" {pair.quantity}"
    else:
        texts = [f"{100 * value:.1f} %" for value in values]
        texts[1] += f" {pair.quantity}"
    says = {True: "for", False: "against", None: "open"}[pair.holds]
    doubt = _DOUBT.get(pair.relation, "") if pair.holds is None else ""
    first, second = (
        f"{name} {text}" for name, text in zip((pair.first, pair.second), texts, strict=True)
    )
    return f"{says}: {pair.shared}: {first}, {second}{doubt}; {pair.host}"
