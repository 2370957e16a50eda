"""Runs `scalemark COMMAND ...`: one program for all commands.

Each command is a module of another room, imported when it is asked for: `scalemark --help` needs
none of them. `python -m scalemark` is the same program.
"""

import sys

from scalemark.cli import entry_point

# the console script imports this module; whoever else does keeps their own ways with Ctrl-C
if __name__ == "__main__" or sys.argv[0].endswith("/scalemark"):
    entry_point.loading()

from collections.abc import Callable, Sequence
from importlib import import_module

from scalemark.cli.commands import COMMANDS, READ_AGAIN, unknown
from scalemark.host.own_code import import_ours_first

OK = 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the command's exit code, or 2 where there is no such command."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    word, *others = given or [""]
    if word in ("-sc", "--shell-completion"):  # as the shell asks at a TAB
        word, others = "sweep", given
    if word in ("--help", "-h"):
        return _print(_help())
    if word == "--version":
        from scalemark.host.own_code import own_version  # here, because nothing else needs it

        return _print(f"scalemark {own_version()}")
    if word not in COMMANDS:
        return _refuse(unknown(word) if word else f"which command?\n\n{_help()}")
    try:
        import_ours_first(sys.path)
    except FileNotFoundError:
        return _refuse("the current folder was removed; change to another one")
    return entry_point.run(_loaded(word, others), hears_ignored=word == "sweep")


def _loaded(word: str, arguments: Sequence[str]) -> Callable[[], int]:
    command = COMMANDS[word]
    if word == "read" and any(argument.startswith("--sweep") for argument in arguments):
        command = READ_AGAIN
    if not command.reads_arguments:
        sys.argv = ["scalemark", word, *arguments]
        run = import_module("store.command_line").run
        return lambda: run({word: command})
    # before the import: hints name the command as it was started
    sys.argv = [f"scalemark {word}", *arguments]
    module, _, function = command.function.partition(":")
    main: Callable[..., int] = getattr(import_module(module), function)
    if word == "sweep":
        return main  # Hydra writes its help
    return lambda: main(program=f"scalemark {word}")


_HELP_WIDTH = 100
_USAGE = """\
usage: scalemark COMMAND ...

Measure which way of sharing variables and reducing gradients trains a model fastest, or how fast \
your own training program is on 1, 2, 4, 8 GPUs (scalemark sweep --help).

{commands}

scalemark COMMAND --help says more of a command; scalemark --version prints the version."""


def _help() -> str:
    from shutil import get_terminal_size  # here, because commands start without them
    from textwrap import fill

    width = min(_HELP_WIDTH, get_terminal_size().columns)
    commands = [f"  {name:<11}  {command.about}" for name, command in COMMANDS.items()]
    lines = []
    for line in _USAGE.format(commands="\n".join(commands)).splitlines():
        indent = " " * 15 if line.startswith("  ") else ""
        lines.append(fill(line, width, subsequent_indent=indent))
    return "\n".join(lines)


def _print(text: str) -> int:
    try:
        print(text, flush=True)
    except OSError as error:
        from scalemark.cli.terminal import silence

        silence(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            return _refuse(f"the output cannot be written: {error.strerror}")
    return OK


def _refuse(why: str) -> int:
    print(f"scalemark: {why}", file=sys.stderr)
    return entry_point.USAGE


if __name__ == "__main__":
    sys.exit(main())
