"""Holds the options that commands about results share, and ends them at a StoreError."""

import gc
import inspect
import sys
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from shutil import get_terminal_size
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from scalemark.cli import entry_point
from scalemark.cli.commands import COMMANDS, DB, Command
from scalemark.cli.terminal import (
    READING_WIDTH,
    begin_answer,
    reader_may_leave,
    silence,
    tell_scripts,
)
from scalemark.records.references import Origin
from scalemark.text.untrusted import quoted_lines, visible
from scalemark.text.wording import did_you_mean
from store.database import OPENED, default_url, one_view
from store.errors import StoreError

OK = 0
_LONGEST_ERROR = 20_000  # characters: some list all choices

Db = Annotated[
    str,
    typer.Option(
        "--db",
        help="File, sqlite:/// or postgresql:// URL.",
        show_default="SCALEMARK_DB, your settings, else results.db",
        default_factory=default_url,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="JSON for scripts.")]
Filters = Annotated[
    list[str] | None,
    typer.Argument(
        help="As model=resnet50 'num_gpus>=4' model=vgg16,alexnet 'model!=vgg16' 'sweep~night*'.",
        show_default=False,
    ),
]
Sweep = Annotated[str | None, typer.Option(help="Only the trials this sweep asked for.")]
OriginOption = Annotated[
    Origin | None,
    typer.Option(
        "--origin",
        metavar="<origin>",
        help="Numbers that we measured or simulated, those that others published, or those of "
        "tables, which were measured elsewhere.",
        show_default="that of the newest sweep that matches",
    ),
]


def typer_app(commands: Mapping[str, Command], about: str = "") -> typer.Typer:
    """Return an app with these commands, and import each of them."""
    app = typer.Typer(
        cls=_Group,
        help=about,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        # without boxes and colors, folded between words
        rich_markup_mode=None,
        context_settings={"terminal_width": min(READING_WIDTH, get_terminal_size().columns)},
    )
    app.callback()(lambda: None)  # a command is named even where there is one alone
    for name, command in commands.items():
        module, _, function = command.function.partition(":")
        run = getattr(import_module(module), function)
        if command.function.startswith(("analysis.", "plots.")):  # all as of one moment
            run = one_view()(run)
        summary, _, _ = inspect.cleandoc(run.__doc__ or "").partition("\n\n")
        # of a list of commands Typer keeps the ends of lines
        app.command(name, cls=_Command, short_help=summary.replace("\n", " "))(run)
    return app


class _Command(TyperCommand):
    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Leave what options mean most of a narrow terminal."""
        if formatter.width < READING_WIDTH:
            formatter.write_dl = partial(formatter.write_dl, col_max=formatter.width // 4)
        super().format_help(ctx, formatter)


class _Group(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            with reader_may_leave():  # else Click ends with 1, which is an answer of some commands
                return super().invoke(ctx)
        except typer.TyperException as error:
            if isinstance(error.__cause__, ValueError) and hasattr(error.__cause__, "errors"):
                error.message = _reworded(error.message, error.__cause__.errors()[0])
            raise StoreError(_in_one_line(error)) from error


def _in_one_line(error: Any) -> str:
    """Return what Typer would put into a box, and how the command is written."""
    message = error.format_message().removeprefix("Invalid value: ").rstrip(".")
    message = f"{message[:1].lower()}{message[1:]}"
    context = getattr(error, "ctx", None)
    if context is None:
        return message
    words = [context.command_path, *context.command.collect_usage_pieces(context)]
    return f"{message}; usage: {' '.join(words)}"


_WANTED = {  # by the type of pydantic's error
    "greater_than_equal": "{ge} or more",
    "less_than_equal": "{le} or less",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a whole number of fewer digits",
    "float_parsing": "a number",
}


def _reworded(message: str, error: Mapping[str, Any]) -> str:
    """Return what was typed and wanted; the message of Typer leaves out what was typed."""
    wanted = _WANTED.get(error["type"])
    if wanted is None:
        return message.removeprefix("Value error, ")
    typed = visible(str(error["input"])[:100])
    if typed.strip().lower().lstrip("+-") == "nan":  # it is below no limit
        wanted = "a number"
    limits = {}
    for name, limit in error.get("ctx", {}).items():
        is_whole = isinstance(limit, float) and limit.is_integer()
        limits[name] = int(limit) if is_whole else limit
    return f"{typed}; wanted {wanted.format(**limits)}"


def run_db(program: str = "scalemark db") -> int:
    """Run a command of `scalemark db`; import it alone."""
    word = next(iter(sys.argv[1:]), "")
    if word and not word.startswith("-") and word not in DB:
        near = did_you_mean(word, DB, f"choose one of {', '.join(DB)}")
        print(f"{program}: no command {word[:100]!r}; {near}", file=sys.stderr)
        return entry_point.USAGE
    chosen = {word: DB[word]} if word in DB else DB
    return run(chosen, program=program, about=COMMANDS["db"].about)


def run(commands: Mapping[str, Command], *, program: str = "scalemark", about: str = "") -> int:
    """Run one of these commands; `program` is what the help calls it. Errors begin with the
    command and go to stderr; with `--json` stdout has an object with `error`, too.

    Exit codes: 0 ok, also when the reader of its output leaves early; 1 an answer of the command; 2
    usage, and when its output cannot be written; 130 when a command that lasts was interrupted.
    """
    words = [*program.split()[1:], *sys.argv[1:2]]
    name = " ".join(words)
    if sys.stdout is None:
        print(f"{name}: there is no standard output to write to", file=sys.stderr)
        return entry_point.USAGE
    with entry_point.Importing():
        chosen = typer_app(commands, about)
    OPENED.clear()
    begin_answer()
    # of hundreds of thousands of results a quarter of the time would go into looking for garbage
    gc.set_threshold(1_000_000, 50, 100)
    try:
        try:
            chosen(prog_name=program)
        finally:
            with reader_may_leave():
                sys.stdout.flush()
    except StoreError as error:
        return _refused(name, error)
    except OSError as error:
        silence(sys.stdout)
        print(f"{name}: the output cannot be written: {error.strerror}", file=sys.stderr)
        return entry_point.USAGE
    except Exception:
        # A database that another program wrote into, or a bad disk, may hold anything.
        from store.checks import explained

        for url in sorted(OPENED):
            if damage := explained(url):
                return _refused(name, damage)
        raise
    return OK


def _refused(name: str, error: StoreError) -> int:
    tell_scripts(str(error))
    # whatever it quotes
    print(f"{name}: {quoted_lines(str(error), _LONGEST_ERROR)}", file=sys.stderr)
    return entry_point.USAGE
