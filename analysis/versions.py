"""The software of environments in words: what everybody asks for, and what else distinguishes two
environments of one machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from scalemark.records.machine import DeviceKind
from scalemark.text.wording import listed

# and packages and variables, as `scalemark.host.software.key` has them
_OF_SOFTWARE = ("python", "kernel")
_DIGITS = 12
_OF_PROGRAM = "program "  # before what `scalemark.host.program_software` found of its code
_FRAMEWORKS = {
    "torch": "PyTorch",
    "jax": "JAX",
    "tensorflow": "TensorFlow",
    "tf_nightly": "TensorFlow",
}
_MOST_NAMED = 3  # packages and variables, where these are enough

Where = tuple[str, str, bool, str]
"""Keys of machine and software, whether the host was shared, and the kind of device."""


def distinguished(rows_of: Mapping[Where, Sequence[Mapping[str, Any]]]) -> dict[Where, str]:
    """Return `TensorFlow 2.21.0, scalemark 0.1.0`, with `numpy 2.4.6` where another environment of
    the machine had another one.
    """
    versions_of = {}
    alike: dict[tuple[object, ...], list[Where]] = defaultdict(list)
    for where, rows in rows_of.items():
        machine, _, shares_host, device_kind = where
        versions_of[where] = _usual(rows, device_kind)
        alike[machine, shares_host, device_kind, versions_of[where]].append(where)
    for wheres in alike.values():
        if len(wheres) > 1:
            texts_of = differing([described(rows_of[where]) for where in wheres])
            for where, text in zip(wheres, texts_of, strict=True):
                versions_of[where] += f", {text or f'software {where[1][:6]}'}"
    return versions_of


def described(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return by name what numbers depend on; all rows of an environment have the same."""
    if not rows:
        return {}
    description = rows[0]["description"]
    facts = {name: description.get(name) for name in _OF_SOFTWARE}
    facts |= description.get("packages") or {}
    facts |= description.get("variables") or {}
    for name, value in (description.get("program") or {}).items():
        if value:
            facts[f"{_OF_PROGRAM}{name}"] = str(value)[:_DIGITS]
    return {name: str(value) for name, value in facts.items() if value is not None}


def differing(environments: Sequence[Mapping[str, str]]) -> list[str]:
    """Return of each what not all have alike; empty where two would read the same."""
    every = sorted(set().union(*environments))
    names = []
    for name in every:
        if len({environment.get(name) for environment in environments}) > 1:
            names.append(name)
    for shown in (names[:_MOST_NAMED], names):
        more = f" and {len(names) - len(shown)} more" if len(shown) < len(names) else ""
        texts = [_said(environment, shown) + more for environment in environments]
        if len(set(texts)) == len(texts):
            return texts
    return [""] * len(environments)


def _said(environment: Mapping[str, str], names: Sequence[str]) -> str:
    """Return its values, as `numpy 2.4.6, no keras`. Of a program what it lacks is named only where
    it has nothing of these: one in a checkout has a commit, any other a digest of its code.
    """
    has_some = not environment.keys().isdisjoint(names)
    words = []
    for name in names:
        if name in environment:
            words.append(f"{name} {environment[name]}")
        elif not (has_some and name.startswith(_OF_PROGRAM)):
            words.append(f"no {name}")
    return ", ".join(words)


def _usual(rows: Sequence[Mapping[str, Any]], device_kind: str) -> str:
    """Simulated numbers are not TensorFlow's."""
    texts = set()
    for row in rows:
        by = f"scalemark {row['scalemark']}"
        if device_kind == DeviceKind.SIMULATED_GPU:
            texts.add(f"simulated by {by}")
        else:
            texts.add(", ".join(filter(None, (_frameworks(row), by))))
    unknown = "simulated by versions unknown"
    if device_kind != DeviceKind.SIMULATED_GPU:
        unknown = "versions unknown"
    return " and ".join(sorted(texts)) or unknown


def _frameworks(environment: Mapping[str, Any]) -> str:
    """Return `Python 3.12.1 with PyTorch 2.9.0 installed` of a user's program, which may use less
    than its interpreter has.
    """
    description = environment["description"] or {}
    if "program" not in description:
        return f"TensorFlow {environment['tensorflow']}"
    packages = description.get("packages") or {}
    named = [f"{word} {packages[name]}" for name, word in _FRAMEWORKS.items() if name in packages]
    python = description.get("python")
    installed = f" with {listed(named)} installed" if named else ""
    return f"Python {python}{installed}" if python else ""
