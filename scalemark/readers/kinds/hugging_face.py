"""Reads the Trainer of Hugging Face: its log lines, its progress bar, and the files it leaves.

```
{'loss': 1.14, 'grad_norm': 0.9, 'learning_rate': 2e-05, 'epoch': 0.29}        each logging_steps
{'train_runtime': 225.8, 'train_samples_per_second': 3.543, ..., 'epoch': 0.32}  at the end
all_results.json, train_results.json, trainer_state.json                       in the output dir
```
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from scalemark.readers.fields import NAMES, FieldReader, ObjectReader, is_in_the_midst, metrics_of
from scalemark.readers.kinds.bars import BarReader
from scalemark.readers.log_text import json_of, read_text
from scalemark.readers.opening import Reader, Reading
from scalemark.readers.words import Role, chosen, item_of, number, usable_rate

ABOUT = (
    "hugging_face reads the Trainer's log lines and progress bar, and all_results.json, "
    "train_results.json or trainer_state.json below the run folder"
)
_LINE = re.compile(r"^[^{}]{0,120}?(\{\s*['\"].*\})\s*$")
_PAIR = re.compile(r"['\"]([^'\"]+)['\"]\s*:\s*['\"]?([^'\",}]+)")
_METRIC_LINE = re.compile(r"^\s*(train_\w+)\s*=\s*(\S+)\s*$")  # of `***** train metrics *****`
_BATCH = re.compile(r"\bTotal train batch size \(w\. parallel.*\) = ([\d,]+)\s*$")
_KNOWN = frozenset(("loss", "learning_rate", "train_runtime", "train_loss", "grad_norm"))
_TOTALS = {
    "train_samples_per_second": Role(name="throughput", item="samples", per_gpu=False),
    # of include_tokens_per_second: per device, as TrainingArguments says
    "train_tokens_per_second": Role(name="throughput", item="tokens", per_gpu=True),
}
_ROUNDED = 0.0005  # what a number may be off that is rounded to thousandths
_MOST_ROUNDED = 0.002  # of the samples of a step
FILES = ("all_results.json", "train_results.json", "trainer_state.json")


class HuggingFaceReader(Reader):
    """Reads lines, and files only where no line gave the rate of the whole run."""

    def __init__(self) -> None:
        self._bar = BarReader(is_of_run=True)
        self._objects = ObjectReader({})
        self._has_total = self._has_batch = False

    def read_line(self, line: str) -> Reading | None:
        total = _METRIC_LINE.match(line)
        if total:
            return None if self._has_total else self._total({total[1]: total[2]})
        batch = _BATCH.search(line)
        if batch and item_of(self.wanted_item) != "tokens":
            self._has_batch = True
            return Reading(items_per_step=number(batch[1]), item="samples", per_gpu=False)
        match = _LINE.match(line)
        if not match:
            return self._bar.read_line(line)
        values = {name: text.strip() for name, text in _PAIR.findall(match[1])}
        if not _KNOWN & values.keys():
            return None
        return self._total(values) or self._logged(values)

    def read_files(self, folder: Path) -> Iterator[Reading]:
        found: list[Path] = []
        # passes over folders that a program removes meanwhile, and links
        for place, _, names in () if self._has_total else os.walk(folder):
            found += [Path(place, name) for name in FILES if name in names]
        # those of upper folders first
        for path in sorted(found, key=lambda path: (FILES.index(path.name), len(path.parts), path)):
            if reading := self.read_file(path):
                yield reading
                return

    def read_file(self, path: Path) -> Reading | None:
        """Return what a results file, or the last entry of a trainer's state, says of the run."""
        content = json_of(read_text(path))
        history = content.get("log_history") if isinstance(content, dict) else None
        for entry in history if isinstance(history, list) else ():
            if isinstance(entry, dict) and "train_runtime" in entry:
                content = entry
        if not isinstance(content, dict):
            return None
        return self._total({str(name): str(value) for name, value in content.items()})

    def _total(self, values: Mapping[str, str]) -> Reading | None:
        """Return the reading of the whole run, where these values have one."""
        rates = {name: role for name, role in _TOTALS.items() if name in values}
        best = chosen(rates, self.wanted_item)
        if best is None or is_in_the_midst(values):
            return None
        name, role = best
        self._has_total = True
        fields = {key: text for key, text in values.items() if key != name and key not in NAMES}
        reading = FieldReader().reading({**fields, "total": values[name]})
        return reading and replace(
            reading,
            items_per_step=self._items_per_step(reading.throughput, role, values),
            item=role.item,
            per_gpu=role.per_gpu,
        )

    def _items_per_step(
        self, items_per_s: float | None, role: Role, values: Mapping[str, str]
    ) -> float | None:
        """Return the items of a step over the run; None where rounding hides them."""
        steps_per_s = usable_rate(values.get("train_steps_per_second", ""))
        runtime_s = usable_rate(values.get("train_runtime", "")) or 0.0
        if items_per_s is None or steps_per_s is None or (self._has_batch and not role.per_gpu):
            return None
        num_steps = self._bar.total
        if num_steps and abs(num_steps - steps_per_s * runtime_s) <= _ROUNDED * runtime_s:
            return items_per_s * runtime_s / num_steps
        if _ROUNDED / steps_per_s < _MOST_ROUNDED:
            return items_per_s / steps_per_s
        return None

    def _logged(self, values: dict[str, str]) -> Reading | None:
        """Return what a line in the midst of training says: its loss, and its rate."""
        reading = self._objects.reading(values, self.wanted_item)
        if reading is None:
            if {"global_step", "step", "global_step/max_steps"} & values.keys():
                return None
            return Reading(metrics=metrics_of(values))
        step = reading.step or self._bar.last or None  # a line comes after the bar of its step
        return replace(reading, is_mean=reading.is_mean or reading.step_s is not None, step=step)


create = HuggingFaceReader
