"""`python -m store backup|check`: keeps a database in order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from scalemark.cli.terminal import print_json, reader_may_leave, shown
from scalemark.text.untrusted import visible
from store.command_line import Db, Json
from store.database import locate

if TYPE_CHECKING:  # each command imports its own work: the others need not wait for it
    from store.checks import Finding

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
    from store.checks import check as findings_of

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
