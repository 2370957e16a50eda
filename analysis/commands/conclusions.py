"""`python -m analysis conclusions`: what follows from the rows, in sentences, and whether
published conclusions hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from analysis.claims import checked
from analysis.claims.claim import Answer, Finding, Part
from analysis.conclusions import concluded
from analysis.conclusions.cases import PUBLISHED_MARGIN
from analysis.conclusions.conclusion import Conclusion
from analysis.conclusions.counting import counting
from analysis.conclusions.noted import with_notes
from analysis.options import (
    BaselineOption,
    Filters,
    OriginOption,
    SourceOption,
    Sweep,
    of_known_programs,
    result_record,
    say_ending,
    select,
)
from analysis.results import BaselineRule, Origin, Result
from analysis.source import Source
from analysis.text.numbers import number
from analysis.text.titles import environment_notes, host_notes, sweep_notes
from scalemark.cli.terminal import make_console, print_json
from scalemark.records.devices import DeviceKind
from store.command_line import Db, Json

_MOST_ROWS = 8
_MOST_CASES = 3
_WORDS = {False: "no: ", True: "yes:", None: "?:  "}  # what disagrees comes first


def conclusions(
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    origin: OriginOption = None,
    source: SourceOption = None,
    baseline: BaselineOption = BaselineRule.SAME,
    check: Annotated[
        bool,
        typer.Option("--check", help="Hold the published conclusions C1 to C14 against the rows."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Say what follows from the results, with the rows behind each sentence; --check: whether
    published conclusions hold.
    """
    found = Source(selection=select(db, filters, sweep, origin, source, baseline))
    of_known_programs(found.selection.origin, "what follows for other programs")
    references = found.references if found.selection.origin is Origin.PUBLISHED else ()
    results, notes = counting(with_notes(found.results, references, baseline), filters or ())
    notes = (*notes, *sweep_notes(results))
    if check:
        findings = checked(results) if results else []
        if as_json:
            claims = [_finding_record(one, results) for one in findings]
            return print_json({"claims": claims, "notes": notes})
        lines = _check_lines(findings, results)
    else:
        drawn = concluded(results)
        if as_json:
            return print_json([_record(one, notes) for one in drawn])
        lines = _lines(drawn) if results else []
    console = make_console()
    for line in [*notes, *([""] if notes and lines else []), *lines]:
        say_ending(console, line)


def _lines(found: Sequence[Conclusion]) -> list[str]:
    if not found:
        return [
            "No conclusion: no two results differ in one thing alone. A grid of strategies on "
            "1 to N GPUs would supply them."
        ]
    by_environment: dict[str, list[Conclusion]] = {}
    for one in found:
        by_environment.setdefault(one.environment.key, []).append(one)
    lines = []
    for of in by_environment.values():
        rows = [row for one in of for row in one.rows]
        lines += [". ".join([*environment_notes(of[0].environment), *host_notes(rows)]), ""]
        for one in of:
            lines += [f"- {one.sentence}", f"  rows: {_rows(one.rows)}"]
        lines.append("")
    margin = "A tie: the 95 % CI of the ratio over processes contains 1."
    if found[0].environment.origin is Origin.PUBLISHED:
        margin = (
            f"Published figures have no interval: {PUBLISHED_MARGIN:.0%} or less apart counts as "
            "the same."
        )
    return [*lines, margin]


def _rows(rows: Sequence[Result]) -> str:
    texts = []
    for row in rows[:_MOST_ROWS]:
        value = number(row.throughput) if row.throughput else row.outcome
        is_suspect = row.throughput and row.environment.origin.is_ours and not row.is_valid
        texts.append(f"{row.trial_id} {value}{' (suspect)' if is_suspect else ''}")
    more = f", and {len(rows) - _MOST_ROWS} more (--json)" if len(rows) > _MOST_ROWS else ""
    return ", ".join(texts) + more


def _check_lines(findings: Sequence[Finding], results: Sequence[Result]) -> list[str]:
    lines = []
    if any(one.environment.device_kind is DeviceKind.SIMULATED_GPU for one in results):
        # what a cost model says to a claim is no evidence
        lines += [DeviceKind.SIMULATED_GPU.note, ""]
    for finding in findings:
        claim = finding.claim
        lines += [f"{claim.id}  {finding.summary}  ({claim.source})", f"    {claim.claim}."]
        for part in finding.parts:
            lines += [f"    - {part.says}: {part.summary}", *_case_lines(part)]
        is_open = finding.answer in (Answer.NO_ROWS, Answer.UNDECIDED)
        if is_open or not all(part.cases for part in finding.parts):
            lines.append(f"    rows would come from: {claim.supplied_by(results)}")
        lines.append("")
    return lines[:-1]


def _case_lines(part: Part) -> list[str]:
    ordered = sorted(part.cases, key=lambda case: list(_WORDS).index(case.holds))
    lines = [f"      {_WORDS[case.holds]} {case.text}" for case in ordered[:_MOST_CASES]]
    if len(ordered) > _MOST_CASES:
        lines.append(f"      and {len(ordered) - _MOST_CASES} more")
    return lines


def _finding_record(finding: Finding, results: Sequence[Result]) -> dict[str, Any]:
    claim = finding.claim
    return {
        "id": claim.id,
        "answer": finding.answer,
        "claim": claim.claim,
        "source": claim.source,
        "citation": claim.citation,
        "supply": claim.supplied_by(results),
        "parts": [
            {
                "says": part.says,
                "answer": part.answer,
                "cases": [
                    {
                        "holds": case.holds,
                        "text": case.text,
                        "rows": [result_record(row) for row in case.rows],
                    }
                    for case in part.cases
                ],
            }
            for part in finding.parts
        ],
    }


def _record(one: Conclusion, notes: Sequence[str]) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "sentence": one.sentence,
        "notes": [*environment_notes(one.environment), *host_notes(one.rows), *notes],
        "origin": one.environment.origin,
        "rows": [result_record(row) for row in one.rows],
    }
