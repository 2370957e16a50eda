"""`python -m plots`: tables and charts of a database from the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from analysis.scaling import ScalingTable
from plots import tables as tables_of
from store.command_line import Db, Json, make_app, run
from store.errors import StoreError

app = make_app("Tables and charts of the results database.")


class Format(StrEnum):
    """How `tables` writes."""

    TERMINAL = "terminal"
    MARKDOWN = "md"
    CSV = "csv"


Sweep = Annotated[str | None, typer.Option(help="Only the trials this sweep asked for.")]

_WRITERS: dict[Format, Callable[[Sequence[ScalingTable]], str]] = {
    Format.MARKDOWN: tables_of.to_markdown,
    Format.CSV: tables_of.to_csv,
}


@app.command()
def tables(
    db: Db,
    sweep: Sweep = None,
    form: Annotated[Format, typer.Option("--format", help="How to write them.")] = Format.TERMINAL,
    as_json: Json = False,
) -> None:
    """Per model a table: strategies x GPU counts, images/s and speed-up."""
    found = _load(db, sweep)
    if as_json:
        print(json.dumps(tables_of.to_records(found), indent=1))
    elif form in _WRITERS:
        print(_WRITERS[form](found), end="")
    else:
        tables_of.print_terminal(found)


@app.command()
def charts(
    db: Db,
    sweep: Sweep = None,
    out: Annotated[Path, typer.Option(help="Folder for the PNG files.")] = Path("figures"),
    as_json: Json = False,
) -> None:
    """One PNG per model: images/s and speed-up against GPUs, with the ideal line. Prints the paths."""
    from plots.charts import draw_all  # here, because matplotlib is slow to import and tables need none of it

    paths = [str(path) for path in draw_all(_load(db, sweep), out)]
    print(json.dumps(paths) if as_json else "\n".join(paths))


def _load(db: str, sweep: str | None) -> list[ScalingTable]:
    found = tables_of.load(db, sweep)
    if not found:
        raise StoreError(f"{db}: no attempt in it yet; run a sweep first")
    return found


if __name__ == "__main__":
    sys.exit(run(app, "plots"))
