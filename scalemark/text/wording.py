"""Names and counts in sentences."""

from __future__ import annotations

from collections.abc import Sequence


def as_typed(value: object) -> str:
    """Return a value as the command line takes it: `true` for True."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def counted(count: int, what: str) -> str:
    """Return `1 trial` or `3 trials`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """Return `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def listed_phrases(phrases: Sequence[str]) -> str:
    """Return `a, with b; and c`, where commas are part of what is listed."""
    return phrases[0] if len(phrases) == 1 else f"{'; '.join(phrases[:-1])}; and {phrases[-1]}"


def shortened(names: Sequence[str], most: int) -> list[str]:
    """Return each once; of more than `most` the first ones, and how many more there are."""
    found = list(dict.fromkeys(names))
    return found if len(found) <= most else [*found[: most - 1], f"{len(found) - most + 1} more"]


def single(items: str) -> str:
    """Return one of what is counted, as `image` of images."""
    return items.removesuffix("s")


def duration_text(seconds: float) -> str:
    """Return a duration as people say it: 0.4 s, 40 s, 12 min, 3 h 05 min, 2 d 4 h."""
    if 0 < seconds < 1:
        return f"{round(seconds, 1):g} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"
