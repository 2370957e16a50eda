"""Lets the command line name a program as people type it: `command="python train.py {zero}"`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_type_hints

import yaml

from conf.schema import CommandConfig
from scalemark.abilities import choices_of
from scalemark.program import template
from scalemark.records.axes import Engine
from scalemark.records.free_axes import PREFIX
from scalemark.records.overrides import exact_value
from scalemark.records.trial import AXES
from sweeper.errors import SweepRefusedError

_TEXTS = ("command.run", "command.read", "command.items_per_step", "command.name")
_FILES = (".yaml", ".yml")
_OF_OWN_MODELS = ("model", "data", "strategy")  # groups that say nothing to a program
_WORDS = re.compile(r"[\w.,+-]+", re.ASCII)
_FLAGS = (  # of Hydra, before a word of theirs
    *("--cfg", "-c", "--info", "-i", "--package", "-p"),
    *("--config-path", "-cp", "--config-name", "-cn", "--config-dir", "-cd"),
)
_KINDS: Mapping[object, tuple[str, tuple[type, ...]]] = {
    str: ("text", (str, int, float)),
    bool: ("true or false", (bool,)),
    list[str]: ("a list, as [zero]", (list,)),
}
_OTHER_ENGINES = {engine.value for engine in Engine if engine is not Engine.command}


def with_program(arguments: Sequence[str]) -> list[str]:
    """Return the arguments as Hydra takes them.

    `command=TEXT` becomes command.run with its text quoted, `command=FILE.yaml` the settings of
    that file, `read=TEXT` command.read; all of these mean engine=command. Raises SweepRefusedError.
    """
    if any(argument.startswith("command=") for argument in arguments):
        _check_words(arguments)
    taken: list[str] = []
    is_program = False
    for argument in arguments:
        key, equals, text = argument.partition("=")
        if not equals or key not in ("command", "read", *_TEXTS):
            taken.append(argument)
            continue
        is_program = True
        if key == "command" and _is_file(text):
            taken += _of_file(Path(text))
        else:
            setting = {"command": "command.run", "read": "command.read"}.get(key, key)
            taken.append(f"{setting}={exact_value(_unquoted(text))}")
    if not is_program:
        return taken
    for argument in arguments:
        _check_axis(argument)
    engines = [argument for argument in arguments if argument.startswith("engine=")]
    for argument in engines:
        if set(argument.partition("=")[2].split(",")) <= _OTHER_ENGINES:
            raise SweepRefusedError(
                f"{argument}: it runs no program of yours, and command= or read= names one; leave "
                f"{argument} out"
            )
    return taken if engines else [f"engine={Engine.command}", *taken]


def _check_words(arguments: Sequence[str]) -> None:
    """Raise SweepRefusedError for words of a command line that stand beside command=."""
    for before, argument in zip(["", *arguments], arguments, strict=False):
        if "=" not in argument and not argument.startswith(("-", "~")) and before not in _FLAGS:
            raise SweepRefusedError(
                f"{argument}: found beside the command line; put the whole of that in quotes, as "
                "command='python train.py --gpus {num_gpus}'"
            )


def _check_axis(argument: str) -> None:
    """Raise SweepRefusedError for what only our own models know, as optimizer=lion."""
    name, _, text = argument.partition("=")
    choices = choices_of(AXES[name]) if name in AXES else []
    if name in _OF_OWN_MODELS:
        why = "it is of scalemark's own models"
    elif choices and _WORDS.fullmatch(text) and not set(text.split(",")).issubset(choices):
        why = f"the {name} of scalemark is one of {', '.join(choices)}"
    else:
        return
    own = f"my_{name}" if template.is_taken(name) else name
    raise SweepRefusedError(
        f"{argument}: {why}; for a program write +{PREFIX}{own}={text} instead, and {{{own}}} into "
        "the command"
    )


def _is_file(text: str) -> bool:
    """Return whether this names a file of settings; `train.py --config llama.yaml` is a command."""
    return text.endswith(_FILES) and (" " not in text or Path(text).is_file())


def _of_file(path: Path) -> Iterator[str]:
    """Yield the settings of a file."""
    try:
        read = yaml.safe_load(path.read_text())
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise SweepRefusedError(
            f"command={path}: {line}{error.problem or error.context}; text with braces, brackets "
            "or a colon stands in quotes, as read: 'regex:images/sec: ([0-9.]+)'"
        ) from error
    except FileNotFoundError:
        raise SweepRefusedError(
            f"command={path}: there is no such file; wanted a file of settings, by a path from "
            f"{Path.cwd()}, or a command line"
        ) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = str(error).splitlines()[0]
        raise SweepRefusedError(f"command={path}: {reason}") from error
    if not isinstance(read, dict):
        raise SweepRefusedError(
            f"command={path}: wanted settings, one per line, as run: python train.py --gpus "
            "{num_gpus}"
        )
    known = get_type_hints(CommandConfig)
    for name, value in read.items():
        if name not in known:
            raise SweepRefusedError(
                f"command={path}: {name}: no such setting; there are {', '.join(known)}"
            )
        if value is None and name != "run":
            continue
        wanted, types = _KINDS[known[name]]
        if not isinstance(value, types):
            raise SweepRefusedError(f"command={path}: {name}: wanted {wanted}")
        if isinstance(value, list):
            yield f"command.{name}=[{','.join(map(str, value))}]"
        else:
            yield f"command.{name}={exact_value(value if known[name] is bool else str(value))}"


def _unquoted(text: str) -> str:
    """Return the text without the quotes around all of it, which people type for Hydra."""
    for quote in ("'", '"'):
        if len(text) > 1 and text[0] == text[-1] == quote and quote not in text[1:-1]:
            return text[1:-1]
    return text
