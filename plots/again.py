"""Commands that show a sweep's results again, for messages."""

from __future__ import annotations

import shlex

from scalemark.host.own_code import typed
from scalemark.text.untrusted import masked
from store.database import default_url


def command(name: str, url: str, sweep: str | None, *, room: str = "plots") -> str:
    """Return a command to paste; a password is masked in it. Without a sweep it is about what the
    command takes by itself.
    """
    database = [] if url == default_url() else ["--db", masked(url)]
    of_sweep = [] if sweep is None else ["--sweep", sweep]
    return f"{typed(room)} {shlex.join([name, *database, *of_sweep])}"
