"""`scalemark conclusions`: whether published conclusions hold for your results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.conclusions.claims import ClaimVerdict, Conclusion, counting, with_notes
from analysis.conclusions.claims import conclusions as judged
from analysis.conclusions.rules import Contrast
from analysis.options import (
    All,
    BaselineOption,
    Filters,
    OriginOption,
    SourceOption,
    Sweep,
    of_known_programs,
    say,
    say_ending,
    select,
)
from analysis.results import BaselineRule, Result
from analysis.selection import Source
from analysis.titles import number, sweep_notes
from scalemark.cli.terminal import make_console, print_columns, print_json, reading_width
from scalemark.records.machine import DeviceKind
from scalemark.records.references import Origin
from scalemark.stats.welch import Relation
from scalemark.text.wording import counted, listed
from store.command_line import Db, Json

_COLUMNS = ("claim", "", "verdict", "pairs")
_VERBS = {
    ClaimVerdict.HOLDS: "hold",
    ClaimVerdict.IN_PART: "hold in part",
    ClaimVerdict.DOES_NOT_HOLD: "do not hold",
}
_OPEN = {ClaimVerdict.CANNOT_BE_TOLD, ClaimVerdict.NO_RESULTS}
_DOUBT = {Relation.TIE: ", a tie", Relation.UNKNOWN: ", single runs"}
_SAYS = {False: "against", None: "open", True: "for"}  # in this order
_MOST_PAIRS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusions:
    """The answer: each claim, and notes on the results."""

    claims: tuple[Conclusion, ...]
    notes: tuple[str, ...]


def conclusions(
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    origin: OriginOption = None,
    source: SourceOption = None,
    baseline: BaselineOption = BaselineRule.SAME,
    shows_all: All = False,
    as_json: Json = False,
) -> None:
    """Say which published conclusions hold for the results; --all has the numbers behind each."""
    read = Source(selection=select(db, filters, sweep, origin, source, baseline))
    of_known_programs(read.selection.origin, "what follows for other programs")
    references = read.references if read.selection.origin is Origin.PUBLISHED else ()
    results, notes = counting(with_notes(read.results, references, baseline), filters or ())
    notes = (*_kinds(results), *notes, *sweep_notes(results))
    answer = Conclusions(claims=tuple(judged(results)) if results else (), notes=notes)
    if as_json:
        return print_json(answer)
    console = make_console()
    if answer.claims:
        say(console, _headline(answer.claims), "bold")
    for note in notes:
        say(console, note)
    if not answer.claims:
        return None
    console.print()
    if shows_all:
        for conclusion in answer.claims:
            for line in _lines(conclusion):
                say_ending(console, line)
            console.print()
        return None
    rows = [_row(conclusion) for conclusion in answer.claims]
    print_columns(console, _COLUMNS, rows, piped_width=reading_width(console))
    say(console, "Pairs: of results that speak for the claim / against it / for neither.")
    say(console, "--all has the numbers, and what would supply more", "dim")
    return None


def _kinds(results: Sequence[Result]) -> list[str]:
    """Say once what CPU devices and simulated GPUs are to a claim."""
    kinds = dict.fromkeys(result.environment.device_kind for result in results)
    notes = []
    for kind in kinds:
        if kind is DeviceKind.CPU_DEVICE:
            notes.append("The claims are about GPUs: results of CPU devices do not count.")
        elif kind.note:
            notes.append(kind.note)
    return notes


def _headline(answers: Sequence[Conclusion]) -> str:
    counts = Counter(answer.verdict for answer in answers)
    parts = [f"{counts[verdict]} {verb}" for verdict, verb in _VERBS.items() if counts[verdict]]
    num_open = sum(counts[verdict] for verdict in _OPEN)
    if num_open:
        parts.append(f"{num_open} cannot be told from these results")
    return f"Of {counted(len(answers), 'published claim')} {listed(parts)}."


def _row(answer: Conclusion) -> tuple[str, str, str, str]:
    sums = [0, 0, 0]
    for statement in answer.statements:
        sums[0] += statement.num_for
        sums[1] += statement.num_against
        sums[2] += statement.num_open
    pairs = "/".join(map(str, sums)) if any(sums) else ""
    return answer.claim.id, answer.claim.short, str(answer.verdict), pairs


def _lines(answer: Conclusion) -> list[str]:
    """Say what a claim says, and what the pairs say to each of its statements."""
    claim = answer.claim
    lines = [f"{claim.id} {answer.verdict} ({claim.source})", f"  {claim.claim}."]
    for statement in answer.statements:
        counts = "no results"
        if statement.pairs:
            counts = f"{statement.num_for} for, {statement.num_against} against, "
            counts += f"{statement.num_open} open"
        lines.append(f"  - {statement.says}: {counts}")
        against_first = sorted(statement.pairs, key=lambda pair: list(_SAYS).index(pair.holds))
        lines += [f"      {_pair(pair)}" for pair in against_first[:_MOST_PAIRS]]
        if len(against_first) > _MOST_PAIRS:
            lines.append(f"      and {len(against_first) - _MOST_PAIRS} more (--json)")
    if _OPEN & {answer.verdict, *(statement.verdict for statement in answer.statements)}:
        lines.append(f"  To supply results: {claim.supply}")
    return lines


def _pair(pair: Contrast) -> str:
    if pair.quantity.endswith("/s"):
        values = number(pair.values[0]), number(pair.values[1])
    else:
        values = f"{pair.values[0]:.1%}", f"{pair.values[1]:.1%}"
    doubt = _DOUBT.get(pair.relation(), "") if pair.holds is None else ""
    shared, first, second = pair.names()
    return (
        f"{_SAYS[pair.holds]}: {shared}: {first} {values[0]}, {second} {values[1]} "
        f"{pair.quantity}{doubt}; {pair.first.environment.host}"
    )
