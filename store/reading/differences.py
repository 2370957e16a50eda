"""Finds in what two attempts or trials differ: their axes, and everything known of where and with
what they ran.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from scalemark.records.outcomes import Outcome
from store.errors import StoreError
from store.filters import targets
from store.filters.selection import NOT_AXES
from store.reading.queries import Row
from store.reading.show import show_trial

Key = tuple[str, str | None, bool]
"""Machine, software, and whether others ran beside it: within one, numbers are of one kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of two things that are compared, with its attempts."""

    name: str
    trial: Row
    attempts: Sequence[Row]  # of one key, oldest first; those of an attempt are itself
    # attempts of the trial on other machines, with other software, or not completed
    num_left_out: int

    @property
    def key(self) -> Key | None:
        """Return None without any attempt."""
        return _key(self.attempts[-1]) if self.attempts else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One fact that differs; None where a side has no such thing."""

    section: str  # axes, machine, gpus, links, software, packages, variables, commit or run
    name: str
    a: Any
    b: Any


def sides(engine: sa.Engine, a: str, b: str) -> tuple[Side, Side]:
    """Choose of a trial those attempts that are of one kind with the other's, else its newest kind;
    deleted ones do not count. Raises StoreError when there is no such attempt or trial.
    """
    (name_a, found_a, kinds_a), (name_b, found_b, kinds_b) = (
        _kinds(engine, which) for which in (a, b)
    )
    common = [key for key in kinds_a if key in kinds_b]
    newest_common = max(
        common,
        key=lambda key: (kinds_a[key][-1]["attempt_id"], kinds_b[key][-1]["attempt_id"]),
        default=None,
    )
    side_a = _side(name_a, found_a, kinds_a, newest_common)
    return side_a, _side(name_b, found_b, kinds_b, newest_common)


def differences(a: Side, b: Side) -> list[Difference]:
    """Return the differences in the order of their sections."""
    facts_a, facts_b = _facts(a), _facts(b)
    found = []
    for section in facts_a:
        of_a, of_b = facts_a[section], facts_b[section]
        for name in dict.fromkeys([*of_a, *of_b]):
            value_a, value_b = of_a.get(name), of_b.get(name)
            if value_a != value_b:
                found.append(Difference(section=section, name=name, a=value_a, b=value_b))
    return found


def _key(row: Row) -> Key:
    return row["machine"], row["software_key"], bool(row["shares_host"])


def _kinds(engine: sa.Engine, which: str) -> tuple[str, Row, dict[Key, list[Row]]]:
    target = targets.find(engine, which)
    if target.column == "sweep_id":
        raise StoreError(f"{target.name}: wanted an attempt or a trial")
    found = show_trial(engine, target)
    chosen = found["attempts"]
    if target.column == "trial_id":
        counting = [row for row in chosen if row["deleted_at"] is None]
        chosen = [row for row in counting if row["outcome"] == Outcome.COMPLETED] or counting
    kinds: dict[Key, list[Row]] = {}
    for row in chosen:
        kinds.setdefault(_key(row), []).append(row)
    return target.name, found, kinds


def _side(name: str, found: Row, kinds: Mapping[Key, list[Row]], key: Key | None) -> Side:
    if key is None:
        key = max(kinds, key=lambda key: kinds[key][-1]["attempt_id"], default=None)
    attempts = [] if key is None else kinds[key]
    return Side(
        name=name,
        trial=found["trial"],
        attempts=attempts,
        num_left_out=len(found["attempts"]) - len(attempts),
    )


def _facts(side: Side) -> dict[str, dict[str, Any]]:
    """Return section -> name -> value; where the attempts differ, a list of values."""
    axes = {name: value for name, value in side.trial.items() if name not in NOT_AXES}
    found: dict[str, dict[str, Any]] = {"axes": axes}
    reported = [dict(_of_attempt(row)) for row in side.attempts]
    for section in _SECTIONS:
        names = dict.fromkeys(name for of in reported for name in of[section])
        found[section] = {
            name: _merged([of[section].get(name) for of in reported]) for name in names
        }
    return found


def _merged(values: Sequence[Any]) -> Any:
    different = [value for place, value in enumerate(values) if value not in values[:place]]
    return different[0] if len(different) == 1 else different


_SECTIONS = ("machine", "gpus", "links", "software", "packages", "variables", "commit", "run")
_MACHINE = (
    "host",
    "cpu",
    "num_cores",
    "memory_bytes",
    "num_gpus",
    "gpu",
    "driver",
    "hardware_profile",
    "pool",
)
_RUN = ("shares_host", "start", "devices", "cores", "hosts", "rank_start")
_COMMIT = ("commit", "diff")
_OWN_SECTIONS = ("packages", "variables", *_COMMIT)


def _of_attempt(row: Row) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "machine", {name: row["machine_facts"][name] for name in _MACHINE}
    gpus = {}
    for gpu in row["gpus"]:
        for name, value in gpu.items():
            if name != "position":
                gpus[f"{gpu['position']} {name}"] = value
    yield "gpus", gpus
    yield "links", dict(_links(row))
    environment = row["environment"]
    known = environment or {"environment": "unknown: it ended before it was recorded"}
    yield "software", {name: value for name, value in known.items() if name not in _OWN_SECTIONS}
    yield "packages", known.get("packages") or {}
    yield "variables", known.get("variables") or {}
    yield "commit", {name: known.get(name, "") for name in _COMMIT} if environment else {}
    yield "run", {name: row[name] for name in _RUN}


def _links(row: Row) -> Iterator[tuple[str, str]]:
    """Name links by the positions of the GPUs, so that two machines differ only by how they are
    wired.
    """
    places = {gpu["uuid"]: gpu["position"] for gpu in row["gpus"]}
    for link in row["links"]:
        ends = sorted(
            str(places.get(link[end], link[end])) for end in ("first_uuid", "second_uuid")
        )
        nvlinks = f"{link['num_nvlinks']} NVLinks" if link["num_nvlinks"] else ""
        yield "-".join(ends), nvlinks or link["pcie"] or "unknown"
