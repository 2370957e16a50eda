"""Reads the Trainer of Hugging Face: its log lines, its progress bar, and the files it leaves.

```
{'loss': 1.14, 'grad_norm': 0.9, 'learning_rate': 2e-05, 'epoch': 0.29}        each logging_steps
{'train_runtime': 225.8, 'train_samples_per_second': 3.543, ..., 'epoch': 0.32}  at the end
all_results.json, train_results.json, trainer_state.json                       in the output dir
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from scalemark.readers.fields import usable
from scalemark.readers.kinds.tqdm import BarReader
from scalemark.readers.log_text import named_below, read_json
from scalemark.readers.numbers import number, usable_rate, whole
from scalemark.readers.opening import refuse_argument
from scalemark.readers.reading import Reading
from scalemark.readers.steps import StepCounter
from scalemark.readers.words import TOKENS_SO_FAR, Role, chosen, item_of, role_of

ABOUT = (
    "hugging_face reads the Trainer's log lines and progress bar, and all_results.json, "
    "train_results.json or trainer_state.json below the run folder"
)
_LINE = re.compile(r"^[^{}]{0,120}?(\{\s*['\"].*\})\s*$")
_PAIR = re.compile(r"['\"]([^'\"]+)['\"]\s*:\s*['\"]?([^'\",}]+)")
_METRIC_LINE = re.compile(r"^\s*(train_\w+)\s*=\s*(\S+)\s*$")  # of `***** train metrics *****`
_BATCH = re.compile(r"\bTotal train batch size \(w\. parallel.*\) = ([\d,]+)\s*$")
_KNOWN = frozenset(("loss", "learning_rate", "train_runtime", "train_loss", "grad_norm"))
_LLAMA_FACTORY_NAMES = frozenset(
    ("loss", "learning_rate", "epoch", "reward", "accuracy", "throughput")
)
_STEPS = ("step", "global_step", "global_step/max_steps")
_SAMPLES, _TOKENS = "train_samples_per_second", "train_tokens_per_second"
_TOTALS = {
    _SAMPLES: Role(name="throughput", item="samples", per_gpu=False),
    # of include_tokens_per_second: per device, as TrainingArguments says
    _TOKENS: Role(name="throughput", item="tokens", per_gpu=True),
}
_ROUNDED = 0.0005  # what a number may be off that is rounded to thousandths
_MOST_ROUNDED = 0.002  # of the samples of a step
FILES = ("all_results.json", "train_results.json", "trainer_state.json")


def create(argument: str) -> HuggingFaceReader:
    """Raises ReadError for an argument."""
    refuse_argument("hugging_face", argument)
    return HuggingFaceReader()


class HuggingFaceReader:
    """Reads lines, and files only where no line gave the rate of the whole run."""

    def __init__(self) -> None:
        self.wanted_item = ""
        self._bar = BarReader(is_of_run=True)
        self._steps = StepCounter()
        self._has_total = self._has_batch = False

    def read_line(self, line: str) -> Reading | None:
        total = _METRIC_LINE.match(line)
        if total:
            return None if self._has_total else self._total({total[1]: total[2]})
        batch = _BATCH.search(line)
        if batch and item_of(self.wanted_item) != "tokens":
            self._has_batch = True
            return Reading(items_per_step=number(batch[1]), item="samples", per_gpu=False)
        found = _LINE.match(line)
        if not found:
            return self._bar.read_line(line)
        values = {name: text.strip() for name, text in _PAIR.findall(found[1])}
        if not _KNOWN & values.keys():
            return None
        return self._total(values) or self._logged(values)

    def read_files(self, folder: Path) -> Iterator[Reading]:
        for name in () if self._has_total else FILES:
            for path in named_below(folder, (name,)):
                reading = self.read_file(path)
                if reading:
                    yield reading
                    return

    def read_file(self, path: Path) -> Reading | None:
        """Return what one of these files says of the whole run."""
        return self._total(_values_of(read_json(path)))

    def _total(self, values: Mapping[str, str]) -> Reading | None:
        """Return the reading of the whole run, where these values have one."""
        rates = {name: rate for name, rate in _TOTALS.items() if name in values}
        found = chosen(rates, self.wanted_item)
        if found is None or _is_in_the_midst(values):
            return None
        name, rate = found
        amount, doubt = usable(values[name])
        self._has_total = True
        return Reading(
            throughput=amount,
            items_per_step=self._items_per_step(amount, rate, values),
            unusable=doubt,
            is_total=True,
            item=rate.item,
            per_gpu=rate.per_gpu,
            metrics=_metrics(values, without=name),
        )

    def _items_per_step(
        self, items_per_s: float | None, rate: Role, values: Mapping[str, str]
    ) -> float | None:
        """Return the items of a step over the run; None where rounding hides them.

        The Trainer rounds its rates to thousandths, which is much of a slow step's. The bar has
        the number of steps.
        """
        steps_per_s = usable_rate(values.get("train_steps_per_second", ""))
        runtime_s = usable_rate(values.get("train_runtime", "")) or 0.0
        if items_per_s is None or steps_per_s is None or (self._has_batch and not rate.per_gpu):
            return None
        num_steps = self._bar.total
        if num_steps and abs(num_steps - steps_per_s * runtime_s) <= _ROUNDED * runtime_s:
            return items_per_s * runtime_s / num_steps
        return items_per_s / steps_per_s if _ROUNDED / steps_per_s < _MOST_ROUNDED else None

    def _logged(self, values: Mapping[str, str]) -> Reading | None:
        """Return what a line in the midst of training says: its loss, and its rate."""
        step = _step_of(values)
        if step is not None:
            step = self._steps.count(step)
            if step is None:
                return None
        name, rate = _rate_among(values, self.wanted_item) or ("", None)
        amount, doubt = usable(values[name]) if rate else (None, "")
        throughput, step_s = amount, None
        if rate and rate.name == "steps_per_s":
            throughput, step_s = None, 1 / amount if amount else None
        return Reading(
            throughput=throughput,
            step=step,
            step_s=step_s,
            is_mean=bool(rate and (rate.is_mean or rate.name == "steps_per_s")),
            item=rate.item if rate else "",
            per_gpu=rate.per_gpu if rate else None,
            unusable=doubt,
            metrics=_metrics(values, without=name),
        )


def _is_in_the_midst(values: Mapping[str, str]) -> bool:
    """Return whether a line in the midst of training has the tokens that were seen so far.

    `Trainer.log` adds them over the time since it began. They are gathered from all processes,
    unlike those of the end, which has its samples, too.
    """
    return {_TOKENS, "num_input_tokens_seen"} <= values.keys() and _SAMPLES not in values


def _step_of(values: Mapping[str, str]) -> int | None:
    for name in _STEPS:
        if name in values:
            return whole(values[name].partition("/")[0])
    return None


def _rate_among(values: Mapping[str, str], item: str) -> tuple[str, Role] | None:
    """Return the name of items/s, or else of steps/s; a rate of the last step before a mean."""
    rates = {name: role_of(name) for name in values}
    rates = {
        name: rate
        for name, rate in rates.items()
        if rate and rate.name in ("throughput", "steps_per_s")
    }
    if "throughput" in rates and values.keys() <= _LLAMA_FACTORY_NAMES:
        rates["throughput"] = TOKENS_SO_FAR
    if _is_in_the_midst(values):
        rates[_TOKENS] = TOKENS_SO_FAR
    return chosen(rates, item)


def _metrics(values: Mapping[str, str], without: str) -> dict[str, float]:
    numbers = {name: number(text) for name, text in values.items() if name != without}
    return {name: value for name, value in numbers.items() if value is not None}


def _values_of(content: object) -> dict[str, str]:
    """Return the values of a results file, or of the last entry of a trainer's state."""
    if not isinstance(content, dict):
        return {}
    history = content.get("log_history")
    if isinstance(history, list):
        ends = [entry for entry in history if isinstance(entry, dict) and "train_runtime" in entry]
        content = ends[-1] if ends else {}
    return {str(name): str(value) for name, value in content.items()}
