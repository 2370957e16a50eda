"""Writes docs/settings.md from the definitions of axes and settings."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from conf.help import Line, among, axes, settings

PAGE = Path(__file__).resolve().parent / "settings.md"
BEGIN = """# Axes and settings

This page lists every axis and setting with its default. `python -m docs.make_settings` writes it
from the definitions that `python sweep.py --help` prints, too.

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


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    PAGE.write_text(page(), encoding="utf-8")
