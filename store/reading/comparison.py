"""Compares the speed of two trials, and says whether they can be compared at all."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from scalemark.host.own_code import typed
from scalemark.records.devices import DeviceKind
from scalemark.records.free_axes import full_name
from scalemark.records.outcomes import Outcome, Verdict
from scalemark.records.strategies import STRATEGY_AXES
from scalemark.records.trial import AXES, strategy_axes
from scalemark.stats.welch import Relation, interval, ratio_interval, relation, typical
from scalemark.text.wording import shortened
from store.errors import StoreError
from store.filters.selection import NOT_AXES, nearest
from store.reading.differences import Difference, Side

_FREE = (*STRATEGY_AXES, "strategy", "num_gpus")  # what people compare without having to say so


class Winner(StrEnum):
    """The conclusion from the interval of the ratio."""

    A = "A faster"
    B = "B faster"
    TIE = "tie"  # the interval contains 1
    UNKNOWN = "unknown"  # a side has one process alone: nobody knows what another would bring


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """The speed of one side."""

    # geometric mean over processes: what the interval of the ratio is about
    throughput: float
    low: float | None  # 95 % interval: over processes, or within the only one
    high: float | None
    num_processes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Throughput of A divided by that of B."""

    a: Speed
    b: Speed
    ratio: float
    low: float | None  # 95 % interval of the ratio; none where an attempt has none
    high: float | None
    basis: str  # of the interval
    winner: Winner


def compare(a: Side, b: Side) -> Comparison:
    """Compare whole attempts only. Raises StoreError when a side has no completed attempt."""
    of_a, of_b = _throughput(a), _throughput(b)
    speed_a, speed_b = _speed(a, of_a), _speed(b, of_b)
    ratio = speed_a.throughput / speed_b.throughput
    is_replicated = min(len(of_a), len(of_b)) > 1
    low, high = ratio_interval(of_a, of_b) if is_replicated else _of_ratio(speed_a, speed_b)
    basis, winner = _basis(speed_a, speed_b), _WINNERS[relation(of_a, of_b)]
    return Comparison(
        a=speed_a, b=speed_b, ratio=ratio, low=low, high=high, basis=basis, winner=winner
    )


def full_names(a: Side, b: Side, named: Sequence[str]) -> list[str]:
    """Return what the user wants to compare, free axes with their prefix. Raises StoreError for an
    unknown name.
    """
    known = list(dict.fromkeys([*AXES, "strategy", *a.trial, *b.trial, *_OTHER_WORLDS]))
    found = []
    for name in named:
        full = full_name(name, known)
        if full not in known or full in NOT_AXES:
            raise StoreError(f"{name[:100]}: no such axis; {nearest(name[:100], known)}")
        found.append(full)
    return found


def incomparable(a: Side, b: Side, found: Sequence[Difference], named: Sequence[str]) -> list[str]:
    """Return why their ratio would mislead, each in a few words; nothing when it would not. `named`
    is what the user wants to compare, as `full_names` has it.
    """
    return [
        *_differing_axes(a, b, found, named),
        *_differing_worlds(a, b, found, named),
        *_differing_items(a, b),
        *_invalid(a, b),
    ]


def items(side: Side) -> list[str]:
    """Return what its throughput counts: one item, unless a database was changed by hand."""
    return sorted({row["item"] for row in side.attempts if row["item"] is not None})


def warnings(a: Side, b: Side, found: Sequence[Difference], named: Sequence[str]) -> list[str]:
    """Return what a reader of the ratio must know."""
    differing = {one.name for one in found if one.section == "axes"}
    differing.update(_differing_keys(a, b))
    reported = [f"{name} was named, and does not differ" for name in named if name not in differing]
    for label, side in (("A", a), ("B", b)):
        suspect = [row for row in side.attempts if row["verdict"] == Verdict.SUSPECT]
        reasons = [reason for row in suspect for reason in row["verdict_reasons"] or ()]
        if suspect:
            why = "; ".join(dict.fromkeys(reasons)) or "no reason given"
            reported.append(f"{label}: {len(suspect)} of {len(side.attempts)} suspect ({why})")
    kinds = dict.fromkeys(DeviceKind(side.trial["device_kind"]) for side in (a, b))
    return reported + [kind.note for kind in kinds if kind.note]


def _differing_axes(
    a: Side, b: Side, found: Sequence[Difference], named: Sequence[str]
) -> Iterator[str]:
    # a program's strategy is its free axes
    free = {*_FREE, *strategy_axes(a.trial), *strategy_axes(b.trial)}
    for one in found:
        if one.section != "axes" or one.name in free:
            continue
        if one.name == "device_kind":
            yield f"{DeviceKind(one.a).plural} against {DeviceKind(one.b).plural}"
        elif one.name == "batch_size" and _same_global_batch(a, b):
            continue
        elif one.name not in named:
            values = ["none" if value is None else value for value in (one.a, one.b)]
            yield f"{one.name} differs, {values[0]} against {values[1]}"


def _same_global_batch(a: Side, b: Side) -> bool:
    """Return whether they are trials of one curve under strong scaling."""
    if any(side.trial["scaling"] != "strong" for side in (a, b)):
        return False
    batches = {
        side.trial["batch_size"] * side.trial["gradient_accumulation"] * side.trial["num_gpus"]
        for side in (a, b)
    }
    return len(batches) == 1


def _differing_worlds(
    a: Side, b: Side, found: Sequence[Difference], named: Sequence[str]
) -> Iterator[str]:
    for name in _differing_keys(a, b):
        if name in named:
            continue
        differing = [one.name for one in found if name == "software" and one.section in _SOFTWARE]
        which = f" ({', '.join(shortened(differing, _MOST_NAMED))})" if differing else ""
        yield f"{_OTHER_WORLDS[name]}{which}"
    keys = [side.key for side in (a, b) if side.key is not None]
    if "software" not in named and any(software is None for _, software, _ in keys):
        yield "software is not known"


def _differing_keys(a: Side, b: Side) -> list[str]:
    if a.key is None or b.key is None:
        return []
    of_both = zip(_OTHER_WORLDS, a.key, b.key, strict=True)
    return [name for name, of_a, of_b in of_both if of_a != of_b]


_SOFTWARE = ("software", "packages", "variables")
_MOST_NAMED = 4
_OTHER_WORLDS = {
    "machine": "different machines",
    "software": "different software",
    "shares_host": "others ran beside one of them",
}


def _differing_items(a: Side, b: Side) -> Iterator[str]:
    of_a, of_b = items(a), items(b)
    if of_a and of_b and (of_a != of_b or len(of_a) > 1):
        yield f"A counts {' and '.join(of_a)}, B counts {' and '.join(of_b)}"


def _invalid(a: Side, b: Side) -> Iterator[str]:
    for label, side in (("A", a), ("B", b)):
        for row in side.attempts:
            if row["verdict"] == Verdict.INVALID:
                why = "; ".join(row["verdict_reasons"] or ()) or "no reason given"
                yield f"attempt {row['attempt_id']} of {label} is invalid ({why})"


def _throughput(side: Side) -> Sequence[float]:
    if any(row["deleted_at"] is not None for row in side.attempts):
        raise StoreError(f"{side.name}: deleted; `{typed('store')} restore` brings it back")
    measured = [row["throughput"] for row in side.attempts if row["outcome"] == Outcome.COMPLETED]
    if not measured or None in measured:
        how = ", ".join(dict.fromkeys(row["outcome"] for row in side.attempts)) or "no attempts"
        raise StoreError(f"{side.name}: nothing to compare, it has no completed attempt ({how})")
    if min(measured) <= 0:
        raise StoreError(f"{side.name}: a throughput of 0 has no ratio")
    return measured


def _speed(side: Side, measured: Sequence[float]) -> Speed:
    if len(measured) > 1:
        mean = typical(measured)
        low, high = interval(measured)
        return Speed(throughput=mean, low=low, high=high, num_processes=len(measured))
    (row,) = (row for row in side.attempts if row["outcome"] == Outcome.COMPLETED)
    low, high = row["throughput_low"], row["throughput_high"]
    return Speed(throughput=row["throughput"], low=low, high=high, num_processes=1)


def _of_ratio(a: Speed, b: Speed) -> tuple[float | None, float | None]:
    """Combine the intervals of both by the method of variance estimates recovery on their
    logarithms (Zou & Donner 2008).
    """
    if not (a.low and a.high and b.low and b.high) or min(a.low, b.low) <= 0:
        return None, None
    ratio = a.throughput / b.throughput
    down = math.hypot(math.log(a.throughput / a.low), math.log(b.high / b.throughput))
    up = math.hypot(math.log(a.high / a.throughput), math.log(b.throughput / b.low))
    return ratio * math.exp(-down), ratio * math.exp(up)


def _basis(a: Speed, b: Speed) -> str:
    if a.num_processes > 1 and b.num_processes > 1:
        return f"Welch's t over {a.num_processes} and {b.num_processes} processes"
    if a.num_processes == b.num_processes:
        return "one process each: no replication"
    return f"one process of {'A' if a.num_processes == 1 else 'B'}: no replication of it"


_WINNERS = {
    Relation.MORE: Winner.A,
    Relation.LESS: Winner.B,
    Relation.TIE: Winner.TIE,
    Relation.UNKNOWN: Winner.UNKNOWN,
}
