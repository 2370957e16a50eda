"""`python -m store backup|check|vacuum`: keeps a database in order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from scalemark.cli.progress import shown
from scalemark.cli.terminal import print_json, reader_may_leave
from scalemark.text.untrusted import visible
from scalemark.text.wording import counted
from store.command_line import Db, Json, ask
from store.database import locate

if TYPE_CHECKING:  # each command imports its own work: the others need not wait for it
    from store.checks.finding import Finding

FINDINGS = 1


def backup(
    out: Annotated[str, typer.Argument(help="File that the copy becomes.")],
    db: Db,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    as_json: Json = False,
) -> None:
    """Copy and check a database as of one moment, also while a sweep writes."""
    from store.upkeep.backup import back_up

    with shown() as progress:
        made = back_up(db, out, force=force, progress=progress)
    if as_json:
        return print_json(asdict(made))
    print(
        f"{made.path}: {made.size_bytes:,} bytes; SHA-256 in {made.digest_path}, which "
        "`sha256sum -c` and `store check` read"
    )


def check(db: Db, as_json: Json = False) -> None:
    """Check a database. Exit code 0: nothing is wrong; 1: findings; 2: it cannot be checked."""
    from store.checks.every import check as findings_of

    with shown() as progress:
        findings = list(findings_of(db, progress))
    with reader_may_leave():
        _print(findings, locate(db).name, as_json=as_json)
    if findings:
        raise typer.Exit(FINDINGS)


def _print(findings: Sequence[Finding], name: str, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"findings": [asdict(finding) for finding in findings]}, indent=1))
        return
    for finding in findings:
        where = f"{finding.table} {finding.row}".strip()
        print(f"{visible(where)}: {visible(finding.what)}; {finding.remedy}")
    found = "nothing is wrong"
    if findings:
        found = f"damaged or incomplete, {len(findings)} findings"
    print(f"{name}: {found}")


def vacuum(
    db: Db,
    deleted: Annotated[
        bool, typer.Option("--deleted", help="First remove for good what `store delete` marked.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Give back the space that nothing uses any more."""
    from store.upkeep.vacuum import compact, num_deleted, remove_deleted

    name = locate(db).name
    num = num_deleted(db) if deleted else 0
    if num:
        ask(f"{counted(num, 'deleted attempt')} would be removed for good", yes=yes)
        num = remove_deleted(db, datetime.now(UTC))
        if not as_json:
            print(f"{name}: {counted(num, 'attempt')} removed for good")
    elif deleted and not as_json:
        print(f"{name}: nothing in it is deleted")
    done = compact(db)
    if as_json:
        return print_json({"removed": num, **asdict(done)})
    print(f"{name}: {done.before_bytes:,} bytes before, {done.after_bytes:,} now")
