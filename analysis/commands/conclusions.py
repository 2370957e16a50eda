"""`analysis conclusions`: whether published conclusions hold for your results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analysis.conclusions import ClaimVerdict, Conclusion, Contrast, counting
from analysis.conclusions import conclusions as judged
from analysis.options import All, Filters, OriginOption, Sweep, select
from analysis.results import Result
from analysis.screen import say, say_command
from analysis.selection import Source
from analysis.titles import number, sweep_notes
from scalemark.cli.terminal import make_console, print_columns, print_json, reading_width
from scalemark.records.machine import DeviceKind
from scalemark.stats.welch import Relation
from scalemark.text.wording import counted, listed
from store.command_line import Db, Json
from store.errors import StoreError

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
    shows_all: All = False,
    as_json: Json = False,
) -> None:
    """Say which published conclusions hold for the results; --all has the numbers behind each."""
    read = Source(selection=select(db, filters, sweep, origin))
    if not read.selection.origin.is_ours:
        raise StoreError(
            f"--origin {read.selection.origin}: the claims are about trials, of which a source "
            "says too little; wanted measured or simulated"
        )
    results, notes = counting(read.results, filters or ())
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
                say(console, line)
            if _OPEN & {conclusion.verdict, *(each.verdict for each in conclusion.statements)}:
                say(console, "  To supply results:")
                say_command(console, conclusion.claim.supply, "      ")
            console.print()
        return None
    rows = map(_row, answer.claims)
    print_columns(console, _COLUMNS, rows, piped_width=reading_width(console))
    say(console, "Pairs: of results that speak for the claim / against it / for neither.")
    say(console, "--all has the numbers, and what would supply more", "dim")
    return None


def _kinds(results: Iterable[Result]) -> list[str]:
    """Say once what CPU devices and simulated GPUs are to a claim."""
    notes: dict[str, None] = {}
    for result in results:
        kind = result.environment.device_kind
        note = kind.note
        if kind is DeviceKind.CPU_DEVICE:
            note = "The claims are about GPUs: results of CPU devices do not count."
        if note:
            notes[note] = None
    return list(notes)


def _headline(answers: Sequence[Conclusion]) -> str:
    counts = Counter(answer.verdict for answer in answers)
    parts = []
    for verdict, verb in _VERBS.items():
        if counts[verdict]:
            parts.append(f"{counts[verdict]} {verb}")
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
        for pair in against_first[:_MOST_PAIRS]:
            lines.append(f"      {_pair(pair)}")
        if len(against_first) > _MOST_PAIRS:
            lines.append(f"      and {len(against_first) - _MOST_PAIRS} more (--json)")
    return lines


def _pair(pair: Contrast) -> str:
    first_speed = number(pair.first.throughput or 0)
    second_speed = number(pair.second.throughput or 0)
    doubt = _DOUBT.get(pair.relation(), "") if pair.holds is None else ""
    shared, first, second = pair.names()
    return (
        f"{_SAYS[pair.holds]}: {shared}: {first} {first_speed}, {second} {second_speed} "
        f"{pair.first.unit}{doubt}; {pair.first.environment.host}"
    )
