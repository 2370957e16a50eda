"""`python -m plots serve`: the report in a browser, live while a sweep runs."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import sys
from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.options import BaselineOption, Filters, OriginOption, Sweep, own
from analysis.results import BaselineRule, Origin
from analysis.selection import Selection
from plots.options import command
from plots.source import Source
from scalemark.cli.entry_point import INTERRUPTED
from scalemark.text.redact import masked
from store.command_line import Db, Json
from store.database import locate
from store.errors import StoreError
from store.filters.selection import attempt_ids, unknown_name

if TYPE_CHECKING:
    from plots.serve.current import Current
    from plots.serve.server import Answers


def serve(
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    origin: OriginOption = Origin.MEASURED,
    baseline: BaselineOption = BaselineRule.SAME,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any other lets other machines read.")
    ] = "127.0.0.1",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            help="Another name of this machine, as bench.example; may be repeated.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 8265,
    every: Annotated[
        float, typer.Option(min=0.2, max=3600, help="Seconds between two looks at the database.")
    ] = 2.0,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log each request.")] = False,
    as_json: Json = False,
) -> None:
    """Serve the report as a page that takes in results as they land, and print its address. It only
    reads; Ctrl-C or SIGTERM ends it.
    """
    from plots.serve import page  # here, because other commands need no server
    from plots.serve.current import Current, Makers
    from plots.serve.server import Server

    _check_names(allow_host or ())
    filters = filters or []
    if not any(map(unknown_name, filters)):
        attempt_ids(filters)  # what is no filter is refused before anything listens
    locate(db)
    chosen = Selection(
        db=db, sweep=sweep, filters=tuple(filters), origin=own(origin), baseline=baseline
    )
    made_by = command()
    make = Makers(
        source=lambda: Source(selection=chosen, command=made_by),
        page=lambda source, mark: page.live_page(source, mark, every),
        report=page.report,
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    found = answers(Current(db, make, every), every)
    with Server(host, port, found, allow_hosts=allow_host or (), verbose=verbose) as server:
        page.prepare()
        if not server.is_loopback:
            _warn(server.url, masked(db))
        facts = {"url": server.url, "host": host, "port": server.server_port}
        print(json.dumps(facts) if as_json else server.url, flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None


def answers(current: Current, every_s: float) -> Answers:
    """Return what the server answers, by path."""
    from plots.serve.current import What
    from plots.serve.page import POLICY, waiting_page
    from plots.serve.server import Answer

    def page() -> Answer:
        now = current.ask(What.PAGE)
        return Answer(
            body=now.page or waiting_page(now.problem or "", every_s),
            kind="text/html",
            policy=POLICY,
        )

    def data() -> Answer:
        body = current.ask(What.REPORT).to_json()
        etag = hashlib.sha256(body.encode()).hexdigest()[:16]
        return Answer(body=body, kind="application/json", etag=f'"{etag}"')

    def health() -> Answer:
        problem = current.ask(What.REPORT).problem
        if problem:
            return Answer(body=f"{problem}\n", status=HTTPStatus.SERVICE_UNAVAILABLE)
        return Answer(body="ok\n")

    return {"/": page, "/data.json": data, "/healthz": health}


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if not re.fullmatch(r"[\w.-]+", name):
            raise StoreError(
                f"--allow-host {name[:100]}: wanted a name alone, without scheme, port and "
                "path, as bench.example"
            )


def _warn(url: str, database: str) -> None:
    who = f"everybody who reaches {url} can read what it shows of {database}"
    print(
        f"plots: {who}, without a password; without --host only this machine can", file=sys.stderr
    )
