"""Writes what `sweep.py --help` and the reference say of each axis and setting."""

import io
import re
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import MISSING as REQUIRED
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from shutil import get_terminal_size
from typing import Any, get_type_hints

from conf.schema import AXES_SET_BY_NAME, SweepSettings
from scalemark.abilities import choices_of, help_of
from scalemark.cli.terminal import READING_WIDTH
from scalemark.host.own_code import typed
from scalemark.records.axes import Engine

_FROM_ENVIRONMENT = re.compile(r"\$\{oc\.env:\w+,(.*)\}")
_COLUMN = 34  # where the help begins, unless name and default are longer


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """An axis or a setting, as people read about it."""

    name: str
    default: str  # as it is typed
    choices: tuple[str, ...]
    help: str
    for_programs: bool  # also of trials that run the user's own program


def axes() -> Iterator[Line]:
    """Yield the axes in the order of their definitions."""
    for axis in AXES_SET_BY_NAME:
        yield Line(
            name=axis.name,
            default=_typed(axis.given),
            choices=tuple(choices_of(axis)),
            help=axis.help,
            for_programs=Engine.command in axis.engines,
        )


def settings() -> Iterator[Line]:
    """Yield the settings in the order of `conf/schema.py`, without what tests inject."""
    yield from _settings_of(SweepSettings, "")


FIRST = {
    *("num_gpus", "hosts", "precision", "xla", "optimizer", "learning_rate", "batch_size"),
    *("gradient_accumulation", "scaling", "num_steps"),
    *("sweep.name", "sweep.repeats", "sweep.exclude", "sweep.budget", "sweep.rerun"),
    *("sweep.dry_run", "launcher.hosts", "launcher.share_host", "store.url", "engine"),
}
"""The axes and settings that most people set; `--help all` shows the rest."""


def help_text(lines: Callable[[], Iterator[Line]], *, shows_all: bool) -> str:
    """Return what is said of `axes` or `settings`, or of the first of them."""
    return "\n".join(_text(line) for line in lines() if shows_all or line.name in FIRST)


def among(line: Line) -> str:
    """Return the choices in brackets; nothing where they are not listed."""
    if line.choices:
        return f" ({', '.join(line.choices)})"
    return ""


def _text(line: Line) -> str:
    head = f"  {line.name}={line.default}"
    if line.for_programs:
        head += "  *"
    width = _width()
    column = min(_COLUMN, width // 3)
    rows = textwrap.wrap(line.help + among(line), width - column)
    if len(head) > column - 2:
        rows.insert(0, "")  # the help begins below
    rest = [" " * column + row for row in rows[1:]]
    return "\n".join([f"{head:{column}}{rows[0]}".rstrip(), *rest])


def _width() -> int:
    """Return that of the terminal, but no more than people read; a pipe has none."""
    return min(READING_WIDTH, get_terminal_size().columns)


@contextmanager
def folding() -> Iterator[None]:
    """Fold the lines that are printed inside, but for commands, which are copied as they are."""
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            yield
    finally:
        command = typed("sweep")
        for line in printed.getvalue().splitlines():
            text = line.lstrip()
            rows = [line]
            if not text.startswith((command, "'")):
                indent = " " * (len(line) - len(text) + 2)
                rows = textwrap.wrap(line, _width(), subsequent_indent=indent)
            print(*(rows or [""]), sep="\n")


def _settings_of(record: type, prefix: str) -> Iterator[Line]:
    hints = get_type_hints(record)
    for setting in fields(record):
        inner = hints[setting.name]
        if isinstance(inner, type) and is_dataclass(inner):
            yield from _settings_of(inner, f"{prefix}{setting.name}.")
        elif help_of(setting):
            default = setting.default
            if setting.default_factory is not REQUIRED:
                default = setting.default_factory()
            yield Line(
                name=f"{prefix}{setting.name}",
                default=_typed(default),
                choices=_choices_of(inner),
                help=help_of(setting),
                for_programs=False,
            )


def _choices_of(kind: Any) -> tuple[str, ...]:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return tuple(member.name for member in kind)
    return ()


def _typed(value: Any) -> str:
    """Return a value as the command line takes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, list):
        return f"[{','.join(value)}]"
    return _FROM_ENVIRONMENT.sub(r"\1", str(value))
