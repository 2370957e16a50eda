"""The arguments of a suggested command, with those of the trial that it names."""

import shlex
from collections.abc import Iterable

from analysis.results import Result
from scalemark.records.overrides import overrides, with_changes


def arguments(command: str, known: Iterable[Result]) -> list[str]:
    named, *changes = shlex.split(command.partition("scalemark sweep ")[2])
    if not named.startswith("from="):
        return [named, *changes]
    (like,) = (one for one in known if one.trial_id.startswith(named.removeprefix("from=")))
    return with_changes(overrides(like.spec, like.environment.hardware), changes)
