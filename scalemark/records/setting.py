"""Settings of a sweep, which are no part of a trial. Each is a field of a dataclass in
`conf/schema.py` or of a launcher, with the line that `--help` and the reference print of it.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import Field, field
from typing import Any

_HELP = "help"


def setting(help: str, *, default: Any) -> Any:  # noqa: A002
    """Return the field of a setting. Lists are copied for each instance."""
    metadata = {_HELP: help}
    if isinstance(default, list):
        return field(default_factory=lambda: deepcopy(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def help_of(one: Field[Any]) -> str:
    """Return the line of help; empty where the field is no setting."""
    return str(one.metadata.get(_HELP, ""))
