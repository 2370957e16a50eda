"""Makes wrong values out of a right one, for whoever reads what others wrote: other types, extremes, missing and unknown names.

Pure, and the same for the same seed. `every(value)` yields one mutation for each place and wrong value; `sampled` chooses some of
them; `as_json` writes what the standard library would not, as nesting that no reader follows.
"""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]
"""Names and indices that lead to a value."""

TOO_DEEP = "<100,000 brackets>"
"""Stands for 100,000 brackets in one another, which `as_json` writes: as an object they would end the test."""

MISSING = "<nothing>"
"""Told as the wrong value where a name or an element was taken out."""

UNKNOWN = "<an unknown name>"
"""Told as the wrong value where a name was added that no record has."""

WRONG: tuple[object, ...] = (
    None,
    True,
    False,
    0,
    -1,
    2**31,
    2**63,
    10**40,
    10**400,  # no float holds it
    -(2**63) - 1,
    0.5,
    -0.0,
    1e308,
    5e-324,
    math.nan,
    math.inf,
    -math.inf,
    "",
    " ",
    "0",
    "nan",
    "text",
    "=1+1",
    "\x1b]0;title\x07\x1b[31m",
    "\x9b31m\x7f",
    "\u202etxet",
    "\ud800",
    "\0",
    "a\r\nb\u2028c",
    "x" * 70_000,
    "9999-12-31T23:59:59-23:59",
    "0001-01-01T00:00:00+23:59",
    "2026-01-31T12:00:00",
    [],
    [None],
    [[]],
    [0] * 1000,
    {},
    {"": None},
    {"kind": []},
    TOO_DEEP,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """A value of which one place is wrong."""

    at: Path
    wrong: object  # what stands there now; also MISSING and UNKNOWN
    value: Any  # the whole

    def __str__(self) -> str:
        """Names the place and what is there, for the message of a test that fails."""
        return f"{'.'.join(map(str, self.at)) or 'the whole'} = {ascii(self.wrong)[:80]}"


def every(value: Any) -> Iterator[Mutation]:
    """Each place of it, also inside lists and dictionaries, with each wrong value; `value` itself is left as it is."""
    for at in places(value):
        yield from _at(value, at)


def sampled(value: Any, num: int, seed: int) -> list[Mutation]:
    """That many of `every`, or all where there are fewer, in an order of their own."""
    chances = random.Random(seed)
    found = places(value)
    chosen: dict[tuple[Path, int], Mutation] = {}
    for _ in range(num * 4):
        at = chances.choice(found)
        number = chances.randrange(len(WRONG) + 2)
        if (at, number) not in chosen and (mutation := _numbered(value, at, number)) is not None:
            chosen[at, number] = mutation
        if len(chosen) == num:
            break
    return list(chosen.values())


def places(value: Any) -> list[Path]:
    """The ways to the whole and to all that is in it."""
    found: list[Path] = [()]
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list | tuple)
        else ()
    )
    for name, item in inner:
        found += [(name, *rest) for rest in places(item)]
    return found


def as_json(value: Any) -> str:
    """Its JSON, with NaN, Infinity, lone surrogates and TOO_DEEP as a hostile writer would have them."""
    text = json.dumps(value)
    return text.replace(json.dumps(TOO_DEEP), "[" * 100_000 + "]" * 100_000)


def _at(value: Any, at: Path) -> Iterator[Mutation]:
    for number in range(len(WRONG) + 2):
        mutation = _numbered(value, at, number)
        if mutation is not None:
            yield mutation


def _numbered(value: Any, at: Path, number: int) -> Mutation | None:
    """None where it would change nothing, or makes no sense there."""
    if number < len(WRONG):
        wrong = WRONG[number]
        same = _found(value, at)
        if type(same) is type(wrong) and same == wrong:
            return None
        return Mutation(at=at, wrong=wrong, value=_replaced(value, at, copy.deepcopy(wrong)))
    if number == len(WRONG):
        return Mutation(at=at, wrong=MISSING, value=_without(value, at)) if at else None
    if not isinstance(_found(value, at), dict):
        return None
    return Mutation(
        at=at, wrong=UNKNOWN, value=_replaced(value, at, {**_found(value, at), "surprise": 1})
    )


def _found(value: Any, at: Path) -> Any:
    for name in at:
        value = value[name]
    return value


def _replaced(value: Any, at: Path, by: Any) -> Any:
    if not at:
        return by
    first, *rest = at
    changed = list(value) if isinstance(value, tuple) else copy.copy(value)
    changed[first] = _replaced(value[first], tuple(rest), by)
    return changed


def _without(value: Any, at: Path) -> Any:
    *way, last = at
    inner = copy.copy(_found(value, tuple(way)))
    if isinstance(inner, tuple):
        inner = list(inner)
    del inner[last]
    return _replaced(value, tuple(way), inner)
