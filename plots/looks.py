"""The look of each line, by its name: the same in every chart of a selection and in the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count

from scalemark.records.strategies import STRATEGY_COLUMNS
from scalemark.text.wording import natural

Looks = Mapping[str, int]
"""By name the number of its color, marker and dashes, for `Palette.style`."""

NUM_COLORS = 7  # of pictures and pages; behind them the same ones begin again

_ARTICLE = tuple(STRATEGY_COLUMNS.values())


def numbered(names: Iterable[str], over_hosts: Mapping[str, str] | None = None) -> Looks:
    """Number the strategies of the article first, always alike; others follow by name. `over_hosts`
    are lines of strategies over several hosts: each has the color of its strategy, with another
    marker and other dashes.
    """
    lines = over_hosts or {}
    others = sorted({*names, *lines.values()} - set(_ARTICLE) - set(lines), key=natural)
    found = {name: number for number, name in enumerate([*_ARTICLE, *others])}
    for line, strategy in lines.items():
        found[line] = next(
            number
            for number in count(found[strategy] + NUM_COLORS, NUM_COLORS)
            if number not in found.values()
        )
    return found
