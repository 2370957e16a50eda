"""Commands that show a sweep's results again, for messages."""

from __future__ import annotations

import shlex

from scalemark.host.own_code import typed
from scalemark.text.redact import masked
from store.database import default_url


def command(name: str, url: str, sweep: str, *, room: str = "plots") -> str:
    """Return a command to paste; a password is masked in it."""
    database = [] if url == default_url() else ["--db", masked(url)]
    return f"{typed(room)} {shlex.join([name, *database, '--sweep', sweep])}"
