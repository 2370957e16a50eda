"""Sorts tests into tiers by what they need, so that the default run takes minutes.

| tier | holds | run with |
|---|---|---|
| default | in one process, SQLite, a smoke trial per variable update, the command line end to end | `pytest` |
| integration | processes, PostgreSQL, a browser, all modes | `pytest -m "integration and not slow"` |
| cluster | Slurm, Ray, several hosts | `pytest -m "cluster and not slow"` |
| slow | long campaigns, of which the others hold a short form | `pytest -m slow` |

A test that asks for a server, a browser or a cluster is sorted by that; any other says so itself:
`pytestmark = pytest.mark.integration`.
"""

from collections.abc import Iterable, Sequence
from itertools import product

import pytest

TIERS = ("integration", "cluster", "slow")
_BY_FIXTURE = {
    "postgresql_server": "integration",
    "postgresql_url": "integration",
    "chromium": "integration",
    "slurm_cluster": "cluster",
}


def every_other(*axes: Sequence[object]) -> list[object]:
    """Return all combinations for `parametrize`; every other one is slow.

    The others have each pair of values still, where a third axis has two values or more.
    """
    cases: list[object] = []
    for places in product(*(range(len(axis)) for axis in axes)):
        values = [axis[place] for axis, place in zip(axes, places, strict=True)]
        marks = [pytest.mark.slow] if sum(places) % 2 else []
        cases.append(pytest.param(*values, marks=marks))
    return cases


def sort(items: Iterable[pytest.Item]) -> None:
    """Mark each test with the tier of what it needs, unless it names its tier itself."""
    for item in items:
        if any(item.get_closest_marker(tier) for tier in TIERS):
            continue
        tier = _tier_of_needs(item)
        if tier:
            item.add_marker(getattr(pytest.mark, tier))


def _tier_of_needs(item: pytest.Item) -> str | None:
    for fixture, tier in _BY_FIXTURE.items():
        if fixture in getattr(item, "fixturenames", ()):
            return tier
    call = getattr(item, "callspec", None)  # a parametrized test
    if call and "postgresql" in call.params.values():
        return "integration"
    return None
