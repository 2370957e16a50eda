"""The changes of histories in words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date

from analysis.history.changes import Change, State
from analysis.history.record import Record
from analysis.history.scan import FEWEST_NIGHTS
from analysis.text import badges
from scalemark.records.devices import DeviceKind
from scalemark.text.wording import counted, listed, shortened

COLUMNS = ("since", "change [95 % CI]", "trials", "of", "what changed then", "state")
_MOST_NAMED = 3


def headline(found: Sequence[Change], records: Sequence[Record], since: date | None) -> str:
    """Return the answer in one sentence."""
    numbers = Counter(change.state for change in found)
    parts = [counted(numbers[State.REGRESSION], "regression")]
    more = {
        State.ACCEPTED: "accepted",
        State.RECOVERED: "recovered",
    }
    parts += [f"{numbers[state]} {word}" for state, word in more.items() if numbers[state]]
    if numbers[State.IMPROVEMENT]:
        parts.append(counted(numbers[State.IMPROVEMENT], "improvement"))
    days = [night.day for record in records for night in record.nights]
    num_trials = sum(len(record.cells) for record in records)
    when = f" since {since}" if since else ""
    return (
        f"{', '.join(parts)}{when}, in {counted(len(set(days)), 'night')} of "
        f"{counted(num_trials, 'trial')} ({min(days)} .. {max(days)})."
    )


def cells_of(change: Change, machines: Mapping[str, str]) -> list[str]:
    """Return the row of a change, with `machines` by their short names."""
    what = listed(shortened(change.groups, _MOST_NAMED))
    if len(machines) > 1:
        what = f"{what} on {listed([machines[machine] for machine in change.machines])}"
    return [
        first_night(change),
        size(change),
        str(len(change.cells)),
        what,
        listed(shortened(change.causes, _MOST_NAMED)) if change.causes else "nothing recorded",
        state(change),
    ]


def first_night(change: Change) -> str:
    """Return `2026-03-12`, or where it is not sure `2026-03-12 [03-10, 03-13]`."""
    if change.earliest == change.latest:
        return str(change.first)
    return f"{change.first} [{change.earliest:%m-%d}, {change.latest:%m-%d}]"


def size(change: Change) -> str:
    """Return `-4.8 % [-5.6, -4.0]`, of too few nights without an interval."""
    if math.isinf(change.reach):
        return f"{100 * change.share:+.1f} %"
    low, high = 100 * change.low, 100 * change.high
    return f"{100 * change.share:+.1f} % [{low:.1f}, {high:.1f}]"


def state(change: Change) -> str:
    """Return what became of a change."""
    if change.state is State.RECOVERED:
        return f"recovered {change.recovered}"
    return str(change.state)


def sentence(change: Change) -> str:
    """Return what a reader of a CI log needs."""
    causes = listed(change.causes) if change.causes else "nothing that is recorded changed then"
    return (
        f"{size(change)} since {first_night(change)}, found {change.found}: "
        f"{listed(change.groups)}; {causes}"
    )


def short_sentence(change: Change) -> str:
    """Return `model=vgg16 -4.8 % since 2026-03-12 (driver 550.1 -> 560.2)`."""
    groups = listed(shortened(change.groups, _MOST_NAMED))
    causes = f" ({listed(shortened(change.causes, _MOST_NAMED))})" if change.causes else ""
    return f"{groups} {100 * change.share:+.1f} % since {change.first}{causes}"


def notes(records: Sequence[Record]) -> Iterator[str]:
    """Yield what must be known of the histories."""
    machines = dict.fromkeys(record.machine for record in records)
    if len(machines) > 1:
        yield f"{len(machines)} machines, each with a history of its own: {'; '.join(machines)}"
    else:
        yield next(iter(machines))
    young = sum(len(record.cells) for record in records if len(record.nights) < FEWEST_NIGHTS)
    if young:
        yield (
            f"{counted(young, 'trial')} with fewer than {FEWEST_NIGHTS} nights: nothing can be "
            "sure yet"
        )
    if meanings := badges.foot(_badges(records)):
        yield meanings


def _badges(records: Sequence[Record]) -> set[str]:
    used = {"simulated" for record in records if record.is_simulated}
    kinds = {cell.axes.get("device_kind") for record in records for cell in record.cells}
    return used | ({"CPU devices"} if DeviceKind.CPU_DEVICE in kinds else set())
