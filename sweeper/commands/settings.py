"""`scalemark settings`: the defaults in force, and where each comes from."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from conf.schema import SweepConfig
from scalemark.abilities import LOCAL
from scalemark.cli.terminal import make_console, print_columns, print_json
from scalemark.host.user_settings import (
    DATABASE_VARIABLE,
    KNOWN,
    LAUNCHER,
    REPEATS,
    STORE,
    UserSettings,
    UserSettingsError,
    user_settings,
)
from scalemark.text.redact import masked
from store.command_line import Json
from store.database import DEFAULT_FILE
from store.errors import StoreError

_DEFAULTS: dict[str, str | int] = {
    STORE: DEFAULT_FILE,
    LAUNCHER: LOCAL,
    REPEATS: SweepConfig().repeats,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _InForce:
    setting: str
    value: str | int
    source: str  # a file, an environment variable, or scalemark


def settings(as_json: Json = False) -> None:
    """Show the defaults of this user, which the command line and environment variables change, and
    where each comes from.
    """
    try:
        own = user_settings()
    except UserSettingsError as error:
        raise StoreError(str(error)) from error
    found = list(_in_force(own))
    if as_json:
        return print_json([asdict(one) for one in found])
    rows = [[one.setting, str(one.value), one.source] for one in found]
    print_columns(make_console(), ["setting", "value", "from"], rows)
    if own.path and not own.path.exists():
        print(f"no settings file; {own.path} would be one (docs/install.md)", file=sys.stderr)


def _in_force(own: UserSettings) -> Iterator[_InForce]:
    for name in KNOWN:
        value, source = _DEFAULTS[name], "scalemark"
        if name in own.values:
            value, source = own.values[name], str(own.path)
        if name == STORE and os.environ.get(DATABASE_VARIABLE):
            value, source = os.environ[DATABASE_VARIABLE], DATABASE_VARIABLE
        value = masked(value) if isinstance(value, str) else value
        yield _InForce(setting=name, value=value, source=source)
