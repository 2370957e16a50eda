"""What tables, charts and reports share: results, how a strategy looks, and how files are made."""

import errno
import os
import secrets
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from analysis import selection
from analysis.results import Environment, Result
from scalemark.host.own_code import typed
from scalemark.records.references import Origin
from scalemark.records.trial import STRATEGY_COLUMNS
from scalemark.run_folder import refused
from scalemark.text.untrusted import command_line, quoted
from scalemark.text.wording import counted, natural, safe_name
from store.errors import StoreError

Looks = Mapping[str, int]
"""By name the number of its color, marker and dashes, for `plots.drawing.series_style`."""

NUM_COLORS = 7  # of pictures and pages; behind them the same ones begin again

_ARTICLE = tuple(STRATEGY_COLUMNS.values())
_MOST_NAMED = 8


class PictureFormat(StrEnum):
    """Kinds of picture files."""

    PNG = "png"
    SVG = "svg"
    PDF = "pdf"


@dataclass(frozen=True, kw_only=True)
class PlotSource(selection.Source):
    """A source of pictures and pages, which say how they were made."""

    command: str  # which makes the same again; stands in files of pictures

    def file_name(self, what: str) -> str:
        """Name a file of these results: what was not measured here says so. What is simulated says
        of which hardware it is where it is of one, so that sweeps of several profiles leave all of
        their files.
        """
        origin = self.selection.origin
        if origin is Origin.MEASURED:
            return what
        hosts = set(map(attrgetter("host"), environments_of(self.results)))
        if origin is Origin.SIMULATED and len(hosts) == 1:
            return f"{what}-{safe_name(hosts.pop())}"
        return f"{what}-{origin}"

    @cached_property
    def looks(self) -> Looks:
        """Return the number of the look of each strategy, of each with variables of its own, and of
        each line over several hosts.
        """
        names: list[str] = []
        over_hosts = {}
        for result in sorted(self.results, key=lambda result: result.hosts):
            names += [result.strategy, result.way]
            if result.hosts > 1:
                over_hosts[result.line] = result.way
        return numbered(names, over_hosts)


def environments_of(results: Iterable[Result]) -> list[Environment]:
    """Return the different environments, in the order of the results."""
    return list(dict.fromkeys(map(attrgetter("environment"), results)))


def numbered(names: Iterable[str], over_hosts: Mapping[str, str] | None = None) -> Looks:
    """Number the strategies of the article first, always alike; others follow by name. `over_hosts`
    are lines of strategies over several hosts: each has the color of its strategy, with another
    marker and other dashes.
    """
    lines = over_hosts or {}
    others = sorted({*names, *lines.values()} - set(_ARTICLE) - set(lines), key=natural)
    looks: dict[str, int] = {}
    for name in (*_ARTICLE, *others):
        looks[name] = len(looks)
    for line, strategy in lines.items():
        taken = set(looks.values())
        for number in count(looks[strategy] + NUM_COLORS, NUM_COLORS):
            if number not in taken:
                looks[line] = number
                break
    return looks


def command() -> str:
    """Return this command line, as it can be typed again; without passwords."""
    return f"{typed(sys.argv[1])} {command_line(sys.argv[2:])}".rstrip()


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
    if isinstance(error, StoreError):
        return quoted(str(error))
    if not isinstance(error, OSError) or not error.strerror:
        return quoted(f"{type(error).__name__}: {error}")
    where = f"{error.filename}: " if error.filename else ""
    return quoted(f"{where}{error.strerror}")


@contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Yield a file to write, of the same ending, which then replaces `path`, or what a link leads
    to. A device is written to directly. Raises OSError, also for a FIFO.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    target = path.resolve() if path.is_symlink() else path
    if path.is_fifo():
        raise refused(path, "a FIFO")
    if target.exists() and not target.is_file():
        yield target
        return
    draft = target.with_name(f".scalemark-{os.getpid()}-{secrets.token_hex(4)}{target.suffix}")
    try:
        yield draft
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def write_whole(path: Path, text: str, *, makes_folder: bool = False) -> None:
    """Write the file whole or not at all. Raises StoreError when it cannot."""
    try:
        if makes_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        with draft_of(path) as draft:
            draft.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; choose another file with --out") from error


def wrote(paths: Sequence[Path], earlier: Collection[str] = ()) -> str:
    """Return `wrote 3 files to figures/: report.html, a.png, b.png`, all of one folder, and how
    many are in place of those that were there `earlier`.
    """
    num_replaced = sum(path.name in earlier for path in paths)
    instead = f", {num_replaced} in place of earlier ones," if num_replaced else ""
    names = [path.name for path in paths[:_MOST_NAMED]]
    if len(paths) > len(names):
        names.append(f"and {len(paths) - len(names)} more")
    return f"wrote {counted(len(paths), 'file')}{instead} to {paths[0].parent}/: {', '.join(names)}"
