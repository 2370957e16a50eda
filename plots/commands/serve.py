"""`python -m plots serve`: sweeps and their reports in a browser, live while a sweep runs."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from analysis.options import BaselineOption, Filters
from analysis.results import BaselineRule, Origin
from analysis.selection import Selection
from plots.options import command
from scalemark.cli.entry_point import INTERRUPTED
from scalemark.host.own_code import typed
from scalemark.text.redact import masked
from store.command_line import Db, Json
from store.database import locate
from store.errors import StoreError
from store.filters.selection import attempt_ids, unknown_name

PORTS = range(8490, 8500)
"""None of them is the default of Ray, TensorBoard, Jupyter, MLflow or another usual program."""


def serve(
    db: Db,
    filters: Filters = None,
    sweep: Annotated[
        str | None, typer.Option(help="Print the address of this sweep's page.")
    ] = None,
    origin: Annotated[
        Origin | None,
        typer.Option(
            "--origin",
            help="Numbers that we measured or simulated.",
            show_default="those of the newest sweep that matches",
        ),
    ] = None,
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
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="0 takes any that is free.",
            show_default=f"{PORTS[0]}, or the next free one",
        ),
    ] = None,
    every: Annotated[
        float, typer.Option(min=0.2, max=3600, help="Seconds between two looks at the database.")
    ] = 2.0,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log each request.")] = False,
    as_json: Json = False,
) -> None:
    """Serve a list of sweeps and the report of each, which take in results as they land, and print
    their address. It only reads; Ctrl-C or SIGTERM ends it.
    """
    from plots.serve import page  # here, because other commands need no server
    from plots.serve.server import listen
    from plots.serve.site import Shown, Site, path_of

    _check_names(allow_host or ())
    chosen = _chosen(db, filters or [], origin, baseline)
    site = Site(Shown(selection=chosen, origin=origin, command=command(), every_s=every))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    ports = PORTS if port is None else [port]
    with listen(host, ports, site.answer, allow_hosts=allow_host or (), verbose=verbose) as server:
        if port is None and server.server_port != PORTS[0]:
            _warn(f"port {PORTS[0]} is in use; this is port {server.server_port}")
        page.prepare()
        if not server.is_loopback:
            _warn(
                f"everybody who reaches {server.url} can read what it shows of {masked(db)}, "
                "without a password; without --host only this machine can"
            )
        url = server.url if sweep is None else f"{server.url[:-1]}{path_of(sweep)}"
        facts = {"url": url, "host": host, "port": server.server_port}
        print(json.dumps(facts) if as_json else url, flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None


def _chosen(
    db: str, filters: Sequence[str], origin: Origin | None, baseline: BaselineRule
) -> Selection:
    """Raise StoreError for what cannot be served, before anything listens."""
    if not any(map(unknown_name, filters)):
        attempt_ids(filters)  # refuses what is no filter
    locate(db)
    origin = origin or Origin.MEASURED
    if not origin.is_ours:
        raise StoreError(
            f"--origin {origin}: others ran no sweep here; see {typed('plots')} tables "
            f"--origin {origin}"
        )
    return Selection(db=db, filters=tuple(filters), origin=origin, baseline=baseline)


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if not re.fullmatch(r"[\w.-]+", name):
            raise StoreError(
                f"--allow-host {name[:100]}: wanted a name alone, without scheme, port and "
                "path, as bench.example"
            )


def _warn(text: str) -> None:
    print(f"plots: {text}", file=sys.stderr)
