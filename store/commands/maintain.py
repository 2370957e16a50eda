"""`python -m store current|upgrade|backup|check|vacuum`: keeps a database in order."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from scalemark.cli.progress import shown
from scalemark.text.untrusted import visible
from store.command_line import USAGE, Db, Json, ask
from store.database import check_writable, known_revision, locate
from store.errors import StoreError
from store.upgrade import head_revision

FINDINGS = 1


def current(db: Db, as_json: Json = False) -> None:
    """Which schema a database has, and how big it is. Exit code 2 when a newer scalemark wrote
    it.
    """
    # here, as below: the other commands need not wait for it
    from store.upkeep.description import describe

    found = describe(db)
    if as_json:
        print(json.dumps(asdict(found) | {"what_to_do": found.what_to_do}, indent=1))
    else:
        print(
            f"{found.name}: schema {found.revision}, this version's is "
            f"{found.known_revision}; {found.what_to_do}"
        )
        print(f"id       {visible(found.id or 'none before schema 0004')}")
        print(f"engine   {found.engine}")
        wal = f", of it {found.wal_bytes:,} in the write-ahead log" if found.wal_bytes else ""
        print(f"size     {found.size_bytes:,} bytes{wal}")
        for table, num in found.num_rows.items():
            print(f"{num:>12,}  {visible(table)}")
    if found.is_newer:
        raise typer.Exit(USAGE)


def upgrade(db: Db) -> None:
    """Makes the database, or brings it to this version's schema; a copy as it was is kept beside a
    file.
    """
    check_writable(db)
    database = locate(db)
    with database.explained():
        upgraded = None if known_revision(database) == head_revision() else database.upgrade()
    if upgraded is None:
        print(f"{database.name}: has schema {head_revision()}, this version's; nothing to do")
    elif upgraded.found is None:
        print(f"{database.name}: made, with schema {upgraded.made}")
    else:
        kept = (
            f"as it was: {upgraded.kept}"
            if upgraded.kept
            else "in one transaction; copies are the server's (pg_dump)"
        )
        print(f"{database.name}: upgraded from schema {upgraded.found} to {upgraded.made}; {kept}")


def backup(
    out: Annotated[str, typer.Argument(help="File that the copy becomes.")],
    db: Db,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """A checked copy as of one moment, also while a sweep writes, with its SHA-256 beside it."""
    from store.upkeep.backup import back_up

    with shown() as progress:
        made = back_up(db, out, force=force, progress=progress)
    print(
        f"{made.path}: {made.size_bytes:,} bytes; SHA-256 in {made.digest_path}, which "
        "`sha256sum -c` and `store check` read"
    )


def check(
    db: Db,
    salvage: Annotated[
        str | None,
        typer.Option(help="New database for everything that can be read of a damaged file."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Whether all that must be true of a database is. Exit code 0: it is; 1: findings; 2: it cannot
    be checked.
    """
    from store.checks.every import check as findings_of
    from store.checks.every import rows_are_checked

    try:
        with shown() as progress:
            findings = list(findings_of(db, progress))
        complete = not findings and rows_are_checked(db)
    except StoreError:
        if salvage is None:
            raise
        findings, complete = None, False
    if as_json:
        print(
            json.dumps(
                {
                    "findings": None
                    if findings is None
                    else [asdict(finding) for finding in findings]
                },
                indent=1,
            )
        )
    elif findings is not None:
        for finding in findings:
            where = " ".join(filter(None, (finding.table, finding.row)))
            print(f"{visible(where)}: {visible(finding.what)}; {finding.remedy}")
        if findings:
            print(f"{locate(db).name}: damaged or incomplete, {len(findings)} findings")
        else:
            of_rows = "" if complete else "; rows are checked once it is upgraded"
            print(f"{locate(db).name}: nothing is wrong{of_rows}")
    if salvage is not None:
        _salvage(db, salvage)
    if findings is None or findings:
        raise typer.Exit(FINDINGS)


def vacuum(
    db: Db,
    deleted: Annotated[
        bool, typer.Option("--deleted", help="First remove for good what `store delete` marked.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Gives back the space that nothing uses any more."""
    from store.upkeep.vacuum import compact, num_deleted, remove_deleted

    if deleted and (num := num_deleted(db)):
        ask(f"{num} deleted attempts would be removed for good", yes=yes)
        print(
            f"{locate(db).name}: {remove_deleted(db, datetime.now(UTC))} attempts removed for good"
        )
    elif deleted:
        print(f"{locate(db).name}: nothing in it is deleted")
    done = compact(db)
    print(f"{locate(db).name}: {done.before_bytes:,} bytes before, {done.after_bytes:,} now")


def _salvage(db: str, out: str) -> None:
    from store.upkeep.salvage import salvage

    with shown() as progress:
        saved = salvage(db, out, progress)
    for line in saved.told():
        print(visible(line))
