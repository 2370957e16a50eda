"""Options that the commands of `plots` share, and how they make parts and whole files."""

from __future__ import annotations

import errno
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from plots.tables.cells import QUANTITIES
from scalemark.host.own_code import typed
from scalemark.text.untrusted import command_line, quoted
from scalemark.text.wording import counted
from store.errors import StoreError

RowsOption = Annotated[
    str | None,
    typer.Option(
        "--rows",
        help="Axes down, as model,strategy.",
        show_default="all that vary",
    ),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        "--columns",
        help="Axes across, as precision,num_gpus.",
        show_default="num_gpus, or the axis with most values",
    ),
]
ShowOption = Annotated[
    str | None,
    typer.Option(
        "--show",
        help=f"What each cell holds, of {', '.join(QUANTITIES)}.",
        show_default="throughput,speed-up, and the spread where there are repeats",
    ),
]


def command() -> str:
    """Return this command line, as it can be typed again; without passwords."""
    return f"{typed('plots')} {command_line(sys.argv[1:])}"


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


@contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Yield a file to write, of the same ending, which then replaces `path`, or what a link leads
    to. A device or a pipe is written to directly. Raises OSError.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    target = path.resolve() if path.is_symlink() else path
    if target.exists() and not target.is_file():
        yield target
        return
    draft = target.with_name(f".scalemark-{os.getpid()}-{secrets.token_hex(4)}{target.suffix}")
    try:
        yield draft
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


_MOST_NAMED = 8


def wrote(paths: Sequence[Path]) -> str:
    """Return `wrote 3 files to figures/: report.html, a.png, b.png`; all are in one folder."""
    names = [path.name for path in paths[:_MOST_NAMED]]
    if more := len(paths) - len(names):
        names.append(f"and {more} more")
    return f"wrote {counted(len(paths), 'file')} to {paths[0].parent}/: {', '.join(names)}"


DPI = 240  # of PNGs, unless others are asked for: sharp on today's screens


class PictureFormat(StrEnum):
    """Kinds of picture files."""

    PNG = "png"
    SVG = "svg"
    PDF = "pdf"


class Theme(StrEnum):
    """The ground that a picture is drawn on."""

    LIGHT = "light"
    DARK = "dark"
