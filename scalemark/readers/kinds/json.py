"""Reads JSON: objects that lines of the output hold, or a file that the program writes, or CSV."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from scalemark.readers.fields import RATES, FieldReader
from scalemark.readers.json_text import first_object
from scalemark.readers.log_text import read_text
from scalemark.readers.numbers import whole
from scalemark.readers.opening import path_below, settings
from scalemark.readers.reading import ReadError, Reading
from scalemark.readers.words import TOKENS_SO_FAR, Role, chosen, role_of

ABOUT = (
    "json[:FILE][,key=NAME,step=NAME,...] reads JSON objects of the output's lines, or of FILE "
    "(JSON or CSV) below the run folder; key is the name of items/s (default: what looks like it), "
    "dots lead inwards, as key=train.tokens_per_s; others: "
    "step, time_s, step_s, step_ms, steps_per_s, item"
)
_SETTINGS = ("key", "step", "epoch", "time_s", "step_s", "step_ms", "steps_per_s", "item")
_STEPS = (  # the best first
    *("step", "global_step", "num_updates", "iteration", "iter", "current_steps"),
    *("_step", "steps", "update"),
)
_MOST_VALUES = 200  # of one object
_MOST_DEPTH = 6
_MOST_SHOWN = 20  # names in a message


def create(argument: str) -> JsonReader:
    """Raises ReadError for a setting that there is not, or a file outside of the run folder."""
    file, given = settings("json", argument, _SETTINGS)
    return JsonReader(path_below("json", file) if file else None, given)


class JsonReader:
    """Reads objects of lines, or of a file."""

    def __init__(self, file: PurePosixPath | None, given: Mapping[str, str]) -> None:
        self.wanted_item = ""
        self._file = file
        self._given = dict(given)
        if "key" in self._given:
            self._given["throughput"] = self._given.pop("key")
        self._asked = tuple(self._given.values())
        self._seen: set[str] = set()  # names in a file
        self._fields = FieldReader()
        self._found: Role | None = None  # what the value is that looks like a rate
        self._is_first = True  # of several readings, none is of the whole run

    def read_line(self, line: str) -> Reading | None:
        return None if self._file else self._reading(first_object(line))

    def read_files(self, folder: Path) -> Iterator[Reading]:
        """Raises ReadError where the file, or a name that was asked for, is missing."""
        if self._file is None:
            return
        text = read_text(folder / self._file)
        if text is None:
            raise ReadError(
                f"found no file {self._file} below the run folder; have the program write it to "
                f"{{run_dir}}/{self._file}"
            )
        for content in _objects_of(text):
            reading = self._reading(content)
            if reading:
                yield reading
        for key in self._asked:
            if self._seen and key not in self._seen:
                there_are = ", ".join(sorted(self._seen)[:_MOST_SHOWN])
                raise ReadError(f"{self._file} has no {key}; there are {there_are}")

    def _reading(self, content: object) -> Reading | None:
        if not isinstance(content, dict):
            return None
        values = dict(_flat(content))
        if self._file and len(self._seen) < _MOST_VALUES:
            self._seen.update(values)
        if not set(RATES) & set(self._given):
            self._look_for_rate(values)
        if "step" not in self._given:
            self._look_for_step(values)
        taken = {name: values.pop(key) for name, key in self._given.items() if key in values}
        if not taken:
            return None
        reading = self._fields.reading({**_numbers(values), **taken})
        if reading is None or self._found is None:
            return reading
        is_total = self._found.is_total and reading.step is None and self._is_first
        self._is_first = False
        return replace(
            reading,
            is_total=is_total,
            is_mean=self._found.is_mean,
            item=reading.item or self._found.item,
            per_gpu=self._found.per_gpu,
        )

    def _look_for_rate(self, values: Mapping[str, str]) -> None:
        """Take the first value with the name of a rate, items before steps, and keep to it."""
        rates = {key: role_of(key.rpartition(".")[2]) or role_of(key) for key in values}
        if {"throughput", "current_steps"} <= values.keys():
            rates["throughput"] = TOKENS_SO_FAR
        found = chosen(rates, self.wanted_item)
        if found:
            key, self._found = found
            self._given[self._found.name] = key

    def _look_for_step(self, values: Mapping[str, str]) -> None:
        for name in _STEPS:
            for key, value in values.items():
                if key.rpartition(".")[2].lower() == name and whole(value) is not None:
                    self._given["step"] = key
                    return


def is_document(text: str) -> bool:
    """Return whether a text is one object or list of JSON, and no lines of them."""
    try:
        return isinstance(json.loads(text), dict | list)
    except (ValueError, RecursionError):
        return False


def _objects_of(text: str) -> Iterator[object]:
    """Yield the objects of a file: rows of CSV, of a list, of lines, or the one that it is."""
    if not text.lstrip().startswith(("{", "[")):
        yield from csv.DictReader(text.splitlines())
        return
    try:
        content: object = json.loads(text)
    except (ValueError, RecursionError):
        yield from (first_object(line) for line in text.splitlines())
        return
    yield from content if isinstance(content, list) else [content]


def _flat(content: object, name: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield dotted names and values; a list counts from 0, the last of a step's is the step."""
    if isinstance(content, dict) and depth < _MOST_DEPTH:
        for key, value in list(content.items())[:_MOST_VALUES]:
            yield from _flat(value, f"{name}.{key}" if name else str(key), depth + 1)
    elif isinstance(content, list) and content and name.endswith("step"):
        yield from _flat(content[-1], name, depth + 1)
    elif isinstance(content, bool):
        return
    elif isinstance(content, int | float) or (isinstance(content, str) and content):
        yield name, _written(content)


def _written(value: float | str) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf"
    return str(value)


def _numbers(values: Mapping[str, str]) -> dict[str, str]:
    """Return what may be metrics; names of ours that were not asked for are none."""
    return {key: value for key, value in values.items() if key not in (*RATES, "epoch", "item")}
