"""`python -m store export|import`: moves results between databases and other formats."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from scalemark.cli.progress import shown
from scalemark.cli.terminal import print_json
from scalemark.records.references import Rejected
from scalemark.text.untrusted import visible
from scalemark.text.wording import counted
from store.command_line import USAGE, Db, Json
from store.database import open_for_reading
from store.exchange.bulk import Added
from store.exchange.exports import ExportFormat, export
from store.exchange.imports import ImportFormat, LogSource, import_files
from store.filters.bare_names import full_names
from store.filters.selection import attempt_ids

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
    steps: Annotated[
        bool, typer.Option("--steps", help="csv and parquet: also all steps, in OUT-steps.")
    ] = False,
    experiment: Annotated[str, typer.Option(help="mlflow: name of the experiment.")] = "scalemark",
    as_json: Json = False,
) -> None:
    """Write all results, or those that the filters choose, for others.

    jsonl and sqlite hold all that a database holds, csv and parquet attempts; without filters these
    four hold deleted attempts, too. Exit code 1 when damaged rows were left out.
    """
    ids = attempt_ids(full_names(open_for_reading(db), filters)) if filters else None
    with shown() as progress:
        done = export(
            db, out, wanted, ids=ids, with_steps=steps, experiment=experiment, progress=progress
        )
    if as_json:
        print_json(asdict(done))
    else:
        print(f"{done.num_attempts:,} attempts exported to {', '.join(done.paths)}")
        _print_rejected(done.rejected, "left out")
    if done.rejected:
        raise typer.Exit(SOME_REJECTED)


def import_(
    paths: Annotated[
        list[str],
        typer.Argument(help="Files, or the postgresql:// URL of a database.", show_default=False),
    ],
    db: Db,
    wanted: Annotated[
        ImportFormat | None, typer.Option("--format", help="What they are.", show_default="guessed")
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Import nothing when anything is rejected; exit code 2."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing, say what would be done.")
    ] = False,
    source: Annotated[str, typer.Option(help="Of logs: short name, as in charts.")] = "",
    citation: Annotated[str, typer.Option(help="Of logs: where they can be looked up.")] = "",
    hardware: Annotated[str, typer.Option(help="Of logs: machine and GPUs.")] = "",
    model: Annotated[str, typer.Option(help="Of logs that do not say it.")] = "",
    num_gpus: Annotated[int | None, typer.Option(help="Of logs that do not say it.", min=1)] = None,
    batch_size: Annotated[int | None, typer.Option(help="As --model; per GPU.", min=1)] = None,
    as_json: Json = False,
) -> None:
    """Add results; what is there already stays as it is. Exit code 1 when anything was rejected,
    which is listed with its reason.
    """
    log = LogSource(
        source=source,
        citation=citation,
        hardware=hardware,
        model=model,
        num_gpus=num_gpus,
        batch_size=batch_size,
    )
    with shown() as progress:
        added = import_files(
            db, paths, wanted=wanted, log=log, strict=strict, dry_run=dry_run, progress=progress
        )
    if as_json:
        print_json(asdict(added))
    else:
        print_added(added, would="would be " if dry_run else "")
    if added.rejected:
        raise typer.Exit(USAGE if strict else SOME_REJECTED)


def print_added(added: Added, would: str = "") -> None:
    """Print what became of all records, the first rejected ones on stderr."""
    for name, renamed in added.renamed.items():
        print(
            f"another sweep is named {visible(name)}: the imported one {would or 'is '}named "
            f"{visible(renamed)}",
            file=sys.stderr,
        )
    new = counted(added.num_new, "attempt")
    done = f"{new} {would}imported, {added.num_known:,} were there already"
    if added.num_references:
        done += f"; {added.num_references:,} references {would}imported"
    print(done)
    _print_rejected(added.rejected, "rejected")


def _print_rejected(rejected: list[Rejected], what: str) -> None:
    if not rejected:
        return
    print(f"{len(rejected):,} {what}:", file=sys.stderr)
    for one in rejected[:MOST_SHOWN]:
        print(f"  {visible(one.where)}: {visible(one.reason)}", file=sys.stderr)
    if len(rejected) > MOST_SHOWN:
        print(f"  and {len(rejected) - MOST_SHOWN:,} more; --json lists all", file=sys.stderr)
