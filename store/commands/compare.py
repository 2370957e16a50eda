"""`python -m store compare|diff`: in what two attempts or trials differ, and which is faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console

from scalemark.cli.terminal import for_people, make_console, print_columns, print_json
from scalemark.records.environment_axes import INHERITED, is_variable
from scalemark.records.measurement import unit_of
from store.command_line import Db, Json
from store.database import open_for_reading
from store.errors import StoreError
from store.filters.filter_values import ID_BEGINNING
from store.reading import comparison
from store.reading.comparison import Comparison, Speed
from store.reading.differences import Difference, Side, differences, sides

First = Annotated[
    str, typer.Argument(metavar="A", help=f"Number of an attempt, or {ID_BEGINNING}.")
]
Second = Annotated[str, typer.Argument(metavar="B", help="Another.")]
Axes = Annotated[
    list[str] | None,
    typer.Option(
        "--axis",
        help=(
            "What you want to compare, beside strategy and num_gpus; also machine, software, "
            "shares_host."
        ),
    ),
]
Anyway = Annotated[
    bool, typer.Option("--anyway", help="Show a ratio that would mislead, with a warning.")
]


def diff(a: First, b: Second, db: Db, as_json: Json = False) -> None:
    """Show in what two attempts or trials differ: axes, machine, software, environment."""
    of_a, of_b = sides(open_for_reading(db), a, b)
    found = differences(of_a, of_b)
    if as_json:
        return print_json(
            _sides_as_json(of_a, of_b) | {"differences": [asdict(one) for one in found]}
        )
    _print_differences(make_console(), of_a, of_b, found)


def compare(
    a: First, b: Second, db: Db, axis: Axes = None, anyway: Anyway = False, as_json: Json = False
) -> None:
    """Show what differs between two attempts or trials, and the ratio of their throughput with its
    95 % CI.
    """
    of_a, of_b = sides(open_for_reading(db), a, b)
    found = differences(of_a, of_b)
    asked = [name.strip() for text in axis or () for name in text.split(",")]
    named = comparison.full_names(of_a, of_b, asked)
    reasons = comparison.incomparable(of_a, of_b, found, named)
    warnings = comparison.warnings(of_a, of_b, found, named)
    compared = comparison.compare(of_a, of_b) if anyway or not reasons else None
    if as_json:
        values = _sides_as_json(of_a, of_b) | {
            "differences": [asdict(one) for one in found],
            "incomparable": reasons,
            "warnings": warnings,
            "comparison": asdict(compared) if compared else None,
        }
        print_json(values)
    else:
        console = make_console()
        _print_differences(console, of_a, of_b, found)
        if compared:
            _print_comparison(console, compared, _units(of_a, of_b))
            warnings = [*(f"incomparable: {reason}" for reason in reasons), *warnings]
        for text in warnings:
            console.print(for_people(text), style="dim", markup=False)
    if compared is None:
        raise StoreError(
            f"incomparable: {'; '.join(map(for_people, reasons))}; name with --axis what you want "
            "to compare, or see the ratio with --anyway"
        )


def _sides_as_json(a: Side, b: Side) -> dict[str, Any]:
    return {
        label: {
            "name": side.name,
            "trial": side.trial["id"],
            "attempts": [row["attempt_id"] for row in side.attempts],
            "num_left_out": side.num_left_out,
        }
        for label, side in (("a", a), ("b", b))
    }


def _print_differences(console: Console, a: Side, b: Side, found: Sequence[Difference]) -> None:
    for label, side in (("A", a), ("B", b)):
        console.print(f"{label}: {_described(side)}", markup=False)
    if not found:
        return console.print("no difference in axes, machine or software")
    console.print()
    cells = ([one.section, for_people(one.name), *_cells(one)] for one in found)
    print_columns(console, ("", "differs", "A", "B"), cells)


def _cells(found: Difference) -> list[str]:
    none = INHERITED if is_variable(found.name) else "-"
    return [none if value is None else for_people(value) for value in (found.a, found.b)]


def _described(side: Side) -> str:
    trial = side.trial
    what = f"{trial['model']} {trial['strategy']} num_gpus={trial['num_gpus']}"
    if trial["batch_size"] is not None:  # of a program that uses it, or of our own models
        what += f" batch_size={trial['batch_size']}"
    attempts = ", ".join(str(row["attempt_id"]) for row in side.attempts) or "none"
    others = f"; {side.num_left_out} others left out" if side.num_left_out else ""
    return for_people(f"{side.name}, {what}; attempts {attempts}{others}")


def _print_comparison(console: Console, found: Comparison, unit: str) -> None:
    console.print()
    rows = [(label, *_speed(speed)) for label, speed in (("A", found.a), ("B", found.b))]
    print_columns(console, ("", f"{unit} [95 % CI]", "processes"), rows)
    interval = "no interval"
    if found.low is not None and found.high is not None:
        interval = f"[{found.low:.4g}, {found.high:.4g}]"
    console.print(
        f"A / B  {found.ratio:.4g} {interval} ({found.basis}): {found.winner}",
        style="bold",
        markup=False,
    )


def _units(a: Side, b: Side) -> str:
    units = dict.fromkeys(unit_of(item) for side in (a, b) for item in comparison.items(side))
    return " and ".join(units)


def _speed(speed: Speed) -> tuple[str, str]:
    text = for_people(speed.throughput)
    if speed.low is not None and speed.high is not None:
        text += f" [{for_people(speed.low)}, {for_people(speed.high)}]"
    return text, str(speed.num_processes)
