"""`python -m analysis compare`: two sides of trials that are equal but for what is compared, pair
by pair.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer
from rich.console import Console

from analysis.again import command
from analysis.comparison.compared import Compared, compared, fold, interval_text
from analysis.comparison.pairs import Paired, paired
from analysis.comparison.sides import Side, sides
from analysis.options import (
    Filters,
    OriginOption,
    Sweep,
    result_record,
    say,
    say_command,
    say_meanings,
    tell,
    tell_all_sweeps,
)
from analysis.results import Result
from analysis.statistics.judgement import Answer
from analysis.statistics.planning import MOST_WORTH_IT
from analysis.statistics.sample import Sample
from analysis.tables.axes import axes_of
from analysis.text import badges
from analysis.text.numbers import number
from analysis.text.summary import failed_repeats
from analysis.text.titles import (
    environment_notes,
    host_notes,
    made_with,
    named,
    program_name,
    program_notes,
    reported_notes,
    step_notes,
    sweep_notes,
)
from scalemark.cli.terminal import make_console, print_columns, print_json
from scalemark.host.own_code import typed
from scalemark.records.environment_axes import INHERITED, is_variable
from scalemark.text.wording import counted
from store.command_line import Db, Json

_MOST_LISTED = 5  # findings and missing counterparts, before they are counted
_MOST_COMMANDS = 2
_WIDEST_CELL = 32  # of how a program is read
_NUMBERS = frozenset({"processes", "repeats", "num_gpus"})
_MORE = "more"  # the column of repeats that are missing
_SINGLE_RUN = "single run"


def compare(
    a: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="As strategy=ps_cpu, 'host=box model=vgg16', sweep=night, a trial's id.",
        ),
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="What A is compared with.")],
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    origin: OriginOption = None,
    trust_steps: Annotated[
        bool,
        typer.Option(
            "--trust-steps",
            help="Let the steps of a single run decide, as if no other process could differ.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Say which side is faster, by how much, how sure that is, and how many more repeats would
    tell.
    """
    of_a, of_b = sides(db, a, b, filters or (), sweep, origin)
    tell(of_a.note)
    found = paired(of_a, of_b)
    if not any(side.is_by_name or side.names_an_environment for side in (of_a, of_b)):
        tell_all_sweeps(replace(of_a.source.selection, filters=tuple(filters or ())))
    rows = list(compared(found.pairs, of_a, of_b, trust_steps=trust_steps))
    if as_json:
        return print_json(_record(of_a, of_b, found, rows))
    console = make_console()
    for label, side, names in (
        ("A", of_a, [row.name_a for row in rows]),
        ("B", of_b, [row.name_b for row in rows]),
    ):
        say(console, f"{label}: {_title(side, names)}")
    say(console, _headline(rows), "bold")
    console.print()
    _print_table(console, rows)
    console.print()
    if commands := _to_run(rows):
        say(console, "To run them:")
        for text in commands[:_MOST_COMMANDS]:
            say_command(console, text, "")
        if (more := len(commands) - _MOST_COMMANDS) > 0:
            say(console, f"and {counted(more, 'more command')}: --json has them", "dim")
    findings = _shortened([text for row in rows for text in (*_doubts(row), *row.findings)])
    for line in (*findings, *_lonely(found), *_notes(rows, told_by_badges=True)):
        say(console, line, "dim")
    if meanings := badges.foot(_badges(rows)):
        say_meanings(console, meanings)


def _title(side: Side, names: Sequence[str]) -> str:
    """Return how the user called a side, with what tells it from the other: its software, or axes
    that the user did not name.
    """
    if len(set(names)) != 1 or all(word in side.text for word in names[0].split()):
        return side.text
    return names[0] if names[0].startswith(side.text) else f"{side.text} ({names[0]})"


def _print_table(console: Console, rows: Sequence[Compared]) -> None:
    """Name A and B in the rows where they are not the same in all."""
    axes = list(dict.fromkeys(axis for row in rows for axis in row.pair.setting))
    units = dict.fromkeys(_unit(row) for row in rows)
    # where pairs count different items, each number has its unit
    throughput = [f"{side} {next(iter(units))}" if len(units) == 1 else side for side in "AB"]
    repeats = "processes" if rows[0].pair.a.environment.origin.is_ours else "repeats"
    # the only row goes the same way round as the sentence above it
    is_turned = len(rows) == 1 and rows[0].is_turned
    ratio = f"{'B / A' if is_turned else 'A / B'} [95 % CI]"
    columns = [*axes, *throughput, ratio, repeats, "answer"]
    has_plan = len(rows) > 1 and any(row.plan is not None for row in rows)
    if has_plan:
        columns.append(_MORE)
    has_names = len({(row.name_a, row.name_b) for row in rows}) > 1
    if has_names:
        columns = ["A", "B", *columns]
    lines = []
    for row in rows:
        cells = _cells(
            row, axes, has_names=has_names, has_units=len(units) > 1, is_turned=is_turned
        )
        lines.append([*cells, *([_more(row)] if has_plan else [])])
    print_columns(console, columns, lines, _NUMBERS.union(throughput, [ratio]), spare=[repeats])
    if has_plan:
        say(console, f"{_MORE}: repeats of each that would show such a difference", "dim")


def _unit(row: Compared) -> str:
    with_number = row.pair.b if row.pair.a.throughput is None else row.pair.a
    return with_number.unit


def _cells(
    row: Compared, axes: Sequence[str], *, has_names: bool, has_units: bool, is_turned: bool
) -> list[str]:
    cells = [row.name_a, row.name_b] if has_names else []
    cells += [_value(row, axis) for axis in axes]
    unit = f" {_unit(row)}" if has_units else ""
    cells += [_speed(row.sample_a, row.pair.a, unit), _speed(row.sample_b, row.pair.b, unit)]
    if row.judgement is None:
        return [*cells, "", "", _answer(row)]
    ratio = row.judgement.ratio
    processes = f"{ratio.num_a}, {ratio.num_b}"
    shown = ratio.turned if is_turned else ratio
    text = f"{fold(shown.ratio)} {interval_text(shown)}"
    return [*cells, text, processes, _answer(row)]


def _value(row: Compared, axis: str) -> str:
    value = row.pair.setting.get(axis)
    if value is None:
        return INHERITED if is_variable(axis) else ""
    if axis == "command":
        return program_name(str(value))  # a note has the command
    return _cut(str(value)) if axis == "read" else str(value)


def _cut(text: str) -> str:
    """Cut in the middle; --json has all of it."""
    half = _WIDEST_CELL // 2
    return text if len(text) <= _WIDEST_CELL else f"{text[:half]}…{text[-half:]}"


def _answer(row: Compared) -> str:
    if row.judgement is None:
        return "nothing to compare"
    answer, ratio = row.judgement.answer, row.judgement.ratio
    doubt = "" if row.judgement.is_sure or min(ratio.num_a, ratio.num_b) > 1 else _SINGLE_RUN
    if answer is Answer.UNKNOWN:
        return doubt or "unclear"
    text = str(answer)
    if answer is Answer.DIFFERENT:
        text = "A faster" if ratio.ratio > 1 else "B faster"
    return f"{text}, {doubt}" if doubt else text


def _badges(rows: Sequence[Compared]) -> set[str]:
    used = {word for row in rows for word in _answer(row).split(", ")}
    for row in rows:
        for result in (row.pair.a, row.pair.b):
            used.update(badges.of_environment(result.environment))
    return used


def _more(row: Compared) -> str:
    """Return how many repeats of each are missing; empty where none is, or none would help."""
    if row.plan is None or row.judgement is None or abs(row.judgement.ratio.ratio - 1) < 1e-9:
        return ""
    if row.plan.more is not None:
        return str(row.plan.more)
    is_single = min(row.judgement.ratio.num_a, row.judgement.ratio.num_b) < 2
    return "2 or more" if is_single else f"over {MOST_WORTH_IT}"


def _speed(side: Sample | None, result: Result, unit: str) -> str:
    return result.ended if side is None else number(side.typical) + unit


def _headline(rows: Sequence[Compared]) -> str:
    """Return the answer: of one pair in a sentence, of several how many have which."""
    if len(rows) == 1:
        (row,) = rows
        plan = f"; {row.plan.words}" if row.plan is not None else ""
        return f"{_start(row)}{row.words}{plan}."
    counts = Counter(_answer(row) for row in rows).most_common()
    reported = ", ".join(f"{answer} in {count}" for answer, count in counts)
    return f"Of {len(rows)} pairs: {reported}."


def _start(row: Compared) -> str:
    setting = ", ".join(named(axis, value) for axis, value in row.pair.setting.items())
    return f"{setting}: " if setting else ""


def _doubts(row: Compared) -> list[str]:
    doubts = row.judgement.doubts if row.judgement is not None else ()
    return [f"{_start(row)}{doubt}" for doubt in doubts]


def _to_run(rows: Sequence[Compared]) -> list[str]:
    return list(dict.fromkeys(text for row in rows for text in row.to_run))


def _lonely(found: Paired) -> Iterator[str]:
    for label, other, results in (("A", "B", found.only_a), ("B", "A", found.only_b)):
        if results:
            names = "; ".join(_shortened(_trials(results)))
            yield f"{len(results)} of {label} without a counterpart in {other}: {names}"


def _trials(results: Sequence[Result]) -> list[str]:
    """Name each with what distinguishes it from others called the same, and its injected faults."""
    alike: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        alike[_called(result)].append(result)
    names = []
    for result in results:
        of = alike[_called(result)]
        axes = [
            axis for axis in axes_of([result]) if len({str(one.axes.get(axis)) for one in of}) > 1
        ]
        if result.axes.get("injected") and "injected" not in axes:
            axes.append("injected")
        settings = ", ".join(named(axis, result.axes.get(axis)) for axis in axes)
        name = f"{result.trial_id[:8]} {_called(result)}"
        names.append(f"{name} ({settings})" if settings else name)
    return names


def _called(result: Result) -> str:
    # a program without axes of its own has one name
    names = dict.fromkeys((str(result.axes["model"]), result.strategy))
    return f"{' '.join(names)} on {result.width}"


def _notes(rows: Sequence[Compared], *, told_by_badges: bool = False) -> list[str]:
    notes = [note for row in rows for note in row.pair.notes]
    both = [result for row in rows for result in (row.pair.a, row.pair.b)]
    for result in both:
        where = result.environment
        notes += [made_with(where)] if told_by_badges else environment_notes(where)
        notes += host_notes([result])
    notes += [*program_notes(both), *reported_notes(both), *step_notes(both), *sweep_notes(both)]
    if suspect := [one for one in both if not one.is_valid]:
        names = "; ".join(_shortened(_trials(suspect)))
        notes.append(f"suspect, see {typed('store')} show: {names}")
    if partly := [one for one in both if one.failed and one.throughput is not None]:
        names = "; ".join(
            _shortened(
                f"{name} ({failed_repeats(one)})"
                for name, one in zip(_trials(partly), partly, strict=True)
            )
        )
        notes.append(f"repeats without a number, which are left out: {names}")
    return list(dict.fromkeys(notes))


def _shortened(texts: Iterator[str] | Sequence[str]) -> list[str]:
    found = list(dict.fromkeys(texts))
    if len(found) <= _MOST_LISTED:
        return found
    return [*found[: _MOST_LISTED - 1], f"and {len(found) - _MOST_LISTED + 1} more: see --json"]


def _record(a: Side, b: Side, found: Paired, rows: Sequence[Compared]) -> dict[str, Any]:
    return {
        "a": a.text,
        "b": b.text,
        "pairs": [_row_record(row) for row in rows],
        "only_a": [_missing_record(result) for result in found.only_a],
        "only_b": [_missing_record(result) for result in found.only_b],
        "notes": _notes(rows),
    }


def _row_record(row: Compared) -> dict[str, Any]:
    a, b = row.pair.a, row.pair.b
    return {
        "setting": dict(row.pair.setting),
        "compared": {
            axis: {"a": a.axes.get(axis), "b": b.axes.get(axis)} for axis in row.pair.compared
        },
        "a": result_record(a) | {"name": row.name_a},
        "b": result_record(b) | {"name": row.name_b},
        "judgement": row.judgement and asdict(row.judgement),
        "answer": row.judgement and row.judgement.answer,
        "words": row.words,
        "plan": row.plan and asdict(row.plan),
        "findings": row.findings,
        "notes": row.pair.notes,
        "to_run": row.to_run,
    }


def _missing_record(result: Result) -> dict[str, Any]:
    found = result_record(result) | {"injected": result.axes.get("injected", ""), "command": ""}
    if result.environment.origin.is_ours:
        found["command"] = command(result.spec, [result])
    return found
