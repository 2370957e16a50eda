"""Charts, tables and sections are made one by one: a part that fails never stops the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from scalemark.text.untrusted import quoted
from store.errors import StoreError

T = TypeVar("T")

Failed = Callable[[str, Exception], object]
"""Called with the name of a part that failed, and why."""


def stop(name: str, error: Exception) -> None:
    """Raise the error, where no part may be missing."""
    raise error


def attempted(name: str, make: Callable[[], T], failed: Failed) -> T | None:
    """Return what `make` makes; None where it fails, after a call of `failed`."""
    try:
        return make()
    except Exception as error:  # whatever it is, the other parts are worth showing
        failed(name, error)
        return None


def in_words(error: Exception) -> str:
    """Return the message of an error; one that no message was written for comes with its type."""
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    elif isinstance(error, StoreError):
        text = str(error)
    else:
        text = f"{type(error).__name__}: {error}"
    return quoted(text)
