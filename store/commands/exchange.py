"""`python -m store import|merge|rebuild|reference`: takes results and figures of others in."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from scalemark.cli.terminal import print_json, shown
from scalemark.records.references import Rejected
from scalemark.text.untrusted import visible
from scalemark.text.wording import counted
from store.command_line import Db, Json, make_app
from store.commands.printing import Format, write
from store.database import locate, open_existing, open_for_writing, own_command, writing
from store.errors import StoreError
from store.exchange import rebuild as rebuilding
from store.exchange.imports import FIELDS, Imported, ImportOptions, import_files
from store.exchange.merge import merge
from store.reading.references import chosen, known_references, list_references, remove, strategy_of

SOME_REJECTED = 1
MOST_SHOWN = 20


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
    help=f"The column that is one of {', '.join(FIELDS)}. A column of such a name need "
    "not be mapped.",
)
_Axis = typer.Option("--axis", metavar="COLUMN[=NAME]", help="A column that is a free axis.")
_Set = typer.Option(
    "--set",
    metavar="NAME=VALUE",
    help="What all rows share, as precision=bf16 or axes.framework=jax. A citation "
    "says where it can be looked up, and makes each row of a table a reference.",
)
_Ignore = typer.Option(
    "--ignore",
    metavar="COLUMN",
    help="A column that says nothing; '*' is all that have no meaning yet.",
)
_Compare = typer.Option(
    help="The free axis that plays the part of the strategy.",
    show_default="all of them",
)
_PerGpu = typer.Option(
    "--per-gpu/--all-gpus",
    help="Whether a throughput is that of one GPU.",
    show_default="all",
)
_DecimalComma = typer.Option(
    "--decimal-comma/--decimal-point",
    help="Whether 1,234 is 1.234 or 1234.",
    show_default="asked for where a table leaves it open",
)
_DryRun = typer.Option("--dry-run", help="Change nothing, say what would be done.")


def import_(
    paths: Annotated[
        list[str], typer.Argument(help="Tables of other programs.", show_default=False)
    ],
    db: Db,
    dry_run: Annotated[bool, _DryRun] = False,
    maps: Annotated[list[str] | None, _Map] = None,
    axes: Annotated[list[str] | None, _Axis] = None,
    constants: Annotated[list[str] | None, _Set] = None,
    ignored: Annotated[list[str] | None, _Ignore] = None,
    compare: Annotated[str, _Compare] = "",
    per_gpu: Annotated[bool | None, _PerGpu] = None,
    decimal_comma: Annotated[bool | None, _DecimalComma] = None,
    as_json: Json = False,
) -> None:
    """Add figures of others, out of CSV, TSV, Markdown or Parquet; what is there already stays as
    it is. Exit code 1 when anything was rejected, which is listed with its reason.

    The rows of a table are numbers that were measured elsewhere: `--origin elsewhere` shows them.
    """
    said = ImportOptions(
        maps=maps or (),
        axes=axes or (),
        constants=_constants(constants or ()),
        ignored=ignored or (),
        compare=compare,
        decimal_comma=decimal_comma,
        per_gpu=per_gpu,
    )
    with shown() as progress:
        added = import_files(db, paths, said, dry_run=dry_run, progress=progress)
    if as_json:
        print_json(added)
    else:
        _print_added(added, db, would="would be " if dry_run else "")
    if added.rejected:
        raise typer.Exit(SOME_REJECTED)


def _constants(given: Sequence[str]) -> dict[str, str]:
    constants: dict[str, str] = {}
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


references = make_app("Figures that others measured, with their sources.")

REFERENCE_COLUMNS = (
    *("model", "hardware", "num_gpus", "throughput", "item", "batch_size"),
    *("strategy", "precision", "data", "source", "citation"),
)


@references.command("list")
def list_references_(
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
    """List one line per figure, with where it can be looked up. `?` marks what a source leaves in
    doubt.
    """
    engine = open_existing(db)
    if engine is None:
        print(
            f"{locate(db).name}: no such database yet; these are the published references",
            file=sys.stderr,
        )
    rows = known_references(None) if engine is None else list_references(engine)
    rows = [row | {"strategy": strategy_of(row)} for row in rows]
    listed = [rows[position] for position in chosen(rows, filters or ())]
    if as_json:
        print_json(listed)
    elif listed:
        lines = [[row[name] for name in REFERENCE_COLUMNS] for row in listed]
        write(Format.TABLE, REFERENCE_COLUMNS, lines, ("citation", "data", "source"))
    else:
        models = ", ".join(sorted({row["model"] for row in rows}))
        print(
            f"no reference is like that; there are {len(rows)}, of the models {visible(models)}",
            file=sys.stderr,
        )


@references.command("remove")
def remove_(
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
    with writing(open_for_writing(db)) as connection:
        num_removed, num_kept = remove(connection, filters)
    if as_json:
        return print_json({"removed": num_removed, "kept": num_kept})
    print(f"{num_removed:,} removed")
    if num_kept:
        print(f"{num_kept:,} are like that and come with scalemark: they stay", file=sys.stderr)
