"""Words of `conclusions` for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from analysis.conclusions.claims import ClaimPair, ClaimVerdict, Conclusion, JudgedStatement
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
_OPEN = {ClaimVerdict.CANNOT_BE_TOLD, ClaimVerdict.NO_RESULTS}
_DOUBT = {Relation.TIE: ", a tie", Relation.UNKNOWN: ", single runs"}
_SAYS = {False: "against", None: "open", True: "for"}  # in this order
_MOST_PAIRS = 3


def headline(answers: Sequence[Conclusion]) -> str:
    """Count the verdicts in a sentence."""
    counts = Counter(answer.verdict for answer in answers)
    parts = [f"{counts[verdict]} {verb}" for verdict, verb in _VERBS.items() if counts[verdict]]
    num_open = sum(counts[verdict] for verdict in _OPEN)
    if num_open:
        parts.append(f"{num_open} cannot be told from these results")
    return f"Of {counted(len(answers), 'published claim')} {listed(parts)}."


def row(answer: Conclusion) -> tuple[str, str, str, str]:
    """Return the cells of COLUMNS."""
    sums = [0, 0, 0]
    for statement in answer.statements:
        sums[0] += statement.num_for
        sums[1] += statement.num_against
        sums[2] += statement.num_open
    pairs = "/".join(map(str, sums)) if any(sums) else ""
    return answer.id, answer.short, str(answer.verdict), pairs


def lines(answer: Conclusion) -> list[str]:
    """Say what a claim says, and what the pairs say to each of its statements."""
    said = [f"{answer.id} {answer.verdict} ({answer.source})", f"  {answer.claim}."]
    for statement in answer.statements:
        said.append(f"  - {statement.says}: {_counts(statement)}")
        against_first = sorted(statement.pairs, key=lambda pair: list(_SAYS).index(pair.holds))
        said += [f"      {_pair(pair)}" for pair in against_first[:_MOST_PAIRS]]
        if len(against_first) > _MOST_PAIRS:
            said.append(f"      and {len(against_first) - _MOST_PAIRS} more (--json)")
    if _OPEN & {answer.verdict, *(statement.verdict for statement in answer.statements)}:
        said.append(f"  To supply results: {answer.supply}")
    return said


def _counts(statement: JudgedStatement) -> str:
    if not statement.pairs:
        return "no results"
    return f"{statement.num_for} for, {statement.num_against} against, {statement.num_open} open"


def _pair(pair: ClaimPair) -> str:
    if pair.quantity.endswith("/s"):
        first, second = number(pair.first_value), number(pair.second_value)
    else:
        first, second = f"{pair.first_value:.1%}", f"{pair.second_value:.1%}"
    doubt = _DOUBT.get(pair.relation, "") if pair.holds is None else ""
    return (
        f"{_SAYS[pair.holds]}: {pair.shared}: {pair.first} {first}, "
        f"{pair.second} {second} {pair.quantity}{doubt}; {pair.host}"
    )
