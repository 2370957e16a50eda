"""`python -m store check`: says what is wrong with a database."""

from __future__ import annotations

import typer

from scalemark.cli.terminal import print_json, reader_may_leave, shown
from scalemark.text.untrusted import visible
from store.command_line import Db, Json
from store.database import locate

FINDINGS = 1


def check(db: Db, as_json: Json = False) -> None:
    """Check a database. Exit code 0: nothing is wrong; 1: findings; 2: it cannot be checked."""
    from store.checks import check as findings_of  # here: the other commands need not wait for it

    with shown() as progress:
        findings = list(findings_of(db, progress))
    with reader_may_leave():
        if as_json:
            print_json({"findings": findings})
        else:
            for finding in findings:
                where = f"{finding.table} {finding.row}".strip()
                print(f"{visible(where)}: {visible(finding.what)}; {finding.remedy}")
            verdict = "nothing is wrong"
            if findings:
                verdict = f"damaged or incomplete, {len(findings)} findings"
            print(f"{locate(db).name}: {verdict}")
    if findings:
        raise typer.Exit(FINDINGS)
