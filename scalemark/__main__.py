"""Runs `scalemark COMMAND ...`: one program for all commands.

Each command is a module of another room, imported when it is asked for: `scalemark --help` needs
none of them. `python -m scalemark` is the same program.
"""

import sys

from scalemark.cli import entry_point

if __name__ == "__main__":
    entry_point.loading()

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module

from scalemark.host.own_code import import_ours_first

OK, USAGE = 0, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A word after `scalemark`."""

    about: str
    module: str  # has main(program=...), which reads sys.argv[1:] and returns the exit code
    is_subcommand: bool = False  # the module has several commands, and the word names one of them


COMMANDS = {
    "sweep": Command(
        about="Run a grid of trials, of our models or of your own program.", module="sweep"
    ),
    "store": Command(
        about="Read the results database, and look after it.", module="store.__main__"
    ),
    "plots": Command(about="Draw tables, charts and reports.", module="plots.__main__"),
    "analysis": Command(
        about="Answer questions: what scales, what differs, what to do.", module="analysis.__main__"
    ),
    "guard": Command(
        about="Watch trials over nights: what became slower, since when, with what.",
        module="analysis.__main__",
        is_subcommand=True,
    ),
    "status": Command(
        about="Show how far sweeps are, and how to go on with one.",
        module="sweeper.__main__",
        is_subcommand=True,
    ),
    "judge": Command(
        about="Judge whether a change makes a trial faster.",
        module="sweeper.__main__",
        is_subcommand=True,
    ),
    "probe": Command(
        about="Measure what this machine's devices and links can do, before a sweep.",
        module="sweeper.__main__",
        is_subcommand=True,
    ),
    "read": Command(
        about="Look at a log of your own program, and say how to read it.",
        module="scalemark.readers.__main__",
    ),
    "selfcheck": Command(
        about="Prove every mode of the trainer on this machine.", module="trainer.selfcheck"
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the command's exit code, or 2 where there is no such command."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    entry_point.loading()
    word, *others = given or [""]
    if word in ("--help", "-h"):
        return _print(_help())
    if word == "--version":
        from scalemark.host.own_code import own_version  # here, because nothing else needs it

        return _print(f"scalemark {own_version()}")
    if word not in COMMANDS:
        return _refuse(_no_such(word) if word else f"which command?\n\n{_help()}")
    try:
        import_ours_first(sys.path)
    except FileNotFoundError:
        return _refuse("the current folder was removed; change to another one")
    return entry_point.run(_loaded(word, others), hears_ignored=word == "sweep")


def _loaded(word: str, arguments: Sequence[str]) -> Callable[[], int]:
    command = COMMANDS[word]
    if word == "read" and any(argument.startswith("--sweep") for argument in arguments):
        command = replace(command, module="sweeper.__main__", is_subcommand=True)
    program = "scalemark" if command.is_subcommand else f"scalemark {word}"
    subcommand = [word] if command.is_subcommand else []
    # before the import: hints name the command as it was started
    sys.argv = [program, *subcommand, *arguments]
    run: Callable[..., int] = import_module(command.module).main
    if word == "sweep":
        return run  # Hydra writes its help
    return lambda: run(program=program)


_USAGE = """\
usage: scalemark COMMAND ...

Measure which way of sharing variables and reducing gradients trains a model fastest, or how fast
your own training program is on 1, 2, 4, 8 GPUs (scalemark sweep --help).

{commands}

scalemark COMMAND --help says more of a command; scalemark --version prints the version."""


def _help() -> str:
    lines = [f"  {name:<9}  {command.about}" for name, command in COMMANDS.items()]
    return _USAGE.format(commands="\n".join(lines))


def _no_such(word: str) -> str:
    from scalemark.text.wording import did_you_mean

    hint = did_you_mean(word, COMMANDS, f"choose one of {', '.join(COMMANDS)}")
    return f"no command {word[:100]!r}; {hint}"


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
    return USAGE


if __name__ == "__main__":
    sys.exit(main())
