"""Finds the software of the programs of a sweep, by which finished repeats are known again."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scalemark.host import program_software, software
from scalemark.program import template
from scalemark.program.template import software_words
from scalemark.records.attempt import PYTHONPATH_VARIABLE
from scalemark.records.trial import TrialSpec
from scalemark.text.untrusted import quoted
from sweeper.errors import SweepRefusedError
from sweeper.starts.environment import environment

Words = Sequence[Sequence[str]]
"""For each program of a sweep, the words that say which software runs."""


def words_of_programs(specs: Sequence[TrialSpec]) -> Words:
    """Return each program once."""
    return list(dict.fromkeys(tuple(software_words(spec)) for spec in specs))


def check_programs(specs: Sequence[TrialSpec]) -> None:
    """Raise SweepRefusedError for a program or a script that is not on this host."""
    path = environment(os.environ, "").get("PATH", os.defpath)
    on_host = [spec for spec in specs if _is_known(spec)]
    for words in words_of_programs(on_host):
        if problem := template.problem(words, path, Path.cwd()):
            raise SweepRefusedError(f"command.run: {problem}")


def _is_known(spec: TrialSpec) -> bool:
    """Return whether the name of the program is known while planning; a shell knows more names."""
    program = template.words(spec.command, shell=spec.shell)[0]
    return not spec.shell and set(template.names(program)) <= template.of_axes(spec.axes).keys()


def describe_programs(programs: Words, inherited: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return what attempts at them will record of their software; nothing without any.

    They run in the current folder. Raises SweepRefusedError for programs of several environments: a
    sweep has one. Says on stderr what is not known of one.
    """
    variables = environment(inherited, "")
    variables.pop("PYTHONPATH", None)
    if own := variables.pop(PYTHONPATH_VARIABLE, ""):
        variables["PYTHONPATH"] = own
    kinds: dict[str, tuple[str, dict[str, Any]]] = {}  # key -> the first command with it
    for words in programs:
        described = program_software.describe(words, Path.cwd(), variables)
        command = " ".join(words)
        if doubt := program_software.doubt(words, described):
            print(f"sweep: `{quoted(command, 200)}`: {doubt}", file=sys.stderr)
        kinds.setdefault(software.key(described), (command, described))
    if len(kinds) > 1:
        first, second, *_ = (quoted(command, 200) for command, _ in kinds.values())
        raise SweepRefusedError(
            f"command.run: `{first}` and `{second}` have different interpreters, packages or code; "
            "their numbers are never mixed: make a sweep of each"
        )
    return next((described for _, described in kinds.values()), {})
