"""Lets the command line name a program as people type it: `command="python train.py {zero}"`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

import conf
from conf.schema import CommandConfig
from scalemark.records.axes import Engine
from scalemark.records.overrides import hydra_value
from sweeper.errors import SweepRefusedError

GROUP = Path(conf.__file__).parent / "command"
_CHOICE = re.compile(r"[\w,-]+", re.ASCII)  # files of conf/command/, by their names
_TEXTS = ("command.run", "command.read", "command.items_per_step", "command.name")
_FILES = (".yaml", ".yml")
_OTHER_ENGINES = {engine.value for engine in Engine if engine is not Engine.command}


def with_program(arguments: Sequence[str]) -> list[str]:
    """Return the arguments as Hydra takes them.

    `command=TEXT` becomes command.run with its text quoted, `command=FILE.yaml` the settings of
    that file, `read=TEXT` command.read; all of these mean engine=command. Raises SweepRefusedError.
    """
    found: list[str] = []
    is_program = False
    for argument in arguments:
        key, equals, text = argument.partition("=")
        if not equals or key not in ("command", "read", *_TEXTS):
            found.append(argument)
            continue
        is_program = True
        if key == "command" and _is_file(text):
            found += _of_file(Path(text))
        elif key == "command" and _CHOICE.fullmatch(text):
            _check_choice(text)
            found.append(argument)
        else:
            setting = {"command": "command.run", "read": "command.read"}.get(key, key)
            found.append(f"{setting}={hydra_value(_unquoted(text))}")
    if not is_program:
        return found
    engines = [argument for argument in arguments if argument.startswith("engine=")]
    for argument in engines:
        if set(argument.partition("=")[2].split(",")) <= _OTHER_ENGINES:
            raise SweepRefusedError(
                f"{argument}: it runs no program of yours, and command= or read= names one; leave "
                f"{argument} out"
            )
    return found if engines else [f"engine={Engine.command}", *found]


def _check_choice(text: str) -> None:
    """Raise SweepRefusedError for a word that is no file of the group."""
    for name in text.split(","):
        if not (GROUP / f"{name}.yaml").is_file():
            raise SweepRefusedError(
                f"command={text}: there is no {GROUP / name}.yaml; a command line of one word is "
                f"given as command.run={name}"
            )


def _is_file(text: str) -> bool:
    """Return whether this names a file of settings; `train.py --config llama.yaml` is a command."""
    return text.endswith(_FILES) and (" " not in text or Path(text).is_file())


def _of_file(path: Path) -> Iterator[str]:
    try:
        read = yaml.safe_load(path.read_text())
    except yaml.MarkedYAMLError as error:
        raise SweepRefusedError(
            f"command={path}: {_place(error)}{error.problem or error.context}; text with braces, "
            "brackets or a colon stands in quotes, as read: 'regex:images/sec: ([0-9.]+)'"
        ) from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = str(error).splitlines()[0]
        raise SweepRefusedError(f"command={path}: {reason}") from error
    if not isinstance(read, Mapping):
        raise SweepRefusedError(
            f"command={path}: found {type(read).__name__}, wanted settings, one per line, as "
            "run: python train.py --gpus {num_gpus}"
        )
    known = CommandConfig.__dataclass_fields__
    for name, value in read.items():
        if name not in known:
            raise SweepRefusedError(
                f"command={path}: {name}: no such setting; there are {', '.join(known)}"
            )
        if value is not None:
            yield f"command.{name}={_value(value)}"


def _place(error: yaml.MarkedYAMLError) -> str:
    return f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{','.join(map(str, value))}]"
    return hydra_value(value)


def _unquoted(text: str) -> str:
    """Return the text without the quotes around all of it, which people type for Hydra."""
    for quote in ("'", '"'):
        if len(text) > 1 and text[0] == text[-1] == quote and quote not in text[1:-1]:
            return text[1:-1]
    return text
