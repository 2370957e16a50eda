"""`python -m analysis conclusions`: what the rows say in sentences, and what they say to published
conclusions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from analysis.claims import checked
from analysis.claims.article import counts, errors
from analysis.claims.claim import Answer, Case, Finding, Part
from analysis.claims.supplying import supplying
from analysis.conclusions import concluded
from analysis.conclusions.cases import PUBLISHED_MARGIN
from analysis.conclusions.conclusion import Conclusion
from analysis.conclusions.counting import counting
from analysis.conclusions.noted import with_notes
from analysis.options import BaselineOption, Filters, OriginOption, SourceOption, Sweep
from analysis.results import BaselineRule, Origin, Result
from analysis.selection import Selection
from analysis.source import Source
from analysis.text.numbers import number
from analysis.text.titles import host_notes, place_notes
from scalemark.cli.terminal import make_console, print_json
from scalemark.records.devices import SIMULATED_NOTE, DeviceKind
from scalemark.text.untrusted import visible
from store.command_line import Db, Json

_MOST_ROWS = 8
_MOST_CASES = 3


def conclusions(
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    origin: OriginOption = Origin.MEASURED,
    source: SourceOption = None,
    baseline: BaselineOption = BaselineRule.SAME,
    check: Annotated[
        bool,
        typer.Option("--check", help="Hold the published conclusions C1 to C14 against the rows."),
    ] = False,
    as_json: Json = False,
) -> None:
    """What follows from the results, in sentences with the rows behind each; --check: whether
    published conclusions hold.
    """
    chosen = Selection(
        db=db,
        sweep=sweep,
        filters=tuple(filters or ()),
        origin=origin,
        source=source,
        baseline=baseline,
    )
    found = Source(selection=chosen)
    notes = found.references if origin is Origin.PUBLISHED else ()
    counted = counting(with_notes(found.results, notes, baseline), filters or ())
    results = counted.results
    if as_json:
        told = [_conclusion(one, counted.notes) for one in concluded(results)]
        return print_json(
            _checked(checked(results), results) | {"notes": counted.notes} if check else told
        )
    lines = (
        [*_simulated(results), *_check_lines(checked(results), results)]
        if check
        else _lines(concluded(results))
    )
    lines = [*counted.notes, *([""] if counted.notes else []), *lines]
    console = make_console()
    for line in lines:
        console.print(visible(line), markup=False, emoji=False, soft_wrap=True)


def _lines(found: Sequence[Conclusion]) -> list[str]:
    if not found:
        return [
            (
                "No conclusion: no two results differ in one thing alone. A grid of strategies "
                "on 1 to N GPUs would supply them."
            )
        ]
    by_place: dict[str, list[Conclusion]] = {}
    for one in found:
        by_place.setdefault(one.place.key, []).append(one)
    lines = []
    for of in by_place.values():
        lines += [
            ". ".join(
                [*place_notes(of[0].place), *host_notes(row for one in of for row in one.rows)]
            ),
            "",
        ]
        lines += [
            line for one in of for line in (f"- {one.sentence}", f"  rows: {_rows(one.rows)}")
        ]
        lines += [""]
    return [*lines, _margin(found[0].place.origin)]


def _simulated(results: Sequence[Result]) -> list[str]:
    """What a cost model says to a claim is no evidence."""
    is_simulated = any(result.place.device_kind is DeviceKind.SIMULATED_GPU for result in results)
    return [SIMULATED_NOTE, ""] if is_simulated else []


def _check_lines(findings: Sequence[Finding], results: Sequence[Result]) -> list[str]:
    lines = []
    for finding in findings:
        claim = finding.claim
        lines += [f"{claim.id}  {finding.told}  ({claim.source})", f"    {claim.claim}."]
        for part in finding.parts:
            lines += [f"    - {part.says}: {part.told}", *_cases(part)]
        if finding.answer in (Answer.NO_ROWS, Answer.UNDECIDED) or any(
            not part.cases for part in finding.parts
        ):
            lines += [f"    rows would come from: {supplying(claim, results)}"]
        lines += [""]
    return [
        *lines,
        "Of the cloud article's own figures, by our count of its networks:",
        *(f"- {one}" for one in errors()),
    ]


def _cases(part: Part) -> list[str]:
    """Those that disagree first."""
    told = [
        f"      {_WORDS[case.holds]} {case.text}"
        for case in sorted(part.cases, key=_disagreeing_first)
    ]
    more = [f"      and {len(told) - _MOST_CASES} more"] if len(told) > _MOST_CASES else []
    return told[:_MOST_CASES] + more


_WORDS = {True: "yes:", False: "no: ", None: "?:  "}


def _disagreeing_first(case: Case) -> int:
    return (False, True, None).index(case.holds)


def _rows(rows: Sequence[Result]) -> str:
    told = [
        f"{row.trial_id} {number(row.throughput)}{_doubt(row)}" if row.throughput else _ended(row)
        for row in rows
    ]
    more = f", and {len(told) - _MOST_ROWS} more (--json)" if len(told) > _MOST_ROWS else ""
    return ", ".join(told[:_MOST_ROWS]) + more


def _doubt(row: Result) -> str:
    return "" if row.is_valid or not row.place.origin.is_ours else " (suspect)"


def _ended(row: Result) -> str:
    return f"{row.trial_id} {row.outcome}"


def _margin(origin: Origin) -> str:
    if origin is Origin.PUBLISHED:
        return (
            f"Published figures have no interval: {PUBLISHED_MARGIN:.0%} or less apart counts as "
            "the same."
        )
    return "A tie: the 95 % interval of the ratio over processes reaches 1."


def _checked(findings: Sequence[Finding], results: Sequence[Result]) -> dict[str, Any]:
    return {
        "claims": [_finding(finding, results) for finding in findings],
        "article": {
            "counts": [
                {
                    "model": one.model,
                    "told": one.told,
                    "counted": one.counted,
                    "right": one.is_right,
                    "sentence": one.sentence,
                }
                for one in counts()
            ],
            "errors": errors(),
        },
    }


def _finding(finding: Finding, results: Sequence[Result]) -> dict[str, Any]:
    claim = finding.claim
    return {
        "id": claim.id,
        "answer": finding.answer,
        "told": finding.told,
        "claim": claim.claim,
        "source": claim.source,
        "citation": claim.citation,
        "supply": supplying(claim, results),
        "parts": [
            {
                "says": part.says,
                "answer": part.answer,
                "cases": [
                    {
                        "holds": case.holds,
                        "text": case.text,
                        "rows": [_row(row) for row in case.rows],
                    }
                    for case in part.cases
                ],
            }
            for part in finding.parts
        ],
    }


def _conclusion(one: Conclusion, notes: Sequence[str]) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "sentence": one.sentence,
        "notes": [*place_notes(one.place), *host_notes(one.rows), *notes],
        "origin": one.place.origin,
        "rows": [_row(row) for row in one.rows],
    }


def _row(row: Result) -> dict[str, Any]:
    axes = ("model", "strategy", "num_gpus", "batch_size", "precision", "data")
    return {
        "trial_id": row.trial_id,
        "place": row.place.key,
        "machine": row.place.machine,
        "versions": row.place.versions,
        "device_kind": row.place.device_kind,
        **{axis: row.axes[axis] for axis in axes},
        "throughput": row.throughput,
        "low": row.low,
        "high": row.high,
        "num_repeats": len(row.repeats),
        "is_valid": row.is_valid,
        "outcome": row.outcome,
        "efficiency": row.efficiency,
        "baseline": row.baseline.trial_id if row.baseline else None,
    }
