"""Reads progress bars: of tqdm, of rich as Lightning uses it, of tqdm-loggable, and of Keras.

```
Epoch 0:  17%|█▋        | 3/18 [00:14<01:13,  4.87s/it, loss=2.1]
1500it [00:15, 98.5it/s]                                                  the total is not known
Epoch 0/2  ━━━╸━━━━━━━━━━ 3/18 0:00:14 • 0:01:13 0.21it/s train_loss: 2.1
Progress on:train 1.46kit/10.0kit rate:2.2it/s remaining:1:05:32 elapsed:11:01 postfix:loss=3.6
422/422 [==============] - 13s 29ms/step - loss: 0.78                     below `Epoch 1/15`
```
Their rate is smoothed, or a mean: windows come from the steps and when the bar was redrawn. Where
each rank shows its own bar, the one that is ahead counts.
"""

import re
from dataclasses import dataclass, replace

from scalemark.readers import words
from scalemark.readers.fields import StepCounter, metrics_of
from scalemark.readers.opening import FASTEST_STEP_S, Reader, ReadError, Reading

ABOUT = (
    "bars[:TEXT] reads progress bars of tqdm, rich and Keras with the rate or the time of steps, "
    "or of items, as img/s: of the first bar that is not about loading, validating or testing, or "
    "of those with TEXT, as bars:Epoch"
)
_COUNT = r"\d[\d.]*[kKMG]?"
_RATE = r"(?<![\d.,])(?P<rate>[\d.,]+[kKMG]?|\?)\s*(?P<unit>[A-Za-z]+/s|m?s/[A-Za-z]+)\b"
_FORMS = (
    re.compile(
        rf".*?Progress on:(?P<before>.*?)\s*(?P<done>{_COUNT})(?:it)?/"
        rf"(?P<total>{_COUNT}|\?)(?:it)?\s+rate:{_RATE}(?:.*?postfix:(?P<after>.*))?"
    ),
    re.compile(  # of tqdm and rich
        rf"(?P<before>.*?)(?<![\w.])(?P<done>{_COUNT})"
        rf"(?:(?:it)?/(?P<total>{_COUNT}|\?|--)(?:it)?\s*|\s?[A-Za-z]+\s(?=\[[\d:]+,))"
        rf"(?:(?:\[\s*)?(?:[\d:]+(?:<[^,\]]*)?,\s*)?|\d+:\d+:\d+\s*•\s*(?:[\d:-]+\s+)?)"
        rf"{_RATE}(?P<after>[^\]]*)"
    ),
    re.compile(  # of Keras
        r"(?P<before>.*?)(?<!\d)(?<!Epoch )(?P<done>\d+)/"
        r"(?:(?P<total>\d+)\s+(?:\[[=>.\s]*\]|━+|-)|Unknown\s)\s*(?:-\s*)?"
        r"(?:ETA:\s*[\d:]+s?|(?P<epoch_s>\d+)s\b)?"
        r"(?P<after>(?:.*?\s(?P<rate>[\d.]+)\s?(?P<unit>(?:[mu]?s|µs)/(?:step|sample))\b)?.*)"
    ),
)
BEFORE_RATE = re.compile(r"\[[\d:]+(?:<[^,\]]*)?,\s*$")
"""What a bar of tqdm has before its rate: the time since it began, and what is left."""

_EPOCH = re.compile(r"\bepoch\D{0,3}(\d+)|^\s*\[?(\d+)/\d+\]?\s", re.IGNORECASE)
_HEADING = re.compile(r"\bEpoch (\d+)(?:/\d+)?:?\s*$")  # of Keras, above its bars
_TRAIN_ON = re.compile(r"\bTrain on ([\d,]+) samples")  # of Keras before 2.3, which counts these
_PAIR = re.compile(rf"([A-Za-z_][\w/.-]*)\s*[=:]\s*({words.NUMBER})")
_LETTER = re.compile(r"[^\W\d_]")
_OF_DATA_SETS = "examples"  # the unit of the bars of Hugging Face Datasets, before training
_MOST_CHARACTERS = 2_000
_OTHER = re.compile(  # words of the names of bars, in lower case
    r"(?:download|tokeniz|filter|generat|extract|valid|eval|test|predict|convert|preprocess|cach"
    r"|scan|infer|fetch|dataset|quantiz|compil|captur)\w*|(?:load|sav|pack|mapp)(?:e|ed|ing)?"
    r"|map|class|sanity|val|experience|rollouts?|collect(?:ing)?|sampling"
)
_FEW = 10  # steps of an epoch, where its bar does not say how many


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One update of a progress bar."""

    name: str  # what stands before it, without digits: the bars of all epochs have one name
    epoch: int | None  # where the text before it says which
    is_of_keras: bool  # its epochs have headings
    done: int  # steps, or items where the reading has these
    total: int  # 0: not known
    reading: Reading  # without the step


def bar_of(line: str) -> Bar | None:
    """Return the bar of a line; None where it shows none of steps or items."""
    matches = (form.match(line[:_MOST_CHARACTERS]) for form in _FORMS if "/" in line)
    match = next(filter(None, matches), None)
    done = _count(match["done"]) if match else None
    if not match or done is None:
        return None
    total = _count(match["total"] or "") or 0
    is_of_keras = "epoch_s" in match.groupdict()
    amount, unit = words.number(match["rate"] or "") or None, match["unit"] or "step/s"
    per, _, what = unit.partition("/")
    if amount and per in words.SECONDS:  # of a bar that is slow, as 1.2s/img
        unit, amount = f"{what}/s", 1 / (words.SECONDS[per] * amount)
    elif is_of_keras and done == total:
        if "ETA" in line:
            return None  # it is drawn again with its time
        epoch_s = float(match["epoch_s"] or 0)
        amount = done / epoch_s if epoch_s else None
        if amount and amount > 1 / FASTEST_STEP_S and "[=" in line:
            unit = "sample/s"  # of Keras 1
    pairs = dict(_PAIR.findall(match["after"] or ""))
    if words.whole(pairs.get("env_step", "")) == done:
        unit = "timestep/s"
    role = words.role_of("", unit)
    if role is None or role.item == _OF_DATA_SETS:
        return None
    reading = Reading(is_mean=True, metrics=metrics_of(pairs))
    if role.name != "throughput":
        reading = replace(reading, step_s=1 / amount if amount else None)
    elif is_of_keras or BEFORE_RATE.search(line[: match.start("rate")]):
        reading = replace(reading, throughput=amount, items_per_step=1, item=role.item)
    else:
        return None  # a rate of something else beside a step
    before = re.split(r"\b\d{1,3}%", match["before"])[0]
    epoch = _EPOCH.search(before)
    # columns of numbers that some put before a bar are no part of its name
    name = re.sub(r"\d+", "", before.partition(":")[0]).split()
    return Bar(
        name=" ".join(word for word in name if _LETTER.search(word))[:40],
        epoch=int(epoch[1] or epoch[2]) if epoch else None,
        is_of_keras=is_of_keras,
        done=done,
        total=total,
        reading=reading,
    )


def other_of(name: str) -> str:
    """Return the first word by which a bar is of something else than training; empty: none."""
    return next(filter(_OTHER.fullmatch, words.words_of(name)), "")


def _count(text: str) -> int | None:
    """Return a count, which may be rounded, as 1.46k; None for a fraction."""
    value = words.number(text)
    if value is not None and text[-1:].isalpha():
        return round(value)
    return words.whole(text)


class BarReader(Reader):
    """Reads the bar that shows how far training is, or those with a text."""

    def __init__(self, text: str = "", *, is_of_run: bool = False) -> None:
        self._text = text
        self.takes_prefixes = bool(text)
        self._is_of_run = is_of_run  # one that begins anew is another rank's, or an evaluation's
        self._name: str | None = None  # of the first training bar
        self.total = 0  # of this bar, in steps; 0: not known
        self._before = 0  # steps of the epochs before, where no bar says which it is of
        self.last = 0  # step that was read
        self._widest = 0  # most steps between two redraws
        self._steps = StepCounter()
        self._heading = ""  # the number of the epoch in it
        self._is_open = False  # no bar is below it yet
        self._num_began = self._num_ranks = 0  # ranks in this epoch, and in the one before
        self._half = 0  # of the steps of the epoch before
        self._num_samples = 0  # of an epoch, where a line says so
        self._num_read = self._num_longer = 0  # updates of this bar, and of longer ones of its name

    def read_line(self, line: str) -> Reading | None:
        heading = _HEADING.search(line)
        if heading and not words.phase_of(line):
            self._begin(heading[1])
        trained = _TRAIN_ON.search(line)
        if trained:
            self._num_samples = words.whole(trained[1]) or 0
        bar = bar_of(line)
        if bar is None or not self._is_ours(bar, line):
            return None
        step = self._step_of(bar)
        if step is None or not bar.done:
            return None
        self._num_read += 1
        reading = bar.reading
        if bar.total == self._num_samples > 0:
            rate = 1 / reading.step_s if reading.step_s else reading.throughput
            reading = replace(
                reading, throughput=rate, step_s=None, items_per_step=1, item="samples"
            )
        is_named = self._heading or bar.epoch is not None
        return replace(reading, step=step, steps_before=0 if is_named else self._before)

    def _begin(self, heading: str) -> None:
        """Begin an epoch, unless another rank has; each call of `fit` has a first one."""
        has_ended = self.last > self.total / 2
        if heading == self._heading and not has_ended:
            self._num_began += 1
            return
        self._heading, self._num_ranks, self._num_began = heading, self._num_began, 1
        self._before += self.last
        self._half = self.last // 2
        self.last, self._is_open = 0, True

    def _is_ours(self, bar: Bar, line: str) -> bool:
        if self._text:
            return self._text in line
        # without a number it counts epochs: the bar of their steps has another name
        counts_epochs = bar.epoch is None and bar.name.lower() in ("epoch", "epochs")
        is_other = counts_epochs or other_of(bar.name)
        if self._name is None and bar.done and not is_other:
            self._name, self.total = bar.name, bar.total
        is_first = self._is_open and bar.is_of_keras  # whose `fit` may have another number of steps
        if bar.name != self._name or is_first or self.total in (bar.total, 0):
            return bar.name == self._name
        if bar.total > self.total and not (self._before or self._is_of_run or bar.is_of_keras):
            self._num_longer += 1
        if self._num_longer > self._num_read:
            raise ReadError(
                f"bars of {self.total} and of {bar.total} steps have one name, and nothing says "
                "which is of training; name it, as tqdm(..., desc='train') does, or read its lines"
            )
        return False

    def _step_of(self, bar: Bar) -> int | None:
        """Return the steps done so far; None for those that were counted, as by another rank."""
        if bar.epoch is not None and not self._is_of_run:
            return self._steps.count(bar.done, bar.epoch, bar.total)
        if bar.is_of_keras:
            if self._num_began < self._num_ranks and bar.done > self._half:
                return None  # of a rank that has not begun this epoch
            if self._is_open:
                self.total, self._is_open = bar.total, False
        elif not self._is_of_run and not self._goes_on_with(bar):
            return None
        if bar.done <= self.last:
            return None
        self.last = bar.done
        return self._before + bar.done

    def _goes_on_with(self, bar: Bar) -> bool:
        """Return whether a bar is of this epoch or begins the next."""
        gap = bar.done - self.last
        half = (bar.total or _FEW) / 2
        has_ended = self.last >= half and self.last + 2 * self._widest >= bar.total
        if has_ended and bar.done <= self.last / 2:  # a rank is behind by less
            self._before += bar.total or self.last
            self.last = 0
        elif self._before and gap > max(half, 2 * self._widest):
            return False
        else:
            self._widest = max(self._widest, gap)
        return True


create = BarReader
