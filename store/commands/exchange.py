"""`python -m store export|import|merge|rebuild`: moves results between databases, formats and
folders.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from scalemark.cli.terminal import print_json, shown
from scalemark.records.references import Rejected
from scalemark.text.untrusted import visible
from scalemark.text.wording import counted
from store.command_line import Db, Json
from store.database import own_command
from store.errors import StoreError
from store.exchange import rebuild as rebuilding
from store.exchange.exports import ExportFormat, export
from store.exchange.foreign_columns import FIELDS, ImportOptions
from store.exchange.imports import Imported, ImportFormat, import_files
from store.exchange.merge import merge

SOME_REJECTED = 1
MOST_SHOWN = 20


def export_(
    db: Db,
    out: Annotated[
        str,
        typer.Option(help="File that is written; of mlflow its tracking URI.", show_default=False),
    ],
    wanted: Annotated[ExportFormat, typer.Option("--format", help="How it is written.")],
    filters: Annotated[
        list[str] | None,
        typer.Argument(
            help="As model=resnet50 'num_gpus>=4'; without, everything.", show_default=False
        ),
    ] = None,
    experiment: Annotated[str, typer.Option(help="mlflow: name of the experiment.")] = "scalemark",
    as_json: Json = False,
) -> None:
    """Write all attempts that count, or those that the filters choose, for other programs: a row,
    or a run of MLflow, for each.
    """
    done = export(db, out, wanted, filters or (), experiment=experiment)
    if as_json:
        return print_json(done)
    print(f"{counted(done.num_attempts, 'attempt')} exported to {done.path}")


def merge_(
    others: Annotated[
        list[str],
        typer.Argument(help="SQLite files with results.", metavar="OTHER.db", show_default=False),
    ],
    db: Db,
    as_json: Json = False,
) -> None:
    """Add the results of other databases; what is there already stays as it is, and merging again
    changes nothing. Exit code 1 when an attempt differs from what is here, which is listed.
    """
    with shown() as progress:
        merged = merge(db, others, progress)
    if as_json:
        print_json(merged)
    else:
        for name, renamed in merged.renamed.items():
            print(
                f"another sweep is named {visible(name)}: the merged one is named "
                f"{visible(renamed)}",
                file=sys.stderr,
            )
        new = counted(merged.num_new, "attempt")
        print(f"{new} merged, {merged.num_known:,} were there already")
        if merged.num_references:
            print(f"{counted(merged.num_references, 'reference')} merged")
        _print_rejected(merged.rejected)
    if merged.rejected:
        raise typer.Exit(SOME_REJECTED)


def rebuild(
    runs_dirs: Annotated[
        list[str],
        typer.Argument(help="Folders with sweeps in them, or of sweeps.", show_default=False),
    ],
    db: Db,
    as_json: Json = False,
) -> None:
    """Make a lost database again out of run folders; what is in it stays as it is. Exit code 1 when
    folders are damaged.
    """
    with shown() as progress:
        done = rebuilding.rebuild(db, runs_dirs, progress)
    if as_json:
        print_json(done)
    else:
        for warning in done.warnings:
            print(f"store: {visible(warning)}", file=sys.stderr)
        print(f"{counted(done.num_sweeps, 'sweep')} found")
        attempts = counted(done.num_new, "attempt")
        print(f"{attempts} imported, {done.num_known:,} were there already")
        _print_rejected(done.rejected)
    if done.rejected:
        raise typer.Exit(SOME_REJECTED)


_Map = typer.Option(
    "--map",
    metavar="COLUMN=NAME",
    help=f"Of tables: the column that is one of {', '.join(FIELDS)}. A column of such a name need "
    "not be mapped.",
)
_Axis = typer.Option(
    "--axis", metavar="COLUMN[=NAME]", help="Of tables: a column that is a free axis."
)
_Set = typer.Option(
    "--set",
    metavar="NAME=VALUE",
    help="What all rows share, or a log lacks, as precision=bf16 or axes.framework=jax.",
)
_Ignore = typer.Option(
    "--ignore",
    metavar="COLUMN",
    help="Of tables: a column that says nothing; '*' is all that have no meaning yet.",
)
_Citation = typer.Option(
    help="Of logs: where they can be looked up. Of tables: the same, which makes each row a "
    "reference."
)
_Item = typer.Option(
    help="What is counted, as tokens.", show_default="as a log says, of tables images"
)
_Read = typer.Option(
    help="Of logs: the reader, as of a sweep: torchtitan, or regex:PATTERN.",
    show_default="the best one",
)
_Compare = typer.Option(
    help="Of tables: the free axis that plays the part of the strategy.",
    show_default="all of them",
)
_PerGpu = typer.Option(
    "--per-gpu/--all-gpus",
    help="Whether a throughput is that of one GPU.",
    show_default="as a log says, of tables all",
)
_DecimalComma = typer.Option(
    "--decimal-comma/--decimal-point",
    help="Of tables: whether 1,234 is 1.234 or 1234.",
    show_default="asked for where a table leaves it open",
)


def import_(
    paths: Annotated[
        list[str], typer.Argument(help="Tables and logs of other programs.", show_default=False)
    ],
    db: Db,
    wanted: Annotated[
        ImportFormat | None, typer.Option("--format", help="What they are.", show_default="guessed")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing, say what would be done.")
    ] = False,
    source: Annotated[str, typer.Option(help="Of logs and tables: short name, as in charts.")] = "",
    citation: Annotated[str, _Citation] = "",
    hardware: Annotated[str, typer.Option(help="Of logs and tables: machine and GPUs.")] = "",
    model: Annotated[str, typer.Option(help="Of logs and tables that do not say it.")] = "",
    num_gpus: Annotated[
        int | None, typer.Option(help="Of logs and tables that do not say it.", min=1)
    ] = None,
    maps: Annotated[list[str] | None, _Map] = None,
    axes: Annotated[list[str] | None, _Axis] = None,
    constants: Annotated[list[str] | None, _Set] = None,
    ignored: Annotated[list[str] | None, _Ignore] = None,
    item: Annotated[str, _Item] = "",
    read: Annotated[str, _Read] = "",
    compare: Annotated[str, _Compare] = "",
    per_gpu: Annotated[bool | None, _PerGpu] = None,
    decimal_comma: Annotated[bool | None, _DecimalComma] = None,
    as_json: Json = False,
) -> None:
    """Add figures of others; what is there already stays as it is. Exit code 1 when anything was
    rejected, which is listed with its reason.

    The rows of a table are numbers that were measured elsewhere: `--origin elsewhere` shows them.
    """
    about = {"source": source, "citation": citation, "hardware": hardware, "model": model}
    about |= {"num_gpus": str(num_gpus or ""), "item": item}
    said = ImportOptions(
        maps=maps or (),
        axes=axes or (),
        constants=_constants(constants or (), about),
        ignored=ignored or (),
        compare=compare,
        decimal_comma=decimal_comma,
        per_gpu=per_gpu,
        read=read,
    )
    with shown() as progress:
        added = import_files(db, paths, wanted, said, dry_run=dry_run, progress=progress)
    if as_json:
        print_json(added)
    else:
        _print_added(added, db, would="would be " if dry_run else "")
    if added.rejected:
        raise typer.Exit(SOME_REJECTED)


def _constants(given: Sequence[str], about: Mapping[str, str]) -> dict[str, str]:
    """Return what is said of all rows, by `--set` and by options of their own."""
    constants = {name: value for name, value in about.items() if value}
    for text in given:
        name, sign, value = text.partition("=")
        if not name or not sign or not value.strip():
            raise StoreError(f"--set {visible(text)}: wanted NAME=VALUE, as model=resnet50")
        if name in constants:
            raise StoreError(f"--set {visible(text)}: {visible(name)} is given twice")
        constants[name] = value.strip()
    return constants


def _print_added(added: Imported, db: str, would: str) -> None:
    """Print what became of all figures, the first rejected ones on stderr."""
    done = []
    if added.num_references:
        done.append(f"{counted(added.num_references, 'reference')} {would}imported")
    if added.num_elsewhere:
        done.append(f"{counted(added.num_elsewhere, 'row')} {would}imported as measured elsewhere")
    if added.num_known:
        done.append(f"{added.num_known:,} were there already")
    print("; ".join(done) or f"nothing {would}imported")
    if added.num_elsewhere:
        print(f"shown by: {own_command(db, 'plots', 'tables', '--origin', 'elsewhere')}")
    _print_rejected(added.rejected)


def _print_rejected(rejected: Sequence[Rejected]) -> None:
    """Print the first of what was left out, with the reasons, on stderr."""
    if not rejected:
        return
    print(f"{len(rejected):,} rejected:", file=sys.stderr)
    for row in rejected[:MOST_SHOWN]:
        print(f"  {visible(row.where)}: {visible(row.reason)}", file=sys.stderr)
    if len(rejected) > MOST_SHOWN:
        print(f"  and {len(rejected) - MOST_SHOWN:,} more; --json lists all", file=sys.stderr)
