"""Says which suspect run is worth measuring again before all else, for advice and explanations."""

from __future__ import annotations

from collections.abc import Iterable

from analysis.results import Result


def is_worth_again(result: Result, known: Iterable[Result]) -> bool:
    """Return whether it is one suspect run, and no trial of `known` in its environment stayed
    suspect over several: then the machine is busy, and one more run would be suspect, too.
    """
    if len(result.repeats) != 1 or not _is_suspect(result):
        return False
    return not any(
        is_settled(other) for other in known if other.environment.key == result.environment.key
    )


def is_settled(result: Result) -> bool:
    """Return whether it was measured several times, and is suspect all the same."""
    return len(result.repeats) > 1 and _is_suspect(result)


def _is_suspect(result: Result) -> bool:
    return result.environment.origin.is_ours and not result.is_valid
