"""Understands progress bars: of tqdm, of rich as Lightning uses it, and of tqdm-loggable.

```
Epoch 0:  17%|█▋        | 3/18 [00:14<01:13,  4.87s/it, loss=2.1]
1500it [00:15, 98.5it/s]                                                  the total is not known
Epoch 0/2  ━━━╸━━━━━━━━━━ 3/18 0:00:14 • 0:01:13 0.21it/s train_loss: 2.1
Progress on:train 1.46kit/10.0kit rate:2.2it/s remaining:1:05:32 elapsed:11:01 postfix:loss=3.6
```
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from scalemark.readers.numbers import NUMBER, number, whole
from scalemark.readers.words import role_of, seconds_per_step

_COUNT = r"\d[\d.]*[kKMG]?"
_RATE = r"(?<![\d.,])(?P<rate>[\d.,]+[kKMG]?|\?)\s*(?P<unit>[A-Za-z]+/s|m?s/[A-Za-z]+)\b"
_FORMS = (
    re.compile(
        rf"(?P<before>[^━╸╺]*)[━╸╺][━╸╺\s]*(?P<done>\d+)/(?P<total>\d+|--)\s+\d+:\d+:\d+\s*•\s*"
        rf"(?:[\d:-]+\s+)?{_RATE}(?P<after>.*)"
    ),
    re.compile(
        rf".*?Progress on:(?P<before>.*?)\s*(?P<done>{_COUNT})(?:it)?/"
        rf"(?P<total>{_COUNT}|\?)(?:it)?\s+rate:{_RATE}(?:.*?postfix:(?P<after>.*))?"
    ),
    re.compile(
        rf"(?P<before>.*?)(?<![\w.])(?P<done>{_COUNT})(?:it)?/(?P<total>{_COUNT}|\?)(?:it)?\s*"
        rf"(?:\[\s*)?(?:[\d:]+(?:<[^,\]]*)?,\s*)?{_RATE}(?P<after>[^\]]*)"
    ),
    re.compile(
        rf"(?P<before>.*?)(?<![\d.])(?P<done>{_COUNT})(?P<total>)\s?[A-Za-z]+\s\[[\d:]+,\s*"
        rf"{_RATE}(?P<after>[^\]]*)"
    ),
)
BEFORE_RATE = re.compile(r"\[[\d:]+(?:<[^,\]]*)?,\s*$")
"""What a bar of tqdm has before its rate: the time since it began, and what is left."""

_RANK = re.compile(  # as torchrun --tee, srun -l, mpirun and Ray put it before lines
    r"\s*(?:\[(?:default|rank)\s?\d+(?:\|\d+)?\]:?|\[\d+(?:,\d+)?\](?:<\w+>)?:|\(\w+ pid=[^)]*\)"
    r"|(?:rank|worker|gpu)[ -]?\d+:|\d+:(?=\s))\s*",
    re.IGNORECASE,
)
_PERCENT = re.compile(r"\b\d{1,3}%")
_EPOCH = re.compile(r"\bepoch\D{0,3}(\d+)|^\s*\[?(\d+)/\d+\]?\s", re.IGNORECASE)
_PAIR = re.compile(rf"([A-Za-z_][\w/.-]*)\s*[=:]\s*({NUMBER})")
_DIGITS = re.compile(r"\d+")
_LETTER = re.compile(r"[^\W\d_]")
_OF_DATA_SETS = "examples"  # the unit of the bars of Hugging Face Datasets, before training
_MOST_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One update of a progress bar."""

    name: str  # what stands before it, without digits: the bars of all epochs have one name
    epoch: int | None  # where the text before it says which
    done: int  # steps, or items where `item` is said
    total: int  # 0: not known
    step_s: float | None
    throughput: float | None  # items/s of a bar that counts items
    item: str
    metrics: dict[str, float]


def bar_of(line: str) -> Bar | None:
    """Return the bar of a line; None where it shows none of steps or items."""
    if "/s" not in line and "s/" not in line:
        return None
    rank = _RANK.match(line)
    shown = line[rank.end() if rank else 0 :][:_MOST_CHARACTERS]
    found = _found(shown)
    done = _count(found["done"]) if found else None
    if not found or done is None:
        return None
    amount, unit = number(found["rate"]), found["unit"]
    if amount and unit.startswith("s/"):  # of a bar that is slow, as 1.2s/img
        unit, amount = f"{unit[2:]}/s", 1 / amount
    rate = role_of("", unit)
    if rate is None or rate.item == _OF_DATA_SETS:
        return None
    is_of_items = rate.name == "throughput"
    if is_of_items and not BEFORE_RATE.search(shown[: found.start("rate")]):
        return None  # a rate of something else beside a step
    pairs = {name: number(text) for name, text in _PAIR.findall(found["after"] or "")}
    before = _PERCENT.split(found["before"])[0]
    return Bar(
        name=_name(before),
        epoch=_epoch(before),
        done=done,
        total=_count(found["total"]) or 0,
        step_s=seconds_per_step(rate.name, amount) if amount and not is_of_items else None,
        throughput=amount or None if is_of_items else None,
        item=rate.item,
        metrics={name: value for name, value in pairs.items() if value is not None},
    )


def _found(shown: str) -> re.Match[str] | None:
    for form in _FORMS:
        found = form.match(shown)
        if found:
            return found
    return None


def _count(text: str) -> int | None:
    """Return a count, which may be rounded, as 1.46k; None for a fraction."""
    value = number(text)
    if value is not None and text[-1:].isalpha():
        return round(value)
    return whole(text)


def _epoch(before: str) -> int | None:
    found = _EPOCH.search(before)
    return int(found[1] or found[2]) if found else None


def _name(before: str) -> str:
    """Return the words before a bar, without the columns of numbers that some put there."""
    words = _DIGITS.sub("", before.partition(":")[0])
    return " ".join(word for word in words.split() if _LETTER.search(word))[:40]
