"""Makes readings of named values, which patterns, `METRIC` lines and JSON share; counts steps."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from scalemark.readers import words
from scalemark.readers.opening import Reading
from scalemark.text.untrusted import quoted

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

    def followed_by(self, step: int) -> "_Lines":
        """Return the lines of the next epoch, which begin with a step.

        They begin one gap after the last line: after 1 11 21, the next 1 is step 31, so the epoch
        had 30 steps. Two rows are different. After 10 20 25, the epoch had 25 steps: its last gap
        is short, as its last step is printed. After 1 10 20, the next 1 is not in line with 10 20
        and tells nothing: the epoch counts 20 steps.
        """
        more, unsure = int(step == 0), self.gap - 1
        if self.epoch_steps:
            more, unsure = max(0, self.epoch_steps - self.last), 0
        elif not self.gap:
            more, unsure = 0, self.last
        elif self.last_gap < self.gap:
            unsure = 0
        elif (self.last - step) % self.gap == 0:
            more = max(0, self.gap - step)
        return _Lines(before=self.before + self.last + more, unsure=self.unsure + unsure)

    def goes_on_with(self, step: int) -> bool:
        return 0 < step - self.last <= self.gap


_FEW_FALLS = 4  # the first line is one


class StepCounter:
    """Turns the step numbers that a program prints into steps done so far.

    Numbers that begin anew are of an epoch or of an evaluation. Of 10 20 30 10 20 40, the second 10
    and 20 count as steps 40 and 50 at first. Then 40 follows on 30: they were an evaluation, and
    this is step 40. Of 100 200 300 10 50 100, neither 10 nor 50 counts: they are less than the gap
    of 100 steps.
    """

    def __init__(self) -> None:
        self._epoch: int | None = None
        self._epoch_steps = 0
        self._epochs_before = 0  # steps of these, where lines say how many an epoch has
        self._most = self._gap = 0  # printed in this epoch, and between two lines of one
        self._lines = _Lines()
        self._left: _Lines | None = None  # the lines before these
        self._evaluated = 0  # steps of the longest evaluation that began anew
        self._highest = -1
        self._range = (math.inf, -1.0)  # as printed
        self._num_falls = self._num_rises = 0  # lines below all before, and above

    @property
    def fall(self) -> bool:
        """Return whether the numbers are of steps that are left: most are below all before."""
        return self._num_falls > max(_FEW_FALLS, self._num_rises)

    def count(self, step: int, epoch: int | None = None, epoch_steps: int = 0) -> int | None:
        """Return the steps done so far; None for one that was counted, or of an evaluation."""
        lowest, highest = self._range
        self._num_falls += step < lowest
        self._num_rises += step > highest
        self._range = (min(lowest, step), max(highest, step))
        num_epochs = 0
        if epoch is not None and self._epoch is not None:
            num_epochs = epoch - self._epoch
        if num_epochs < 0:
            return None  # of a rank that is behind
        if num_epochs > 0 and 0 < step - self._most <= self._gap:  # they go on over epochs
            num_epochs, epoch = 0, self._epoch
        if epoch is not None and epoch_steps:
            if num_epochs == 0 and epoch_steps != (self._epoch_steps or epoch_steps):
                return None  # an evaluation within the epoch has a length of its own
            self._epochs_before += num_epochs * (self._epoch_steps or epoch_steps)
            self._epoch_steps = epoch_steps
            done: int | None = self._epochs_before + step
        else:
            done = self._done(step, epoch, epoch_steps)
        if num_epochs == 0 and self._epoch is not None:
            self._gap = max(self._gap, step - self._most)
            step = max(step, self._most)
        self._epoch, self._most = epoch, step
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
        left, lines = self._left, self._lines
        # the first line of an epoch comes within a gap, and a rank may lag
        is_new = lines.last >= _FEW and step <= min(max(1, lines.gap), lines.last / 2)
        if epoch is not None and self._epoch is not None:
            is_new = epoch > self._epoch
        if left and left.goes_on_with(step) and not lines.goes_on_with(step):  # it was evaluated
            self._evaluated = max(self._evaluated, lines.last)
            self._lines, self._left = left, None
            self._highest = left.before + left.last
        elif is_new:
            if epoch is not None:
                self._left = None
            elif left is None or lines.last >= left.last:  # of two evaluations before the first
                self._left = lines
            self._lines = lines.followed_by(step)
        elif left and step <= left.last and step - lines.last > max(lines.gap, left.gap):
            return None  # another rank still prints the numbers before these began anew
        self._lines.take(step, epoch_steps)
        if self._left and self._lines.last <= max(self._evaluated, self._left.gap - 1):
            return None  # as long as it may be the evaluation again, or a short one
        return self._lines.before + step


RATES = (
    *("throughput", "total", "item_s", "item_ms", "kitem_s"),
    *("steps_per_s", "step_s", "step_ms"),
)
"""Names that say how fast: items/s, those of the whole run, or the time of items or of a step."""

MEAN = "mean_"
"""Begins the name of a rate that is a mean over the run so far, as mean_throughput."""

PLACES = (
    *("step", "epoch", "epoch_steps", "time_s", "item"),
    *("items", "items_per_step", "elapsed_s", "per_steps"),
)
_BARE = {f"{MEAN}{name}": name for name in RATES}
ALL_RATES = frozenset((*RATES, *_BARE))
"""Names of rates, those of means included."""

NAMES = ALL_RATES.union(PLACES)
_ITEMS_OF = {"item_s": 1.0, "item_ms": 1e3, "kitem_s": 1e3}  # items whose time is that many seconds
_MOST_METRICS = 100  # of one reading
_MOST_SHOWN = 40  # characters of what is no rate


class FieldReader:
    """Makes readings of the named values of one line after another."""

    def __init__(self) -> None:
        self._steps = StepCounter()
        self._num_lines = 0  # that stand for steps, where none is printed
        self._first: tuple[float, float] | None = None  # steps and items of the first line
        self._last = (0.0, 0.0)  # seconds and items of the line before
        self._num_batches = 0  # lines that print the items of a step
        self._batch_items = 0.0  # of all of these

    def reading(self, given: Mapping[str, str]) -> Reading | None:
        """Return the reading of a line; None where a rank has said the same before."""
        fields = {_BARE.get(name, name): text for name, text in given.items()}
        is_mean = fields.keys() != given.keys()
        step = printed = words.whole(fields.get("step", ""))
        if printed is not None:
            epoch = words.whole(fields.get("epoch", ""))
            epoch_steps = words.whole(fields.get("epoch_steps", "")) or 0
            step = self._steps.count(printed, epoch, epoch_steps)
            if step is None:
                return Reading(steps_fall=True) if self._steps.fall else None
        throughput, step_s, unusable = _rate(fields)
        metrics = metrics_of(fields)
        items_per_step = words.usable_rate(fields.get("items_per_step", ""))
        if items_per_step:  # of batches of several sizes the mean counts
            self._num_batches += 1
            self._batch_items += items_per_step
            items_per_step = self._batch_items / self._num_batches
        is_empty = not (throughput or step_s or unusable or items_per_step)
        if is_empty and step is None and not metrics and "items" not in fields:
            return None
        if "elapsed_s" in fields and is_mean:
            between = self._between(fields, throughput)
            throughput, is_mean = between or throughput, between is None
        return Reading(
            throughput=throughput,
            step=step,
            epoch_began=(step or 0) - (printed or 0),
            steps_before=self._steps.before,
            unsure_steps=self._steps.unsure,
            steps_fall=self._steps.fall,
            time_s=words.seconds(fields.get("time_s", "")),
            step_s=step_s,
            items_per_step=items_per_step or self._counted(fields, step),
            is_total="total" in fields,
            is_mean=is_mean,
            item=words.item_of(fields.get("item", "")),
            unusable=unusable,
            metrics=metrics,
        )

    def _counted(self, fields: Mapping[str, str], step: int | None) -> float | None:
        """Return the items of a step, or of a line, by how many there were so far."""
        items = words.number(fields.get("items", ""))
        if items is None:
            return None
        self._num_lines += 1
        place = float(self._num_lines if step is None else step)
        if self._first is None or items < self._first[1]:
            self._first = (place, items)
            return None
        num_steps, num_items = place - self._first[0], items - self._first[1]
        return num_items / num_steps if num_steps > 0 and num_items > 0 else None

    def _between(self, fields: Mapping[str, str], mean: float | None) -> float | None:
        """Return the rate since the line before, by a mean and the time that it is over."""
        elapsed_s = words.seconds(fields["elapsed_s"])
        items = words.number(fields.get("items", ""))
        if elapsed_s is None or (items is None and mean is None):
            return None
        if items is None:
            items = (mean or 0.0) * elapsed_s
        (last_s, last_items), self._last = self._last, (elapsed_s, items)
        if elapsed_s <= last_s or items <= last_items:  # it began anew
            return mean
        return (items - last_items) / (elapsed_s - last_s)


_OF_TOTAL = re.compile(r"(?<=\d)/\d+$")  # as of `10/100` steps


class ObjectReader:
    """Makes readings of objects of named values; the names of rate and step are kept once found."""

    _STEPS = (  # the best first
        *("step", "global_step", "num_updates", "iteration", "iter", "current_steps"),
        *("_step", "steps", "update", "global_step/max_steps"),
    )
    _LLAMA_FACTORY = frozenset(
        ("loss", "learning_rate", "epoch", "reward", "accuracy", "throughput")
    )

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = dict(given)  # what a value is -> its name
        self._fields = FieldReader()
        self._rate: words.Role | None = None  # of the value that looks like a rate
        self._is_first = True  # of several readings, none is of the whole run

    def reading(self, values: Mapping[str, str], item: str) -> Reading | None:
        """Return the reading of an object; of several rates, that of `item` is taken."""
        if not ALL_RATES & self._given.keys():
            self._look_for_rate(values, item)
        values = {key: _OF_TOTAL.sub("", value) for key, value in values.items()}
        keys = [key for key, value in values.items() if words.whole(value) is not None]
        whole = {_last(key).lower(): key for key in reversed(keys)}
        for name in self._STEPS:
            if name in whole:
                self._given.setdefault("step", whole[name])
        taken = {name: values[key] for name, key in self._given.items() if key in values}
        if "throughput" in taken:  # which may be of thousands, by its name
            taken["throughput"] += words.multiple_of(_last(self._given["throughput"]))[0]
        if not taken:
            return None
        asked = {*self._given.values(), *RATES, "epoch", "item"}  # and no metrics
        others = {key: value for key, value in values.items() if key not in asked}
        reading = self._fields.reading(others | taken)
        if reading is None or self._rate is None:
            return reading
        is_total = self._rate.is_total and reading.step is None and self._is_first
        self._is_first = False
        return replace(
            reading,
            is_total=is_total,
            is_mean=self._rate.is_mean,
            item=reading.item or self._rate.item,
            per_gpu=self._rate.per_gpu,
        )

    def _look_for_rate(self, values: Mapping[str, str], item: str) -> None:
        """Take the first value with the name of a rate, items before steps, and keep to it."""
        roles: dict[str, words.Role | None] = {}
        for key in values:
            own = words.multiple_of(_last(key))[1]
            if not words.COUNTED.search(own):  # else it is of several steps
                roles[key] = words.role_of(own) or words.role_of(key)
        is_llama_factory = "current_steps" in values or values.keys() <= self._LLAMA_FACTORY
        if "throughput" in values and is_llama_factory:
            roles["throughput"] = words.TOKENS_SO_FAR
        elif is_in_the_midst(values):
            roles["train_tokens_per_second"] = words.TOKENS_SO_FAR
        best = words.chosen(roles, item)
        if best:
            key, self._rate = best
            if key == "time/fps":  # of Stable-Baselines3: since the run began
                self._given |= {f"{MEAN}throughput": key, "elapsed_s": "time/time_elapsed"}
                self._given |= {"items": "time/total_timesteps", "step": "time/iterations"}
            else:
                self._given[self._rate.name] = key


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def is_in_the_midst(values: Mapping[str, str]) -> bool:
    """Return whether a Trainer's line has the tokens of all so far, as none of its end has."""
    so_far = {"train_tokens_per_second", "num_input_tokens_seen"}
    return so_far <= values.keys() and "train_samples_per_second" not in values


def _rate(fields: Mapping[str, str]) -> tuple[float | None, float | None, str]:
    """Return items per second, the seconds of a step, and what stood in the place of a rate."""
    name = next((name for name in RATES if name in fields), "")
    text = fields.get(name, "").strip()
    rate = words.seconds(text) if name in ("step_s", "item_s") else words.number(text)
    if not words.is_rate(rate):
        return None, None, quoted(text, _MOST_SHOWN)
    if name in ("throughput", "total"):
        return rate, None, ""
    if name in _ITEMS_OF:
        return _ITEMS_OF[name] / rate, None, ""
    num_steps = words.number(fields.get("per_steps", "")) or 1.0
    return None, words.seconds_per_step(name, rate) / num_steps, ""


def metrics_of(fields: Mapping[str, str]) -> dict[str, float]:
    """Return the numbers among values whose names are none of ours."""
    values = {name: words.number(text) for name, text in fields.items() if name not in NAMES}
    metrics = [(name, value) for name, value in values.items() if value is not None]
    return dict(metrics[:_MOST_METRICS])


def first_object(line: str, begin: int = 0) -> object:
    """Return the first JSON object of a line from `begin` on; None where there is none."""
    begin = line.find("{", begin)
    if begin < 0:
        return None
    try:
        content: object = json.JSONDecoder().raw_decode(line, begin)[0]
    except (ValueError, RecursionError):
        return None
    return content
