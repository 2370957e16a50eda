"""Reads JSON: objects that lines of the output hold, or a file that the program writes, or CSV."""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from scalemark.readers.fields import ObjectReader, first_object
from scalemark.readers.log_text import json_of, read_text
from scalemark.readers.opening import Reader, ReadError, Reading
from scalemark.text.untrusted import quoted
from scalemark.text.wording import did_you_mean

ABOUT = (
    "json[:FILE][,key=NAME,step=NAME,...] reads JSON objects of the output's lines, or of FILE "
    "(JSON or CSV) below the run folder; key is the name of items/s (default: what looks like it), "
    "dots lead inwards, as key=train.tokens_per_s; others: "
    "step, time_s, step_s, step_ms, steps_per_s, item"
)
_SETTINGS = ("key", "step", "epoch", "time_s", "step_s", "step_ms", "steps_per_s", "item")
_MOST_VALUES = 200  # of one object
_MOST_DEPTH = 6
_MOST_SHOWN = 20  # names in a message


def create(argument: str) -> "JsonReader":
    """Return the reader of `FILE,key=a.b,step=c`; all may be left out. Raises ReadError."""
    first, *others = argument.split(",")
    file = "" if "=" in first else first.strip()
    given: dict[str, str] = {}
    for part in others if file or not first else (first, *others):
        name, _, value = map(str.strip, part.partition("="))
        if name not in _SETTINGS or not value:
            hint = did_you_mean(
                name, _SETTINGS, f"choose one of {', '.join(_SETTINGS)}", form="{}=..."
            )
            raise ReadError(
                f"found {quoted(part.strip(), 60)!r} in read=json:..., wanted NAME=VALUE; {hint}"
            )
        given[name] = value
    path = PurePosixPath(file)
    if path.is_absolute() or ".." in path.parts:
        raise ReadError(
            f"found read=json:{quoted(file, 60)}; wanted the path of a file below the run folder, "
            "as metrics.jsonl: let the program write into {run_dir}"
        )
    return JsonReader(path if file else None, given)


class JsonReader(Reader):
    """Reads objects of lines, or of a file."""

    def __init__(self, file: PurePosixPath | None, given: Mapping[str, str]) -> None:
        self._file = file
        self._asked = tuple(given.values())
        named = {"throughput" if name == "key" else name: key for name, key in given.items()}
        self._objects = ObjectReader(named)

    def read_line(self, line: str) -> Reading | None:
        content = None if self._file else first_object(line)
        if not isinstance(content, dict):
            return None
        return self._objects.reading(dict(_flat(content)), self.wanted_item)

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
        names: dict[str, str] = {}
        for content in _objects_of(text):
            values = dict(_flat(content)) if isinstance(content, dict) else {}
            if len(names) < _MOST_VALUES:
                names |= values
            reading = self._objects.reading(values, self.wanted_item)
            if reading:
                yield reading
        for key in self._asked:
            if names and key not in names:
                there_are = ", ".join(sorted(names)[:_MOST_SHOWN])
                raise ReadError(f"{self._file} has no {key}; there are {there_are}")


def _objects_of(text: str) -> Iterator[object]:
    """Yield the objects of a file: rows of CSV, of a list, of lines, or the one that it is."""
    content = json_of(text)
    if isinstance(content, dict | list):
        yield from content if isinstance(content, list) else [content]
    elif text.lstrip().startswith(("{", "[")):
        yield from map(first_object, text.splitlines())
    else:
        mark = delimiter_of(text.partition("\n")[0])
        yield from csv.DictReader(text.splitlines(), delimiter=mark, skipinitialspace=True)


def delimiter_of(header: str) -> str:
    """Return what stands between the names of a table."""
    return next((mark for mark in ";\t" if mark in header), ",")


def _flat(content: object, name: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield dotted names and values; a list counts from 0, the last of a step's is the step."""
    if isinstance(content, dict) and depth < _MOST_DEPTH:
        for key, value in list(content.items())[:_MOST_VALUES]:
            yield from _flat(value, f"{name}.{key}" if name else str(key), depth + 1)
    elif isinstance(content, list) and content and name.endswith("step"):
        yield from _flat(content[-1], name, depth + 1)
    elif isinstance(content, int | float | str) and not isinstance(content, bool):
        yield name, str(content)
