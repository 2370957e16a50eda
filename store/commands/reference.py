"""`python -m store reference`: lists figures that others measured, and removes those that were
taken in.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from scalemark.cli.terminal import make_console, print_columns, print_json
from scalemark.records.measurement import unit_of
from scalemark.text.untrusted import visible
from store.command_line import Db, Json, make_app
from store.database import locate, open_existing, open_for_writing, writing
from store.errors import StoreError
from store.reading.queries import Row
from store.reading.references import chosen, known_references, list_references
from store.rows import remove_references

app = make_app("Figures that others measured, with their sources.")

_COLUMNS = ("model", "hardware", "gpus", "throughput", "batch", "strategy", "precision", "data")
_RIGHT = frozenset({"gpus", "throughput", "batch"})


@app.command("list")
def list_(
    db: Db,
    filters: Annotated[
        list[str] | None,
        typer.Argument(
            help="As model=resnet50 'num_gpus>=4' 'hardware~*V100*' origin=added.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List one line per figure, then where each can be looked up. `?` marks what a source leaves in
    doubt.
    """
    engine = open_existing(db)
    if engine is None:
        print(
            f"{locate(db).name}: no such database yet; these are the published references",
            file=sys.stderr,
        )
    rows = known_references(None) if engine is None else list_references(engine)
    with_strategies = [row | {"strategy": _strategy(row)} for row in rows]
    references = [rows[position] for position in chosen(with_strategies, filters or ())]
    if as_json:
        print_json(references)
    elif references:
        _print(references)
    else:
        models = ", ".join(sorted({row["model"] for row in rows}))
        print(
            f"no reference is like that; there are {len(rows)}, of the models {visible(models)}",
            file=sys.stderr,
        )


@app.command()
def remove(
    db: Db,
    filters: Annotated[
        list[str],
        typer.Argument(help="As source=results.csv; at least one.", show_default=False),
    ],
    as_json: Json = False,
) -> None:
    """Remove figures that were added or came in a table; those that scalemark brings stay."""
    engine = open_existing(db)
    if engine is None:
        raise StoreError(f"{locate(db).name}: no such database yet; there is nothing to remove")

    def meant(rows: Sequence[Mapping[str, Any]]) -> list[int]:
        return chosen([{**row, "strategy": _strategy(row)} for row in rows], filters)

    with writing(open_for_writing(db)) as connection:
        num_removed, num_kept = remove_references(connection, meant)
    if as_json:
        return print_json({"removed": num_removed, "kept": num_kept})
    print(f"{num_removed:,} removed")
    if num_kept:
        print(f"{num_kept:,} are like that and come with scalemark: they stay", file=sys.stderr)


def _print(references: Sequence[Row]) -> None:
    numbers: dict[str, int] = {}  # citation -> its number
    lines = []
    for row in references:
        number = numbers.setdefault(f"{row['source']}: {row['citation']}", len(numbers) + 1)
        lines.append([*_cells(row), f"[{number}]"])
    print_columns(make_console(), (*_COLUMNS, "source"), lines, _RIGHT)
    print()
    for citation, number in numbers.items():
        print(f"[{number}] {visible(citation)}")


def _cells(row: Row) -> list[str]:
    return [
        row["model"],
        row["hardware"],
        str(row["num_gpus"]),
        f"{row['throughput']:.5g} {unit_of(row['item'])}",
        "" if row["batch_size"] is None else str(row["batch_size"]),
        _strategy(row),
        row["precision"],
        row["data"],
    ]


def _strategy(row: Mapping[str, Any]) -> str:
    """Say in one column how variables are shared."""
    parts = [row["variable_update"], row["all_reduce"], row["local_parameter_device"]]
    parts += [f"{name}={value}" for name, value in row["axes"].items()]
    return " ".join(part for part in parts if part not in ("", "none", "n/a"))
