"""Finds steps in the lines of a log, and counts them over all epochs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from scalemark.readers.numbers import whole

_FEW = 5  # steps by which a rank may be behind when training begins


@dataclass(slots=True)
class _Lines:
    """Lines whose numbers grow, of an epoch or of an evaluation."""

    before: int = 0  # steps of the epochs before, by their lines
    unsure: int = 0  # steps by which that may be wrong, where no line says how many an epoch has
    last: int = -1  # as printed
    gap: int = 0  # the largest between two of them
    last_gap: int = 0
    epoch_steps: int = 0  # 0: no line says how many an epoch has

    def take(self, step: int, epoch_steps: int) -> None:
        if step > self.last:
            if self.last >= 0:
                self.last_gap = step - self.last
                self.gap = max(self.gap, self.last_gap)
            self.last = step
        self.epoch_steps = epoch_steps

    def followed_by(self, step: int) -> _Lines:
        """Return the lines of the next epoch, which begin with a step.

        It is due a gap after the last line. But a shorter last gap tells that the last step of an
        epoch is printed, and a first step beside the row, as 1 before 10 and 20, is no due one.
        """
        if self.epoch_steps:
            return _Lines(before=self.before + max(self.last, self.epoch_steps), unsure=self.unsure)
        before = self.before + self.last
        if not self.gap:
            return _Lines(before=before, unsure=self.unsure + self.last)
        if self.last_gap < self.gap:
            return _Lines(before=before + (step == 0), unsure=self.unsure)
        is_due = (self.last - step) % self.gap == 0
        more = max(0, self.gap - step) if is_due else int(step == 0)
        return _Lines(before=before + more, unsure=self.unsure + self.gap - 1)

    def goes_on_with(self, step: int) -> bool:
        return 0 < step - self.last <= self.gap


class StepCounter:
    """Turns the step numbers that a program prints into steps done so far.

    A number that is not above the one before takes back what was counted from there on: of what
    begins anew, nothing is counted before as many steps as training has between two lines.
    """

    def __init__(self) -> None:
        self._first_epoch: int | None = None
        self._epoch: int | None = None
        self._epoch_steps = 0
        self._lines = _Lines()
        self._left: _Lines | None = None  # the lines before these
        self._evaluated = 0  # steps of the longest evaluation that began anew
        self._highest = -1

    def count(self, step: int, epoch: int | None = None, epoch_steps: int = 0) -> int | None:
        """Return the steps done so far; None for a step that was counted, as by another rank, and
        for one of an evaluation.

        `epoch_steps` is how many an epoch has; 0: it is taken from the lines.
        """
        if self._first_epoch is None:
            self._first_epoch = epoch
        if epoch is not None and self._epoch is not None and epoch < self._epoch:
            return None  # of a rank that is behind
        if epoch is not None and self._first_epoch is not None and epoch_steps:
            if epoch == self._epoch and epoch_steps != self._epoch_steps:
                return None  # an evaluation within the epoch has a length of its own
            self._epoch_steps = epoch_steps
            done: int | None = (epoch - self._first_epoch) * epoch_steps + step
        else:
            done = self._done(step, epoch, epoch_steps)
        self._epoch = epoch
        if done is None or done <= self._highest:
            return None
        self._highest = done
        return done

    @property
    def before(self) -> int:
        """Return the steps before their numbers began anew; 0 where those of epochs are printed."""
        return self._lines.before if self._epoch is None else 0

    @property
    def unsure(self) -> int:
        """Return by how many steps the count may be wrong, as the length of epochs is not known."""
        return self._lines.unsure

    def _done(self, step: int, epoch: int | None, epoch_steps: int) -> int | None:
        if self._was_evaluation(step):
            self._go_back()
        elif self._begins_anew(step, epoch):
            self._leave(epoch)
            self._lines = self._lines.followed_by(step)
        elif self._is_behind(step):
            return None
        self._lines.take(step, epoch_steps)
        if self._left and self._lines.last <= max(self._evaluated, self._left.gap - 1):
            return None  # as long as it may be the evaluation again, or a short one
        return self._lines.before + step

    def _leave(self, epoch: int | None) -> None:
        """Keep the lines before these; of two evaluations in a row, those before the first."""
        if epoch is not None:
            self._left = None
        elif self._left is None or self._lines.last >= self._left.last:
            self._left = self._lines

    def _was_evaluation(self, step: int) -> bool:
        """Return whether training goes on from where it was before numbers began anew."""
        return bool(
            self._left and self._left.goes_on_with(step) and not self._lines.goes_on_with(step)
        )

    def _go_back(self) -> None:
        if self._left:
            self._evaluated = max(self._evaluated, self._lines.last)
            self._lines, self._left = self._left, None
            self._highest = self._lines.before + self._lines.last

    def _is_behind(self, step: int) -> bool:
        """Return whether another rank still prints the numbers before these began anew."""
        if self._left is None or step > self._left.last:
            return False
        return step - self._lines.last > max(self._lines.gap, self._left.gap)

    def _begins_anew(self, step: int, epoch: int | None) -> bool:
        """Return whether an epoch begins, whose first line comes within a gap; another rank may be
        behind by little, or by any number of steps where it began later.
        """
        if epoch is not None and self._epoch is not None:
            return epoch > self._epoch
        is_first = step <= min(max(1, self._lines.gap), self._lines.last / 2)
        return self._lines.last >= _FEW and is_first


_LABEL = re.compile(
    r"(?<![A-Za-z])(?<!micro[_ -])((?:completed |global[_ ]?|num_|train[_ ]?)?"
    r"(?:updates?|up\.|steps?|iter(?:ation)?s?|it|batch|mini[-_ ]?batch)(?![A-Za-z])(?:\(train\))?"
    r"[^\w\s]*\s*[^\w\s]*\s*)"
    r"(\d[\d,]*+)(?![\d.]*\d%|\.\d| and \d)",
    re.IGNORECASE,
)
_WITH_EPOCH = (
    r"(?:Train|Epoch)[\w ]*(?:\(train\))?:?\s*\[?(?P<epoch>\d+)(?:/\d+)?\]?:?,?\s*"
    r"\[\s*(?P<step>\d+)/(?P<epoch_steps>\d+)",
    r"[Ee]poch\s*\[(?P<epoch>\d+)\]\s*Batch\s*\[(?P<step>\d+)\]",
)
_WITHOUT_WORDS = (
    r"\bsteps \d+ and (?P<step>\d+)",  # of Keras' TimeHistory: a rate between two steps
    r"\|\s*(?P<step>\d+)/\d+\s\[",  # of a progress bar
    r"^\s*(?P<step>\d+)(?![\d./,-]|:\d)",
    r"(?<![\d./-])\d+/(?P<step>\d+)(?![\d/])",
    r"(?<![\d./-])(?P<step>\d+)\s*/\s*\d+(?![\d/])",
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
        if _grows(steps, strictly=True):
            return pattern
        if _grows(steps, strictly=False) or _begins_anew(steps):
            growing.append(pattern)
    return growing[0] if growing else None


def step_pattern_above(lines: Sequence[str], places: Sequence[int], most_above: int) -> str | None:
    """Return a pattern of the step in lines that stand above those at `places`."""
    for label in dict.fromkeys(_labels_above(lines, places[:3], most_above)):
        pattern = re.compile(label)
        steps: list[int] = []
        for place in places[:_MOST_LINES]:
            for above in reversed(lines[max(0, place - most_above) : place]):
                found = pattern.search(above)
                if found:
                    steps.append(whole(found["step"]) or 0)
                    break
        if len(steps) >= _NEARLY_ALL * min(len(places), _MOST_LINES) and (
            len(places) == 1 or _grows(steps, strictly=True)
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
        if len(steps) >= _LEAST_ALONE and _begins_anew(steps):
            return pattern, item
    numbers: dict[str, list[int]] = {}
    for line in lines:
        for found in _LABEL.finditer(line):
            at_start = "" if line[: found.start()].strip() else r"^\s*"
            steps = numbers.setdefault(at_start + _labelled(found), [])
            steps.append(whole(found[2]) or 0)
    growing = {
        pattern: steps
        for pattern, steps in numbers.items()
        if len(steps) >= _LEAST_ALONE and (_grows(steps, strictly=False) and _begins_anew(steps))
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
        for found in _LABEL.finditer(lines[-1]):
            yield _labelled(found)
    if len(lines) > 1:
        yield from _WITHOUT_WORDS


def _spelled(pattern: str, line: str) -> str:
    """Return a pattern with an epoch as the line writes it, which is shorter."""
    found = re.search(pattern, line)
    if not found:
        return pattern
    out, at = r"\b", found.start()
    for name in re.compile(pattern).groupindex:
        words = literal(line[at : found.start(name)]).replace(r"\s+", r"\s*")
        # numbers may be padded to the width of the last one
        out += words.removesuffix(r"\s*") + rf"\s*(?P<{name}>\d+)"
        at = found.end(name)
    return out


def _labels_above(lines: Sequence[str], places: Sequence[int], most_above: int) -> Iterator[str]:
    for place in places:
        for above in reversed(lines[max(0, place - most_above) : place]):
            for found in _LABEL.finditer(above):
                yield _labelled(found)


def _labelled(found: re.Match[str]) -> str:
    before = found.string[: found.start()]
    boundary = "(?<![A-Za-z])" if before.endswith("_") else r"\b"
    return rf"{boundary}{literal(found[1])}(?P<step>[\d,]+)"


def _steps(pattern: str, lines: Sequence[str]) -> list[int]:
    compiled = re.compile(pattern)
    found = [compiled.search(line) for line in lines]
    steps = [whole(match["step"]) for match in found if match]
    return [step for step in steps if step is not None]


def _grows(steps: Sequence[int], *, strictly: bool) -> bool:
    """Return whether steps go up from line to line; the same step may be of several ranks."""
    if len(steps) < 2:
        return True
    rises = sum(after > before for before, after in pairwise(steps))
    falls = sum(after < before for before, after in pairwise(steps))
    if strictly:
        return rises == len(steps) - 1
    return rises > 0 and falls <= len(steps) // 10


def _begins_anew(steps: Sequence[int]) -> bool:
    """Return whether steps go up, and begin anew at a few places, as where an epoch begins."""
    falls = [(before, after) for before, after in pairwise(steps) if after < before]
    rises = sum(after > before for before, after in pairwise(steps))
    is_of_epochs = all(after <= before / 2 for before, after in falls)
    return rises > 0 and len(falls) <= len(steps) // 2 and is_of_epochs
