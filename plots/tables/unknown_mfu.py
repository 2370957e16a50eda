"""Says below a table why model FLOPs utilization is not known."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.results import Result
from scalemark.own_model import is_own


def reasons(results: Sequence[Result], show_command: str) -> list[str]:
    """Return a line for each reason that numbers have no `mfu`."""
    found: dict[str, str] = {}
    for result in results:
        if result.throughput is not None and result.usage.mfu is None:
            why = _why(result)
            # of many attempts that wrote the reason down, the first is named
            found.setdefault(why, f"mfu unknown: {why or _written(result, show_command)}")
    return list(found.values())


def _why(result: Result) -> str:
    """Return what follows from the trial; empty where only its log can tell."""
    if not result.environment.origin.is_ours:
        return "its source does not tell"
    if result.is_of_program:
        return "the FLOPs of a program are not counted"
    if is_own(str(result.axes["model"])):
        return "the FLOPs of a model of your own are not counted"
    return ""


def _written(result: Result, show_command: str) -> str:
    return f"log.txt in the run_dir of {show_command} {result.attempt_ids[-1]} says why"
