"""Says in a line which of the chosen trials have no number, and what to do about them."""

from __future__ import annotations

from collections import Counter

from analysis.selection import Selection
from scalemark.records.references import Origin
from scalemark.text.wording import counted
from store.database import open_for_reading, own_command
from store.reading.sweeps import without_number


def trials_without_number(selection: Selection) -> str:
    """Return the line; empty where each has a number, and for numbers that are not ours."""
    if not selection.origin.is_ours:
        return ""
    missing = without_number(
        open_for_reading(selection.db),
        selection.filters,
        simulated=selection.origin is Origin.SIMULATED,
        sweep=selection.sweep,
    )
    num_trials = len(missing.outcomes) + missing.num_not_run
    if not num_trials:
        return ""
    how, todo = [], []
    for outcome, num in Counter(missing.outcomes).most_common():
        how.append(f"{num} {outcome.replace('_', ' ')}")
    if missing.first_attempt is not None:
        todo.append(f"{selection.show_command} {missing.first_attempt} shows the first")
    if missing.num_not_run:
        how.append(f"{missing.num_not_run} not run yet")
        todo.append(f"{own_command(selection.db, 'status')} has the command that runs the rest")
    trials = counted(num_trials, "trial")
    return f"without a number: {trials} ({', '.join(how)}); {'; '.join(todo)}"
