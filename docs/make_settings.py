"""Writes the page of axes and settings from their definitions."""

from __future__ import annotations

from collections.abc import Iterable

from conf.help import Line, among, axes, settings

BEGIN = """# Axes and settings

This page lists every axis and setting with its default, as `python sweep.py --help all` does.

## Axes

`axis=value` sets one, `axis=a,b,c` sweeps it. Those with a `*` also hold for a program of your own.
`model`, `data`, `strategy`, `hardware`, `launcher` and `experiment` are groups: each choice is a
file of `conf/`, and a strategy sets `variable_update`, `local_parameter_device` and `all_reduce`.
`from=TRIAL` takes all of an earlier trial ([sweeps.md](sweeps.md#choosing-trials)).
[models.md](models.md) describes models and data, [strategies.md](strategies.md) the strategies.
"""


def page() -> str:
    return "\n".join([BEGIN, *_table(axes()), "", "## Settings", "", *_table(settings()), ""])


def _table(lines: Iterable[Line]) -> list[str]:
    rows = [f"| {_name(line)} | {_code(line.default)} | {_meaning(line)} |" for line in lines]
    return ["| name | default | meaning |", "|---|---|---|", *rows]


def _name(line: Line) -> str:
    return f"`{line.name}` *" if line.for_programs else f"`{line.name}`"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _meaning(line: Line) -> str:
    return (line.help + among(line)).replace("|", "\\|").replace("*", "\\*")
