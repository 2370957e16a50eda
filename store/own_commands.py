"""Writes commands about a database for messages: they name it where it is not the usual one."""

from __future__ import annotations

import sqlalchemy as sa

from scalemark.host.own_code import typed
from scalemark.text.untrusted import command_line
from store.database import default_url


def own_command(database: str | sa.Engine, program: str, *words: str) -> str:
    """Return a command of `store`, `plots` or `analysis` to paste, without a password."""
    url = database if isinstance(database, str) else _url_of(database)
    named = [] if url == default_url() else ["--db", url]
    return f"{typed(program)} {command_line([*words, *named])}".rstrip()


def _url_of(engine: sa.Engine) -> str:
    if engine.dialect.name == "sqlite":
        return engine.url.database or ""
    return engine.url.render_as_string(hide_password=True)
