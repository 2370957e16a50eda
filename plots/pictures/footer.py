"""The one line below a picture, and the details that travel in its file."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.results import Environment, Origin, Result
from analysis.text import badges
from analysis.text.titles import (
    environment_notes,
    host_notes,
    program_notes,
    reported_notes,
    step_notes,
    sweep_notes,
)
from plots.pictures.lettering import drawable, width_in
from plots.pictures.theme import FOOTER_PT
from scalemark.text.wording import counted

BARS = "bars: 95 % CI"
WHISKERS = "whiskers: 95 % CI"
CUT = "arrowheads: wider"
"""What the footer says where an interval is cut off."""

_BETWEEN = " · "
_ELLIPSIS = "…"
_LEAST_CHARACTERS = 12  # of the machine: fewer say nothing


def footer(results: Sequence[Result], marks: Sequence[str], within_in: float) -> str:
    """Return badges, what marks in the picture mean, and the machine as far as there is room, as
    `CPU devices · single run · bars: 95 % CI · testbox: 2 cores Testium`.
    """
    words = [*_badges(results), *dict.fromkeys(marks)]
    machine = drawable(_machine(results))
    whole = _BETWEEN.join([*words, machine]) if machine else _BETWEEN.join(words)
    if width_in(whole, FOOTER_PT) <= within_in:
        return whole
    for end in range(len(machine) - 1, _LEAST_CHARACTERS - 1, -1):
        line = _BETWEEN.join([*words, machine[:end].rstrip() + _ELLIPSIS])
        if width_in(line, FOOTER_PT) <= within_in:
            return line
    return _BETWEEN.join(words)


def details(results: Sequence[Result]) -> list[str]:
    """Return what must be known of all numbers in a picture, in full."""
    found: list[str] = []
    for environment in _environments(results):
        found += environment_notes(environment)
    found += program_notes(results) + reported_notes(results)
    found += [*step_notes(results), *host_notes(results), *sweep_notes(results)]
    return list(dict.fromkeys(found))


def doubts(results: Sequence[Result], mark: str = "hollow") -> list[str]:
    """Return what the mark of doubt means, where there is one."""
    if all(result.is_valid for result in results):
        return []
    word = "suspect" if results[0].environment.origin.is_ours else "in doubt"
    return [f"{mark}: {word}"]


def _environments(results: Sequence[Result]) -> list[Environment]:
    return list(dict.fromkeys(result.environment for result in results))


def _badges(results: Sequence[Result]) -> list[str]:
    found: list[str] = []
    for environment in _environments(results):
        of_environment = badges.of_environment(environment)
        if not environment.origin.is_ours:  # who said so is told with the word
            of_environment[0] = environment.versions
        found += of_environment
    if any("single run" in badges.of_result(result) for result in results):
        found.append("single run")
    if host_notes(results):
        found.append("hosts: processes of one machine")
    if reported_notes(results):
        found.append("reported by the program")
    if sweep_notes(results):
        found.append("other sweeps count, too")
    return list(dict.fromkeys(found))


def _machine(results: Sequence[Result]) -> str:
    """Return the machine without what its badge says."""
    machines = []
    for environment in _environments(results):
        text = environment.machine.removesuffix(f", {environment.devices}")
        if environment.origin is Origin.SIMULATED:
            text = text.removeprefix("simulated ").removesuffix(", by a cost model")
        machines.append(text)
    different = list(dict.fromkeys(machines))
    return different[0] if len(different) == 1 else counted(len(different), "machine")
