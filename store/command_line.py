"""What the command lines of `store` and `plots` share: their common options, and how a StoreError ends them."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from store.database import default_url
from store.errors import StoreError
from store.terminal import silence

OK, USAGE = 0, 2

Db = Annotated[
    str,
    typer.Option(
        "--db", help="File or sqlite:/// URL.", show_default="SCALEMARK_DB, else results.db", default_factory=default_url
    ),
]
Json = Annotated[bool, typer.Option("--json", help="JSON for scripts.")]


def make_app(about: str) -> typer.Typer:
    return typer.Typer(help=about, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def run(app: typer.Typer, name: str) -> int:
    """Exit codes: 0 ok, 2 usage, and when its output cannot be written."""
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except StoreError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return USAGE
    except BrokenPipeError:  # who read it has read enough
        silence(sys.stdout)
    except OSError as error:
        silence(sys.stdout)
        print(f"{name}: the output cannot be written: {error.strerror}", file=sys.stderr)
        return USAGE
    return OK
