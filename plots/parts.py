"""Parts of what is shown, as charts, tables and sections: one that fails is named, and never stops
the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from scalemark.text.untrusted import quoted
from store.errors import StoreError

T = TypeVar("T")

Failed = Callable[[str, Exception], object]
"""Is told the name of a part that failed, and why."""


def stop(name: str, error: Exception) -> None:
    """Raise the error: what happens where nobody is there to be told."""
    raise error


def attempted(name: str, make: Callable[[], T], failed: Failed) -> T | None:
    """Return what `make` makes; None where it fails, which `failed` is told."""
    try:
        return make()
    except Exception as error:  # whatever it is, the other parts are worth showing
        failed(name, error)
        return None


def in_words(error: Exception) -> str:
    """As a message names it; an error that no message was written for comes with its type."""
    return quoted(
        str(error) if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"
    )
