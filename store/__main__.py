"""`python -m store`: list, show and query results from the command line."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer

from store import queries
from store.command_line import Db, Json, make_app, run
from store.database import open_for_reading
from store.terminal import make_console, print_columns

app = make_app("Read the results database.")

Sweep = Annotated[str | None, typer.Option(help="Only this sweep.")]


@app.command("list")
def list_(db: Db, sweep: Sweep = None, as_json: Json = False) -> None:
    """One line per attempt, oldest first."""
    found = queries.list_attempts(open_for_reading(db), sweep=sweep)
    if as_json:
        return _print_json(found)
    columns = (
        "attempt",
        "trial",
        "model",
        "strategy",
        "num_gpus",
        "batch_size",
        "precision",
        "data",
        "device_kind",
        "repeat",
        "outcome",
        "images_per_second",
        "verdict",
        "sweep",
    )
    _print_rows(columns, ([row[column] for column in columns] for row in found))


@app.command()
def show(
    which: Annotated[str, typer.Argument(help="Number of an attempt, or the beginning of a trial's id.")],
    db: Db,
    as_json: Json = False,
) -> None:
    """Everything about one attempt, or about one trial with all its attempts."""
    found = queries.show(open_for_reading(db), which)
    if as_json:
        return _print_json(found)
    _print_rows(("axis", "value"), found["trial"].items())
    for attempt in found["attempts"]:
        _print_rows(("attempt", str(attempt["attempt_id"])), attempt.items())


@app.command()
def query(
    sql: Annotated[str, typer.Argument(help="A SELECT statement; nothing can be changed.")], db: Db, as_json: Json = False
) -> None:
    """Any SELECT on a read-only connection; the view `throughput` is a good beginning."""
    columns, found = queries.query(open_for_reading(db), sql)
    if as_json:
        return _print_json([dict(zip(columns, row, strict=True)) for row in found])
    _print_rows(columns, found)


def _print_json(value: Any) -> None:
    print(json.dumps(_finite(value), indent=1, default=str))


def _finite(value: Any) -> Any:
    """JSON has no infinity: null instead."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print_rows(columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    print_columns(make_console(), columns, ([_text(cell) for cell in row] for row in rows))


def _text(cell: object) -> str:
    if cell is None:
        return ""
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


if __name__ == "__main__":
    sys.exit(run(app, "store"))
