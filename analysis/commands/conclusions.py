"""`scalemark conclusions`: whether published conclusions hold for your results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.conclusions import words
from analysis.conclusions.claims import Conclusion, counting, with_notes
from analysis.conclusions.claims import conclusions as judged
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
from analysis.source import Source
from analysis.text.titles import sweep_notes
from scalemark.cli.terminal import make_console, print_columns, print_json, reading_width
from scalemark.records.machine import DeviceKind
from scalemark.records.references import Origin
from store.command_line import Db, Json


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
        say(console, words.headline(answer.claims), "bold")
    for note in notes:
        say(console, note)
    if not answer.claims:
        return None
    console.print()
    if shows_all:
        for claim in answer.claims:
            for line in words.lines(claim):
                say_ending(console, line)
            console.print()
        return None
    rows = [words.row(claim) for claim in answer.claims]
    print_columns(console, words.COLUMNS, rows, piped_width=reading_width(console))
    say(console, words.PAIRS)
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
