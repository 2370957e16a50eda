"""Selects the results that conclusions are drawn from: a trial with an injected fault says nothing
of a machine or a strategy.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis.results import Result
from scalemark.host.own_code import typed
from scalemark.records.injected import NOISE, read_injected
from scalemark.text.wording import counted
from store.filters.selection import parsed


def counting(
    results: Sequence[Result], filters: Sequence[str]
) -> tuple[list[Result], tuple[str, ...]]:
    """Return the results that count, with notes; a filter by `injected` asks for injected
    faults."""
    of_models = [one for one in results if not one.is_of_program]
    slowed = [one for one in of_models if _has_fault(one)]
    are_asked_for = any(one.name == "injected" for one in parsed(filters))
    chosen = [one for one in of_models if are_asked_for or not _has_fault(one)]
    notes = []
    if num_of_programs := len(results) - len(of_models):
        notes.append(
            f"Left out: {counted(num_of_programs, 'trial')} of your own programs, of which these "
            f"conclusions say nothing; {typed('analysis')} advise and scaling do."
        )
    if slowed:
        example = slowed[0].axes["injected"]
        what = f"{counted(len(slowed), 'trial')} with injected faults (as {example})"
        if are_asked_for:
            notes.append(f"{what}: what follows is about those faults.")
        else:
            notes.append(f"Left out: {what}; the filter 'injected~{example}' asks for such.")
    ours = [one for one in chosen if one.throughput and one.environment.origin.is_ours]
    if suspect := sum(not one.is_valid for one in ours):
        is_are = "is" if suspect == 1 else "are"
        trials = counted(len(ours), "trial")
        notes.append(f"{suspect} of {trials} {is_are} suspect: {typed('store')} show says why.")
    return chosen, tuple(notes)


def _has_fault(result: Result) -> bool:
    return bool(read_injected(str(result.axes.get("injected", ""))).keys() - set(NOISE))
