"""Answers the TAB of a shell, as Hydra's completion asks it: `sweep.py -sc query=bash`.

Hydra itself takes twice as long to start, and lists no values of axes.
"""

from collections.abc import Sequence

from conf.help import axes, settings
from scalemark.abilities import PROJECT
from scalemark.cli.commands import COMMANDS

_WORDS = ("command=", "read=", "from=", "+axes.", "+env.")


def is_asked(arguments: Sequence[str]) -> bool:
    """Return whether a shell asks for the words that may follow."""
    asked = " ".join(arguments).replace("--shell-completion", "-sc")
    return asked in ("-sc query=bash", "-sc query=fish", "-sc query=zsh")


def words(line: str) -> list[str]:
    """Return what the last word of a command line may become."""
    typed, _, word = line.rpartition(" ")
    program, *before = typed.split() or [""]
    name, equals, value = word.partition("=")
    found: list[str] = []
    if program.endswith("scalemark") and before[:1] != ["sweep"]:
        if not before:
            found = [*COMMANDS]
    elif equals:
        head, comma, _ = value.rpartition(",")
        found = [f"{name}={head}{comma}{choice}" for choice in _choices().get(name, ())]
    else:
        for each in _choices():
            behind, dot, _ = each[len(word) :].partition(".")
            found.append(f"{each[: len(word)]}{behind}{dot or '='}")
        found += _WORDS
    return sorted({each for each in found if each.startswith(word)})


def _choices() -> dict[str, Sequence[str]]:
    """Return the values of each axis and setting, or its default where any may be typed."""
    choices: dict[str, Sequence[str]] = {}
    for file in (PROJECT / "conf").glob("*/*.yaml"):
        choices[file.parent.name] = [*choices.get(file.parent.name, ()), file.stem]
    choices["strategy"] = ["all", *choices["strategy"]]
    for line in (*axes(), *settings()):
        is_switch = line.default in ("true", "false")
        choices[line.name] = line.choices or (("false", "true") if is_switch else [line.default])
    return choices
