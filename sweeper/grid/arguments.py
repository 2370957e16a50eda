"""Lets the command line name a program as people type it: `command="python train.py {zero}"`."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from conf.schema import Config
from scalemark.abilities import VARIABLE_UPDATES, choices_of
from scalemark.program import expression, template
from scalemark.records.axes import ENV_PREFIX, PREFIX, REF, Engine
from scalemark.records.overrides import (
    SETTING,
    exact_value,
    key_of,
)
from scalemark.records.trial import AXES, PROGRAM_AXES, READING, STRATEGY_NAMES
from scalemark.run_folder import open_regular
from scalemark.text import untrusted
from sweeper import SweepRefusedError

SEARCH = re.compile(r"(max|best)\([-\d,.\s]*\)", re.ASCII)
"""A value that is looked for."""


def refuse_repeated(arguments: Sequence[str]) -> None:
    """Raise SweepRefusedError for an axis or a setting that is given twice: Hydra would take the
    last alone. A file of settings and one of them are no such two.
    """
    seen = set()
    for argument in arguments:
        key = key_of(argument)
        if argument.startswith(("~", "-")) or "=" not in argument or key == SETTING:
            continue
        name = _SHORT.get(key, key)
        if name == "command.run" and argument.endswith(_FILES):
            name = "command"
        if name in seen:
            how = "give it once"
            is_axis = key in (*AXES, "strategy") or key.startswith((PREFIX, ENV_PREFIX))
            if is_axis and key not in PROGRAM_AXES:
                how = f"give all its values at once, as {key}=A,B"
            raise SweepRefusedError(f"{untrusted.masked(argument)}: {key} is given twice; {how}")
        seen.add(name)


_SHORT = {"command": "command.run"} | {name: f"command.{name}" for name in READING}
_AMOUNTS = ("command.items_per_step", "command.flops_per_item")
_TEXTS = ("command.run", "command.read", *_AMOUNTS, "command.name")
_FILES = (".yaml", ".yml")
_OF_OWN_MODELS = ("model", "data", "strategy")  # groups that say nothing to a program
_BRACED = re.compile(r"\{[^{}]*\}")
_WORDS = re.compile(r"[\w.,+-]+", re.ASCII)
_FLAGS = (  # of Hydra, before a word of theirs
    *("--cfg", "-c", "--info", "-i", "--package", "-p"),
    *("--config-path", "-cp", "--config-name", "-cn", "--config-dir", "-cd"),
)
_OTHER_ENGINES = {engine.value for engine in Engine if engine is not Engine.command}


def with_program(arguments: Sequence[str]) -> list[str]:
    """Return the arguments as Hydra takes them.

    `command=TEXT` becomes command.run with its text quoted, `command=FILE.yaml` the settings of
    that file, `read=TEXT` command.read, as do item, items_per_step and per_gpu; all of these mean
    engine=command. Raises SweepRefusedError.
    """
    if any(argument.startswith("command=") for argument in arguments):
        _check_words(arguments)
    taken: list[str] = []
    of_file: list[str] = []  # they come first, so that what is typed wins over them
    is_program = False
    for argument in arguments:
        key, equals, text = argument.partition("=")
        if not equals or key not in (*_SHORT, *_TEXTS):
            taken.append(argument)
            continue
        is_program = True
        is_named = key == "command" and text.endswith(_FILES)
        # `train.py --config llama.yaml` is a command
        if is_named and (" " not in text or template.is_file(Path(text))):
            of_file += _of_file(Path(text))
        else:
            setting = _SHORT.get(key, key)
            value = exact_value(_unquoted(text)) if setting in _TEXTS else text
            taken.append(f"{setting}={value}")
    if not is_program:
        return taken
    run = " ".join(each for each in (*of_file, *taken) if key_of(each) == "command.run")
    for argument in arguments:
        _check_axis(argument, run)
    engines = [argument for argument in arguments if argument.startswith("engine=")]
    for argument in engines:
        if set(argument.partition("=")[2].split(",")) <= _OTHER_ENGINES:
            raise SweepRefusedError(
                f"{argument}: it runs no program of yours, and command= or read= names one; leave "
                f"{argument} out"
            )
    if engines:
        return [*of_file, *taken]
    return [f"engine={Engine.command}", *of_file, *taken]


def with_expressions(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with quotes around expressions, whose brackets Hydra would refuse.

    These are a rule of sweep.exclude without a list around it, axes that are derived, searches as
    max(8,512,8), and refs, as HEAD~1. strategy=all is a list of all that one host can run.
    """
    quoted = []
    for argument in arguments:
        name, _, text = argument.partition("=")
        if name == "sweep.exclude" and text and text[0] != "[":
            rule = text if text[0] in "'\"" else exact_value(text)
            argument = f"{name}=[{rule}]"
        elif SEARCH.fullmatch(text) or (
            name.lstrip("+").startswith(PREFIX) and "(" in text and expression.is_computed(text)
        ):
            argument = f"{name}={exact_value(text)}"
        elif name.lstrip("+") == REF and not re.search(r"""['"()\[]""", text):
            argument = f"{name}={','.join(map(exact_value, text.split(',')))}"
        elif argument == "strategy=all":  # by which the replicas of one host share what they learn
            of_one_host = []
            for (update, _, _), strategy in STRATEGY_NAMES.items():
                abilities = VARIABLE_UPDATES[update]
                if abilities.exchanges and not abilities.goes_over_hosts:
                    of_one_host.append(strategy)
            argument = f"{name}={','.join(of_one_host)}"
        quoted.append(argument)
    return quoted


def _check_words(arguments: Sequence[str]) -> None:
    """Raise SweepRefusedError for words of a command line that stand beside command=."""
    for before, argument in zip(["", *arguments], arguments, strict=False):
        if "=" not in argument and not argument.startswith(("-", "~")) and before not in _FLAGS:
            raise SweepRefusedError(
                f"{argument}: found beside the command line; put the whole of that in quotes, as "
                "command='python train.py --gpus {num_gpus}'"
            )


def _check_axis(argument: str, run: str) -> None:
    """Raise SweepRefusedError for what only our own models know, as optimizer=lion, and for an axis
    of the user's own without its prefix, which the command line `run` uses.
    """
    name, _, text = argument.partition("=")
    choices = choices_of(AXES[name]) if name in AXES else []
    if name in _OF_OWN_MODELS:
        why = "it is of scalemark's own models"
    elif choices and _WORDS.fullmatch(text) and not set(text.split(",")).issubset(choices):
        why = f"the {name} of scalemark is one of {', '.join(choices)}"
    elif name not in Config.__dataclass_fields__ and name in _WORDS.findall(
        " ".join(_BRACED.findall(run))
    ):
        why = "no axis of scalemark"
    else:
        return
    own = f"my_{name}" if template.is_taken(name) else name
    raise SweepRefusedError(
        f"{argument}: {why}; for a program write +{PREFIX}{own}={text} instead, and {{{own}}} into "
        "the command"
    )


def _of_file(path: Path) -> Iterator[str]:
    """Yield the settings of a file, which Hydra checks as if they were typed."""
    try:
        with open_regular(path, follows_links=True) as file:
            text = file.read().decode()
        read, tree = yaml.safe_load(text), yaml.compose(text, yaml.SafeLoader)
    except OSError as error:
        why = f"{error.strerror}; wanted a file of settings, or a command line"
        raise SweepRefusedError(f"command={path}: {why}") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        why = " ".join(str(error).split())
        if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
            why = f"line {error.problem_mark.line + 1}: {error.problem}"
        raise SweepRefusedError(
            f"command={path}: {why}; wanted a file of settings, where "
            "text with braces, brackets or a colon stands in quotes, or a command line"
        ) from error
    if not isinstance(read, dict):
        raise SweepRefusedError(
            f"command={path}: wanted settings, one per line, as run: python train.py --gpus "
            "{num_gpus}"
        )
    assert isinstance(tree, yaml.MappingNode)
    for name, num_times in Counter(key.value for key, _ in tree.value).items():
        if num_times > 1:
            raise SweepRefusedError(f"command={path}: {name} is given twice; give it once")
    for name, value in read.items():
        if isinstance(value, list):
            yield f"command.{name}=[{','.join(exact_value(str(item)) for item in value)}]"
        elif value is not None:
            yield f"command.{name}={exact_value(value if isinstance(value, bool) else str(value))}"


def _unquoted(text: str) -> str:
    """Return the text without the quotes around all of it, which people type for Hydra."""
    for quote in ("'", '"'):
        if len(text) > 1 and text[0] == text[-1] == quote and quote not in text[1:-1]:
            return text[1:-1]
    return text
