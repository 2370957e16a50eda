"""Understands progress bars: of tqdm, and of rich as Lightning uses it.

```
Epoch 0:  17%|█▋        | 3/18 [00:14<01:13,  4.87s/it, loss=2.1]
Epoch 0/2  ━━━╸━━━━━━━━━━ 3/18 0:00:14 • 0:01:13 0.21it/s train_loss: 2.1
```
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from scalemark.readers.numbers import NUMBER, number, seconds

_BAR = re.compile(
    r"(?P<before>.*?)(?:\b\d+%)?[\s|]*(?P<bar>[^\s\w|]*)[^\w|]*\|?\s*"
    r"(?P<done>\d+)/(?P<total>\d+)\s*\[?"
    r"(?:(?P<elapsed>[\d:]+)(?:<[^,\]]*)?,\s*)?\s*"
    r"(?P<rate>[\d.,]+|\?)\s*(?P<unit>it/s|s/it|batch/s|s/batch|step/s|s/step|ms/it)\b"
    r"(?P<after>[^\]]*)"
)
_RICH_BAR = re.compile(
    r"(?P<before>[^━╸╺]*)[━╸╺\s]+(?P<done>\d+)/(?P<total>\d+)\s+(?P<elapsed>\d+:\d+:\d+)\s*•\s*"
    r"(?:[\d:-]+\s+)?(?P<rate>[\d.,]+)\s*(?P<unit>it/s|s/it)\b(?P<after>.*)"
)
_RANK = re.compile(
    r"\s*\[(?:default|rank)\d+(?:\|\d+)?\]:?"
)  # as torchrun --tee puts it before lines
_PAIR = re.compile(rf"([A-Za-z_][\w/.-]*)\s*[=:]\s*({NUMBER})")
_DIGITS = re.compile(r"\d+")
_MOST_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One update of a progress bar."""

    name: str  # what stands before it, without digits: the bars of all epochs have one name
    epoch: str  # the first number before it, which often is that of the epoch
    done: int
    total: int
    step_s: float | None
    elapsed_s: float | None
    metrics: dict[str, float]


def bar_of(line: str) -> Bar | None:
    """Return the bar of a line; None where it shows none of iterations."""
    if "/" not in line or ("it" not in line and "batch" not in line and "step" not in line):
        return None
    shown = _RANK.sub("", line[:_MOST_CHARACTERS])
    found = _RICH_BAR.match(shown) or _BAR.search(shown)
    if not found:
        return None
    rate = number(found["rate"])
    pairs = {name: number(text) for name, text in _PAIR.findall(found["after"])}
    return Bar(
        name=_name(found["before"]),
        epoch=(_DIGITS.findall(found["before"]) or [""])[0],
        done=int(found["done"]),
        total=int(found["total"]),
        step_s=_step_s(rate, found["unit"]) if rate else None,
        elapsed_s=seconds(found["elapsed"]) if found["elapsed"] else None,
        metrics={name: value for name, value in pairs.items() if value is not None},
    )


def _step_s(rate: float, unit: str) -> float:
    if unit.endswith("/s"):
        return 1 / rate
    return rate / 1e3 if unit.startswith("ms") else rate


def _name(before: str) -> str:
    """Return the words before a bar, without the columns of numbers that some put there."""
    words = before.rpartition("%")[0] or before
    first = words.partition(":")[0] if ":" in words else words
    return " ".join(_DIGITS.sub("", first).strip(" |.").split())[:40]
