"""The changes of histories in words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date

from analysis import badges
from analysis.guard.changes import Change, ChangeState
from analysis.guard.histories import Record
from analysis.guard.scan import FEWEST_NIGHTS
from scalemark.records.machine import DeviceKind
from scalemark.text.wording import counted, listed, shortened

COLUMNS = ("since", "change [95 % CI]", "trials", "of", "what changed then", "state")
_MOST_NAMED = 3


def headline(changes: Sequence[Change], records: Sequence[Record], since: date | None) -> str:
    """Return the answer in one sentence."""
    numbers = Counter(change.state for change in changes)
    parts = [counted(numbers[ChangeState.REGRESSION], "regression")]
    for state in (ChangeState.ACCEPTED, ChangeState.RECOVERED):
        if numbers[state]:
            parts.append(f"{numbers[state]} {state}")
    if numbers[ChangeState.IMPROVEMENT]:
        parts.append(counted(numbers[ChangeState.IMPROVEMENT], "improvement"))
    days = [night.day for record in records for night in record.nights]
    num_trials = sum(len(record.cells) for record in records)
    when = f" since {since}" if since else ""
    return (
        f"{', '.join(parts)}{when}, in {counted(len(set(days)), 'night')} of "
        f"{counted(num_trials, 'trial')} ({min(days)} .. {max(days)})."
    )


def cells_of(change: Change, *, names_machines: bool) -> list[str]:
    """Return the row of a change."""
    trials = listed(shortened(change.groups, _MOST_NAMED))
    if names_machines:
        trials = f"{trials} on {listed(change.machines)}"
    causes = "nothing recorded"
    if change.causes:
        causes = listed(shortened(change.causes, _MOST_NAMED))
    state = str(change.state)
    if change.state is ChangeState.RECOVERED:
        state = f"recovered {change.recovered}"
    return [first_night(change), size(change), str(len(change.cells)), trials, causes, state]


def first_night(change: Change) -> str:
    """Return `2026-03-12`, or where it is not sure `2026-03-12 [03-10, 03-13]`."""
    if change.earliest == change.latest:
        return str(change.first)
    return f"{change.first} [{change.earliest:%m-%d}, {change.latest:%m-%d}]"


def size(change: Change) -> str:
    """Return `-4.8 % [-5.6, -4.0]`; without an interval where there are too few nights."""
    if math.isinf(change.reach):
        return f"{100 * change.share:+.1f} %"
    return f"{100 * change.share:+.1f} % [{100 * change.low:.1f}, {100 * change.high:.1f}]"


def sentence(change: Change) -> str:
    """Return `model=vgg16 -4.8 % [-5.6, -4.0] since 2026-03-12 (driver 550.1 -> 560.2)`."""
    groups = listed(shortened(change.groups, _MOST_NAMED))
    causes = f" ({listed(shortened(change.causes, _MOST_NAMED))})" if change.causes else ""
    return f"{groups} {size(change)} since {first_night(change)}{causes}"


def notes(records: Sequence[Record]) -> Iterator[str]:
    """Yield the machines, what is too young to be sure of, and the badges."""
    machines = dict.fromkeys(record.machine for record in records)
    if len(machines) > 1:
        yield f"{len(machines)} machines, each with a history of its own: {'; '.join(machines)}"
    else:
        yield next(iter(machines))
    young = sum(len(record.cells) for record in records if len(record.nights) < FEWEST_NIGHTS)
    if young:
        yield f"{counted(young, 'trial')} with fewer than {FEWEST_NIGHTS} nights: measure more"
    used = {"simulated" for record in records if record.is_simulated}
    kinds = {cell.axes.get("device_kind") for record in records for cell in record.cells}
    if DeviceKind.CPU_DEVICE in kinds:
        used.add("CPU devices")
    if meanings := badges.foot(used):
        yield meanings
