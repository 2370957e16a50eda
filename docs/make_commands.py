"""Writes the page of commands from the definitions of the commands, which `--help` prints, too."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import EnumType
from typing import Any, get_args

import typer

from scalemark.cli.commands import COMMANDS, DB, Command
from store.command_line import typer_app

BEGIN = """# Commands

This page lists every command with its options, as `--help` does.

`scalemark sweep` is `python sweep.py`, whose axes and settings are in [reference.md](#settings);
`python -m scalemark` is `scalemark`. `scalemark read LOG` says how the output of a
program is read ([your_program.md](your_program.md)), and `scalemark selfcheck` proves every mode of
the trainer on this machine. Exit codes: 0 well, 1 something failed, 2 wrong usage, 130 interrupted.
With `--json` and exit code 2 stdout has an object whose `error` says what stderr says.

## What many commands take
"""
_HEAD = ("| argument or option | default | meaning |", "|---|---|---|")
_MANY = 2  # commands with the same option, which is explained once


def page() -> str:
    flat = {name: command for name, command in COMMANDS.items() if not command.reads_arguments}
    found = {f"scalemark {name}": command for name, command in _commands(flat)}
    found |= {f"scalemark db {name}": command for name, command in _commands(DB)}
    uses = Counter(row for command in found.values() for row in _rows(command))
    shared = [row for row, num in uses.items() if num >= _MANY]
    lines = [BEGIN, *_HEAD, *shared]
    for name, command in found.items():
        lines += ["", f"## {name}", "", inspect.cleandoc(command.help or "")]
        lines += _table(list(_rows(command)), shared)
    return "\n".join(lines) + "\n"


def _commands(commands: Mapping[str, Command]) -> Iterator[tuple[str, Any]]:
    group: Any = typer.main.get_command(typer_app(commands))
    yield from group.commands.items()


def _table(rows: Sequence[str], shared: Sequence[str]) -> Iterator[str]:
    own = [row for row in rows if row not in shared]
    if own:
        yield from ("", *_HEAD, *own)
    if others := [row.split(" | ")[0].removeprefix("| ") for row in rows if row in shared]:
        yield from ("", f"{'Also' if own else 'It takes'} {', '.join(others)}.")


def _rows(command: Any) -> Iterator[str]:
    """Yield a row for each argument, then for each option."""
    for one in sorted(command.params, key=lambda one: bool(one.param_type_name == "option")):
        cells = [f"`{_name(one)}`", _default(one), _meaning(one)]
        escaped = (cell.replace("|", "\\|") for cell in cells)
        yield f"| {' | '.join(escaped)} |".replace("|  |", "| |")


def _name(one: Any) -> str:
    if one.param_type_name == "option":
        return ", ".join((*one.opts, *one.secondary_opts))
    name = (one.metavar or one.name).upper() + ("" if one.nargs == 1 else "...")
    return name if one.required else f"[{name}]"


def _default(one: Any) -> str:
    """Return what holds without it, in the words of the option where it has some."""
    if isinstance(getattr(one, "show_default", None), str):
        return str(one.show_default)
    if one.default is True:
        return f"`{one.opts[0]}`"
    has_none = one.default is None or one.default is False or callable(one.default)
    return "" if has_none else f"`{one.default}`"


def _meaning(one: Any) -> str:
    kind = one.type_descriptor.annotation
    choices = [str(choice) for each in (kind, *get_args(kind)) for choice in _members(each)]
    among = f" Of {', '.join(choices)}." if choices else ""
    return (one.help or "") + among


def _members(kind: object) -> Iterable[Any]:
    return kind if isinstance(kind, EnumType) else ()
