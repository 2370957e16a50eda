"""Finds a user's programs and their software, by which finished repeats are known again."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scalemark.host import program_software, software
from scalemark.program import template
from scalemark.records.attempt import PYTHONPATH_VARIABLE, WORKDIR_VARIABLE
from scalemark.records.trial import TrialSpec
from scalemark.text.untrusted import quoted
from sweeper.errors import SweepRefusedError

Programs = Sequence[tuple[Sequence[str], bool]]
"""For each program of a sweep, the words that say which software runs, and whether they begin with
its name: a shell knows more names, and some are known to the attempt alone."""


def programs_of(specs: Sequence[TrialSpec]) -> Programs:
    """Return each program once."""
    programs: dict[tuple[Sequence[str], bool], None] = {}
    for spec in specs:
        program = template.words(spec.command, shell=spec.shell)[0]
        axes = template.of_axes(spec.axes).keys()
        is_named = not spec.shell and set(template.names(program)) <= axes
        programs[tuple(template.software_words(spec)), is_named] = None
    return list(programs)


def describe_programs(
    programs: Programs, variables: Mapping[str, str]
) -> tuple[dict[str, Any], list[str]]:
    """Return what attempts at them will record of their software on this host, and what is not
    known of it, in a sentence each; nothing without any.

    `variables` are those of an attempt. Raises SweepRefusedError for a program or script that is
    not here, and for programs of several environments: a sweep has one.
    """
    folder = Path(variables[WORKDIR_VARIABLE])
    variables = dict(variables)
    variables.pop("PYTHONPATH", None)
    if own := variables.pop(PYTHONPATH_VARIABLE, ""):
        variables["PYTHONPATH"] = own
    for words, is_named in programs:
        path = variables.get("PATH", os.defpath)
        if is_named and (problem := template.problem(words, path, folder)):
            raise SweepRefusedError(f"command.run: {problem}")
    kinds: dict[str, tuple[str, dict[str, Any]]] = {}  # key -> the first command with it
    doubts = []
    for words, _ in programs:
        described = program_software.describe(words, folder, variables)
        command = quoted(" ".join(words), 200)
        if doubt := program_software.doubt(words, described):
            doubts.append(f"`{command}`: {doubt}")
        kinds.setdefault(software.key(described), (command, described))
    if len(kinds) > 1:
        first, second, *_ = (command for command, _ in kinds.values())
        raise SweepRefusedError(
            f"command.run: `{first}` and `{second}` have different interpreters, packages or code; "
            "their numbers are never mixed: make a sweep of each"
        )
    return next((described for _, described in kinds.values()), {}), doubts
