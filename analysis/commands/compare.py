"""`scalemark compare`: which of two sides is faster, pair by pair of trials that are otherwise
equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.console import Console

from analysis.again import command
from analysis.compare import words
from analysis.compare.pairs import Comparison, PairRow, comparison
from analysis.compare.sides import ComparedSide, sides
from analysis.options import Filters, OriginOption, Sweep, tell, tell_all_sweeps
from analysis.results import Result
from analysis.screen import say, say_command, say_meanings
from analysis.titles import number, program_name
from scalemark.cli.terminal import for_people, make_console, print_columns, print_json
from scalemark.records.free_axes import INHERITED, is_env_variable
from scalemark.text.wording import counted
from store.command_line import Db, Json

_MOST_COMMANDS = 2
_WIDEST_CELL = 32  # of how a program is read
_NUMBERS = frozenset({"processes", "repeats", "num_gpus"})


def compare(
    a: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="As strategy=ps_cpu, 'host=box model=vgg16', sweep=night, a trial's id.",
        ),
    ],
    b: Annotated[
        str,
        typer.Argument(
            metavar="B", help="What A is compared with; also a source as tf-benchmarks-2017/k80."
        ),
    ],
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    origin: OriginOption = None,
    as_json: Json = False,
) -> None:
    """Say which side is faster, by how much, how sure that is, and how many repeats would tell."""
    of_a, of_b = sides(db, a, b, filters or (), sweep, origin)
    tell(of_a.note)
    compared = comparison(of_a, of_b)
    if not any(side.is_by_name or side.names_an_environment for side in (of_a, of_b)):
        tell_all_sweeps(replace(of_a.selection, filters=tuple(filters or ())))
    rows = compared.rows
    if as_json:
        return print_json(_answer(of_a, of_b, compared))
    console = make_console()
    say(console, f"A: {_title(of_a, [row.name_a for row in rows])}")
    say(console, f"B: {_title(of_b, [row.name_b for row in rows])}")
    say(console, words.headline(rows), "bold")
    console.print()
    _print_table(console, rows)
    console.print()
    if of_a.is_by_name and of_b.is_by_name:
        _print_differences(console, rows)
    commands = list(dict.fromkeys(text for row in rows for text in row.to_run))
    if commands:
        say(console, "To run them:")
        for text in commands[:_MOST_COMMANDS]:
            say_command(console, text, "")
    if len(commands) > _MOST_COMMANDS:
        more = counted(len(commands) - _MOST_COMMANDS, "more command")
        say(console, f"and {more}: --json has them", "dim")
    for line in words.notes(compared, has_badges=True):
        say(console, line, "dim")
    meanings = words.meanings(rows)
    if meanings:
        say_meanings(console, meanings)


def _title(side: ComparedSide, names: Sequence[str]) -> str:
    """Return how the user called a side, with what distinguishes it from the other: its software,
    or axes that the user did not name.
    """
    if len(set(names)) != 1 or all(word in side.text for word in names[0].split()):
        return side.text
    return names[0] if names[0].startswith(side.text) else f"{side.text} ({names[0]})"


def _print_table(console: Console, rows: Sequence[PairRow]) -> None:
    """Name A and B in the rows where they are not the same in all."""
    axes = list(dict.fromkeys(axis for row in rows for axis in row.setting))
    repeats = "processes" if rows[0].a.environment.origin.is_ours else "repeats"
    # the only row goes the same way round as the sentence above it
    is_turned = len(rows) == 1 and rows[0].is_turned
    ratio = f"{'B / A' if is_turned else 'A / B'} [95 % CI]"
    columns = [*axes, "A", "B", ratio, repeats, "answer"]
    has_names = len({(row.name_a, row.name_b) for row in rows}) > 1
    if has_names:
        columns = ["A is", "B is", *columns]
    lines = []
    for row in rows:
        cells = [row.name_a, row.name_b] if has_names else []
        cells += [_value(row, axis) for axis in axes]
        cells += [
            _speed(row.a),
            _speed(row.b),
            *_ratio(row, is_turned=is_turned),
            words.answer(row),
        ]
        lines.append(cells)
    print_columns(console, columns, lines, _NUMBERS.union(["A", "B", ratio]), spare=[repeats])


def _print_differences(console: Console, rows: Sequence[PairRow]) -> None:
    lines = []
    for row in rows:
        for what, name, of_a, of_b in _differences(row):
            none = INHERITED if is_env_variable(name) else "-"
            values = [none if value is None else for_people(value) for value in (of_a, of_b)]
            lines.append([what, for_people(name), *values])
    if lines:
        print_columns(console, ("", "differs", "A", "B"), lines)
        console.print()


def _differences(row: PairRow) -> Iterator[tuple[str, str, object, object]]:
    """Yield what differs between the two trials, their machines or software: the kind, its name,
    and both values.
    """
    a, b = row.a.environment, row.b.environment
    sides: dict[str, tuple[Mapping[str, object], Mapping[str, object]]] = {
        "axis": ({name: row.a.axes.get(name) for name in row.compared}, row.b.axes),
        "machine": (
            {"machine": a.machine, "shares_host": a.shares_host},
            {"machine": b.machine, "shares_host": b.shares_host},
        ),
        "software": (
            {name: a.software.get(name) for name in sorted({*a.software, *b.software})},
            b.software,
        ),
    }
    for what, (of_a, of_b) in sides.items():
        for name, value in of_a.items():
            if value != of_b.get(name):
                yield what, name, value, of_b.get(name)


def _value(row: PairRow, axis: str) -> str:
    value = row.setting.get(axis)
    if value is None:
        return INHERITED if is_env_variable(axis) else ""
    text = str(value)
    if axis == "command":
        return program_name(text)  # a note has the command
    if axis == "read" and len(text) > _WIDEST_CELL:  # --json has all of it
        half = _WIDEST_CELL // 2
        return f"{text[:half]}…{text[-half:]}"
    return text


def _speed(result: Result) -> str:
    if result.throughput is None:
        return result.ended
    return f"{number(result.throughput)} {result.unit}"


def _ratio(row: PairRow, *, is_turned: bool) -> list[str]:
    """Return the ratio with its interval, and the number of processes of each side."""
    if row.judgement is None:
        return ["", ""]
    ratio = row.judgement.ratio
    shown = ratio.turned if is_turned else ratio
    return [words.fold_with_interval(shown), f"{ratio.num_a}, {ratio.num_b}"]


def _answer(a: ComparedSide, b: ComparedSide, compared: Comparison) -> dict[str, Any]:
    return {
        "a": a.text,
        "b": b.text,
        "pairs": [_row_answer(row) for row in compared.rows],
        "only_a": [_missing(result) for result in compared.only_a],
        "only_b": [_missing(result) for result in compared.only_b],
        "notes": words.notes(compared),
    }


def _row_answer(row: PairRow) -> dict[str, Any]:
    a, b = row.a, row.b
    compared = {axis: {"a": a.axes.get(axis), "b": b.axes.get(axis)} for axis in row.compared}
    keys = ("what", "name", "a", "b")
    return {
        "setting": dict(row.setting),
        "compared": compared,
        "differences": [dict(zip(keys, each, strict=True)) for each in _differences(row)],
        "a": a.facts() | {"name": row.name_a},
        "b": b.facts() | {"name": row.name_b},
        "judgement": row.judgement,
        "answer": row.judgement and row.judgement.answer,
        "words": words.sentence(row),
        "more_repeats": row.more_repeats,
        "doubts": words.contradictions(row),
        "notes": row.notes,
        "to_run": row.to_run,
    }


def _missing(result: Result) -> dict[str, Any]:
    text = ""
    if result.environment.origin.is_ours:
        text = command(result.spec, [result])
    injected = result.axes.get("injected", "")
    return result.facts() | {"injected": injected, "command": text}
