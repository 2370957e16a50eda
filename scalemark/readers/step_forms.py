"""Finds patterns of the step in the lines of a log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from scalemark.readers.numbers import whole

STEP_WORDS = r"(?:steps?|iters?|iterations?|its|batch(?:es)?|updates?)"
COUNTED = re.compile(
    rf"(?<![\d.])(\d+)\s?-?\s?{STEP_WORDS}\b(?!\s*/\s*s)(?!\s*[=:\[]?\s*\d)", re.IGNORECASE
)
"""A number of steps that a time is of, as in `time/100 steps: 35.2s` or `100 steps take 0.7 s`."""

_LABEL = re.compile(
    r"(?<![A-Za-z])(?<!micro[_ -])(?<![ftsi]ps )(?<!rate )(?<!speed )"
    r"((?:completed |global[_ ]?|num_|train[_ ]?)?"
    r"(?:updates?|up\.|steps?|iter(?:ation)?s?|it|batch|mini[-_ ]?batch)(?![A-Za-z])(?:\(train\))?"
    r"[^\w\s]*\s*[^\w\s]*\s*)"
    r"(\d[\d,]*+)(?![\d.]*\d%|\.\d| and \d|\s*[A-Za-z]+\s?/\s?s(?:ec)?(?:ond)?\b(?!\s*[:=]))",
    re.IGNORECASE,
)
_WITH_EPOCH = (
    r"(?:Train|Epoch)[\w ]*(?:\(train\))?:?\s*\[?(?P<epoch>\d+)(?:/\d+)?\]?:?,?\s*"
    r"\[\s*(?P<step>\d+)/(?P<epoch_steps>\d+)",
    r"\[(?P<epoch>\d+)\]\s*\[\s*(?P<step>\d+)/\s*(?P<epoch_steps>\d+)\]",
    r"[Ee]poch\s*\[(?P<epoch>\d+)\]\s*Batch\s*\[(?P<step>\d+)\]",
    r"[Ee]poch:?\s*(?P<epoch>\d+)\s*[-|,:]?\s*(?:iter|step|batch)\w*:?\s*"
    r"(?P<step>\d+)/(?P<epoch_steps>\d+)",
)
_OF_TOTAL = r"[\[(]\s*(?P<step>\d+)/\d+\s*[\])]"
_WITHOUT_WORDS = (
    r"\bsteps \d+ and (?P<step>\d+)",  # of Keras' TimeHistory: a rate between two steps
    r"\|\s*(?P<step>\d+)/\d+\s\[",  # of a progress bar
    r"^\s*(?P<step>\d+)(?![\d./,%-]|:\d)",
    r"(?<![\d./-])(?P<step>\d+)\s*/\s*\d+(?![\d/])",
    r"(?<![\d./-])\d+/(?P<step>\d+)(?![\d/])",  # only where it grows: else it is the total
    r"\[\s*(?P<step>\d+)\]",
    r"\b(?P<step>\d+)\s?(?:it|iters?|iterations?|steps?)\b(?!/s)",
)
_SAMPLES = "samples"
_EXAMPLES = (  # lines without a rate of PyTorch's examples and tutorials, and what they count
    (
        r"Train Epoch:\s*(?P<epoch>\d+)\s*\[\s*(?P<step>\d+)/(?P<epoch_steps>\d+)\s*\(\s*\d+%\)\]"
        r"\s*Loss:\s*(?P<loss>\S+)",
        _SAMPLES,
    ),
    (r"loss:\s*(?P<loss>\S+)\s*\[\s*(?P<step>\d+)/\s*(?P<epoch_steps>\d+)\]", _SAMPLES),
    (r"\[(?P<epoch>\d+),\s*(?P<step>\d+)\]\s*loss:\s*(?P<loss>\S+)", ""),
)
_SPECIAL = frozenset(".^$*+?{}[]\\|()")
_TOKEN = re.compile(r"\d+|\s+|['\"]|.", re.DOTALL)
_NEARLY_ALL = 0.9
_LEAST_ALONE = 3  # lines with a step and no rate, to be taken for those of training
_MOST_LINES = 2_000  # that are looked at


def step_pattern(lines: Sequence[str]) -> str | None:
    """Return a pattern of the step in lines of one kind; None where they have none that grows."""
    sample = lines[:_MOST_LINES]
    growing: list[str] = []
    for pattern in _forms(sample):
        steps = _steps(pattern, sample)
        if len(steps) < _NEARLY_ALL * len(sample):
            continue
        if "epoch" in pattern:
            return _spelled(pattern, sample[-1])
        if grows(steps, strictly=True):
            return pattern
        if grows(steps, strictly=False) or begins_anew(steps):
            growing.append(pattern)
    return growing[0] if growing else None


def step_pattern_above(lines: Sequence[str], places: Sequence[int], most_above: int) -> str | None:
    """Return a pattern of the step in lines that stand above those at `places`."""
    for label in dict.fromkeys(_labels_above(lines, places[:3], most_above)):
        pattern = re.compile(label)
        steps: list[int] = []
        for place in places[:_MOST_LINES]:
            for above in reversed(lines[max(0, place - most_above) : place]):
                match = pattern.search(above)
                if match:
                    steps.append(whole(match["step"]) or 0)
                    break
        if len(steps) >= _NEARLY_ALL * min(len(places), _MOST_LINES) and (
            len(places) == 1 or grows(steps, strictly=True)
        ):
            return label
    return None


def step_pattern_alone(lines: Sequence[str]) -> tuple[str, str] | None:
    """Return a pattern of the step, and the item where it counts these: of a known example, or of
    the word for it that most lines have; None: there is none.

    Of one line nothing grows: there must be several.
    """
    for pattern, item in _EXAMPLES:
        steps = _steps(pattern, lines)
        if len(steps) >= _LEAST_ALONE and begins_anew(steps):
            return pattern, item
    numbers: dict[str, list[int]] = {}
    for line in lines:
        for match in _LABEL.finditer(line):
            at_start = "" if line[: match.start()].strip() else r"^\s*"
            steps = numbers.setdefault(at_start + _labelled(match), [])
            steps.append(whole(match[2]) or 0)
    growing = {
        pattern: steps
        for pattern, steps in numbers.items()
        if len(steps) >= _LEAST_ALONE and (grows(steps, strictly=False) and begins_anew(steps))
    }
    if not growing:
        return None
    return max(growing, key=lambda pattern: len(growing[pattern])), ""


def literal(text: str) -> str:
    """Return a pattern for a text in which digits, spaces and quotes may differ."""
    out = ""
    for token in _TOKEN.findall(text):
        if token.isdigit():
            out += r"\d+"
        elif token.isspace():
            out += r"\s+"
        elif token in "'\"":
            out += r"\W"  # quotes would have to be escaped on a command line
        else:
            out += f"\\{token}" if token in _SPECIAL else token
    return re.sub(r"^\\s\+|\\s\+$", r"\\s*", out)


def _forms(lines: Sequence[str]) -> Iterator[str]:
    """Yield patterns that may find the step: those with an epoch, with a word, then without."""
    yield from _WITH_EPOCH
    if lines:
        for match in _LABEL.finditer(lines[-1]):
            yield _labelled(match)
    if len(lines) > 1:
        yield from _WITHOUT_WORDS


def _spelled(pattern: str, line: str) -> str:
    """Return a pattern with an epoch as the line writes it, which is shorter."""
    match = re.search(pattern, line)
    if not match:
        return pattern
    out, at = r"\b" if line[match.start()].isalnum() else "", match.start()
    for name in re.compile(pattern).groupindex:
        words = literal(line[at : match.start(name)]).replace(r"\s+", r"\s*")
        # numbers may be padded to the width of the last one
        out += words.removesuffix(r"\s*") + rf"\s*(?P<{name}>\d+)"
        at = match.end(name)
    return out


def _labels_above(lines: Sequence[str], places: Sequence[int], most_above: int) -> Iterator[str]:
    for place in places:
        for above in reversed(lines[max(0, place - most_above) : place]):
            for match in _LABEL.finditer(above):
                yield _labelled(match)
            if re.search(_OF_TOTAL, above):
                yield _OF_TOTAL


def _labelled(match: re.Match[str]) -> str:
    before = match.string[: match.start()]
    boundary = "(?<![A-Za-z])" if before.endswith("_") else r"\b"
    return rf"{boundary}{literal(match[1])}(?P<step>[\d,]+)"


def _steps(pattern: str, lines: Sequence[str]) -> list[int]:
    compiled = re.compile(pattern)
    matches = [compiled.search(line) for line in lines]
    steps = [whole(match["step"]) for match in matches if match]
    return [step for step in steps if step is not None]


def grows(steps: Sequence[float], *, strictly: bool) -> bool:
    """Return whether steps go up from line to line; the same step may be of several ranks."""
    if len(steps) < 2:
        return True
    rises = sum(after > before for before, after in pairwise(steps))
    falls = sum(after < before for before, after in pairwise(steps))
    if strictly:
        return rises == len(steps) - 1
    return rises > 0 and falls <= len(steps) // 10


def begins_anew(steps: Sequence[float]) -> bool:
    """Return whether steps go up, and begin anew at a few places, as where an epoch begins."""
    falls = [(before, after) for before, after in pairwise(steps) if after < before]
    rises = sum(after > before for before, after in pairwise(steps))
    is_of_epochs = all(after <= before / 2 for before, after in falls)
    return rises > 0 and len(falls) <= len(steps) // 2 and is_of_epochs
