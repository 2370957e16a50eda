"""Fills the placeholders of a command line, and finds its program and its software."""

import os
import re
import shlex
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from scalemark.program import expression
from scalemark.records.axes import PREFIX, AxisValue, is_env_variable, number_written_as
from scalemark.records.trial import AXES, PROGRAM_AXES, TrialSpec
from scalemark.text.wording import as_typed, did_you_mean

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}\n]+)\}|[{}]")  # an axis, or an expression of axes
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*", re.ASCII)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=", re.ASCII)
_QUOTED = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*\"""", re.DOTALL)
_OF_A_SHELL = re.compile(  # outside quotes
    r"""
    \d?[;|&<>]+(?:&\d)?                     # && | 2>&1
    | (?<!\S)(?:~(?=[/\s]|\Z)|\#)\S*       # ~/data, a comment
    | \S*(?:\$(?:[\w(@$]|\{\{)|[`*?])\S*   # $HOME $(date) `date` *.txt
    """,
    re.ASCII | re.VERBOSE,
)
_BRACED = re.compile(r"\{\s*\}")
_AROUND_A_BRACE = 12  # characters that a message shows


class TemplateError(ValueError):
    """Raised for a command line that cannot be filled; says what is wrong and what to write."""


def names(template: str) -> list[str]:
    """Return the names of the placeholders, each once, in their order. Raises TemplateError."""
    named: dict[str, None] = {}
    for token in _TOKEN.finditer(template):
        if token[0] in ("{", "}"):
            raise TemplateError(_stray_brace(template, token.start()))
        placeholder = token[1]
        if placeholder is None:  # a doubled brace
            continue
        used: list[str] = []
        if _NAME.fullmatch(placeholder):
            used = [placeholder]
        elif placeholder == placeholder.strip():
            with suppress(expression.ExpressionError):
                used = expression.names(placeholder)
        if not used:
            raise TemplateError(_no_placeholder(placeholder))
        named.update(dict.fromkeys(used))
    return list(named)


def problems(template: str, known: Collection[str], *, shell: bool) -> Iterator[str]:
    """Say in a sentence each what is wrong with a template; `known` are names with a value."""
    try:
        used = names(template)
        if shell:
            _check_quotes(template)
        else:
            _check_words(template)
    except TemplateError as error:
        yield str(error)
        return
    listed = ", ".join(f"{{{each}}}" for each in sorted(known))
    for name in used:
        if name not in known:
            otherwise = f"+axes.{name}=VALUE,VALUE declares it; there are {listed}"
            hint = did_you_mean(name, known, otherwise, form="{{{}}}", cutoff=_NEARLY_SAME)
            yield f"command.run: {{{name}}} is no placeholder, {hint}"


def check_values(template: str, axes: Mapping[str, str]) -> None:
    """Raise TemplateError for an expression that has no value for these axes, by `of_axes`."""
    for token in _TOKEN.finditer(template):
        if token[1] and not _NAME.fullmatch(token[1]):
            _computed(token[1], axes)


def of_zero(spec: TrialSpec) -> Iterator[str]:
    """Yield the quotients in the command of a trial that are 0: there is less than one divides."""
    for text in dict.fromkeys(token[1] for token in _TOKEN.finditer(spec.command)):
        if text and "//" in text and _computed(text, of_axes(spec.axes)) == "0":
            yield text


def substituted(template: str, derived: Mapping[str, str]) -> str:
    """Return a template with expressions in place of derived axes, by their names.

    Raises TemplateError.
    """

    def of_token(token: re.Match[str]) -> str:
        if not token[1]:
            return token[0]
        try:
            return f"{{{expression.substituted(token[1], derived)}}}"
        except expression.ExpressionError as error:
            raise TemplateError(f"command.run: {error}") from error

    return _TOKEN.sub(of_token, template)


def filled(template: str, values: Mapping[str, str], *, shell: bool) -> list[str]:
    """Return the argument vector of a program. Raises TemplateError."""
    for problem in problems(template, values.keys(), shell=shell):
        raise TemplateError(problem)
    if shell:
        return ["/bin/sh", "-c", replaced(template, values, quote=shlex.quote)]
    return [replaced(word, values) for word in words(template, shell=False)]


def words(template: str, *, shell: bool) -> list[str]:
    """Return the words of a command line as they stand there, for finding programs and scripts.

    Of a shell's text these are what looks like words. Raises TemplateError.
    """
    template = _compact(template)
    try:
        return shlex.split(template)
    except ValueError as error:
        if shell:
            return template.split()
        raise TemplateError(_unbalanced(error)) from error


def replaced(text: str, values: Mapping[str, str], quote: Callable[[str], str] = str) -> str:
    """Return a text with the values of its placeholders, all of which are known, each quoted.

    Raises TemplateError for an expression that has no value.
    """

    def value_of(token: re.Match[str]) -> str:
        placeholder: str | None = token[1]
        if placeholder is None:
            return token[0][0]
        if placeholder in values:
            return quote(values[placeholder])
        return quote(_computed(placeholder, values))

    return _TOKEN.sub(value_of, text)


def _computed(text: str, values: Mapping[str, str]) -> str:
    axes = {name: number_written_as(value) for name, value in values.items()}
    try:
        return as_typed(expression.value_of(text, axes))
    except expression.ExpressionError as error:
        raise TemplateError(f"command.run: {error}") from error


def _compact(template: str) -> str:
    """Return a template without spaces between braces, so that it can be cut at spaces."""

    def without_spaces(token: re.Match[str]) -> str:
        if token[1]:
            return "".join(token[0].split())
        return token[0]

    return _TOKEN.sub(without_spaces, template)


def _check_words(template: str) -> None:
    """Raise TemplateError for what no argument vector can be made of."""
    template = _compact(template)
    split = words(template, shell=False)
    if not split or not split[0]:
        raise TemplateError(
            "command.run: found nothing to start; wanted a program and its arguments"
        )
    if _ASSIGNMENT.match(split[0]):
        raise TemplateError(
            f"command.run: {split[0]} before a program is for a shell; write `env {split[0]} ...`, "
            "or set command.shell=true"
        )
    bare = template
    for no_shells in (_TOKEN, _QUOTED):
        bare = no_shells.sub(lambda matched: "_" * len(matched[0]), bare)
    if of_a_shell := _OF_A_SHELL.search(bare):
        word = template[of_a_shell.start() : of_a_shell.end()]
        raise TemplateError(
            f"command.run: {word} is for a shell, and there is none; set command.shell=true, "
            "or quote it where the program shall get it"
        )


def _check_quotes(template: str) -> None:
    """Raise TemplateError where a quoted value would stand between quotes of the template."""
    if not template.strip():
        raise TemplateError("command.run: found nothing to start; wanted a shell's command line")
    bare = _QUOTED.sub("", template)
    if "'" in bare or '"' in bare:
        raise TemplateError(_unbalanced(ValueError("No closing quotation")))
    for quoted in _QUOTED.finditer(template):
        for token in _TOKEN.finditer(quoted[0]):
            if token[1]:
                raise TemplateError(
                    f"command.run: {token[0]} stands between quotes, and a shell gets its value "
                    "quoted already; leave the quotes out"
                )


def _stray_brace(template: str, position: int) -> str:
    if named := _BRACED.match(template, position):
        return _no_placeholder(named[0][1:-1])
    shown = template[position : position + _AROUND_A_BRACE]
    return (
        f"command.run: a single brace at {shown!r}; wanted a placeholder as {{num_gpus}}, or a "
        "doubled brace ({{ or }}) for the program to get one"
    )


def _no_placeholder(text: str) -> str:
    shown = f"{{{text[:40]}}}"
    return (
        f"command.run: {shown!r} is no placeholder: that is the name of an axis, of letters, "
        "digits and _, as {num_gpus}, or arithmetic of axes, as {batch_size // num_gpus}; for the "
        "program to get braces, double them: {{ and }}"
    )


def _unbalanced(error: ValueError) -> str:
    reason = str(error).lower()
    return f"command.run: {reason}; close the quote, or write a backslash before it"


_NEARLY_SAME = 0.9  # a slip of the keyboard; mode is no slip of model


PLACES = (
    *("run_dir", "free_port", "gpus", "gpus_per_host"),
    *("host_rank", "num_hosts", "main_host"),
)
"""Names that an attempt fills. A free axis of such a name cannot be told apart from it."""

# PROGRAM_AXES say how a program is run and read, and are of no use to it
_NOT_FOR_PROGRAMS = frozenset({"engine", *PROGRAM_AXES})


def is_taken(name: str) -> bool:
    """Return whether a free axis of that bare name could not be told apart from one of ours."""
    return name in AXES or name in PLACES


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one process of an attempt runs."""

    run_dir: Path
    free_port: int  # of the main host; nothing listened there a moment ago
    gpus_per_host: int  # or CPU devices
    sees_gpus: bool  # numbered from 0
    host_rank: int = 0
    num_hosts: int = 1
    main_host: str = "127.0.0.1"  # the host of rank 0

    @property
    def gpus(self) -> str:
        return ",".join(map(str, range(self.gpus_per_host if self.sees_gpus else 0)))

    def values(self) -> dict[str, str]:
        """Return the placeholders of PLACES."""
        return {name: str(getattr(self, name)) for name in PLACES}


def of_axes(axes: Mapping[str, AxisValue | None]) -> dict[str, str]:
    """Return the placeholders of a trial's axes, by `TrialSpec.axes`; it may lack some.

    A free axis goes by its bare name, and by `axes.NAME`, which is its own where an axis of ours
    has the bare name.
    """
    values: dict[str, str] = {}
    for name, value in axes.items():
        if value is None or is_env_variable(name):
            continue
        if name.startswith(PREFIX):
            values[name] = as_typed(value)
            values.setdefault(name.removeprefix(PREFIX), as_typed(value))
        elif name not in _NOT_FOR_PROGRAMS:
            values[name] = as_typed(value)
    return values


def known(axes: Mapping[str, AxisValue | None]) -> frozenset[str]:
    """Return all names that the command line of such a trial may use."""
    return frozenset({*of_axes(axes), *PLACES})


PYTHON = re.compile(r"python[\d.]*")
"""Names of its interpreters."""

SCRIPTS = (".py", ".sh")
"""Endings of their names."""


def is_file(path: Path) -> bool:
    """Return whether there is such a file: none has a name that is too long."""
    with suppress(OSError):
        return path.is_file()
    return False


def located(name: str, path: str, folder: Path) -> str | None:
    """Return the file; None where there is none. `path` is the variable PATH of the program."""
    if "/" in name:
        if is_file(folder / name):
            return str(folder / name)
        return None
    entries = [str(folder / entry) for entry in path.split(os.pathsep)]
    return shutil.which(name, path=os.pathsep.join(entries))


def not_found(name: str, folder: Path) -> str:
    """Say why `located` finds none, and what to do."""
    if "/" in name:
        what = "is no file" if os.access(folder / name, os.F_OK) else "is not there"
        return f"{folder / name} {what}; wanted a program, by a path from {folder} or in PATH"
    if is_file(folder / name):
        return f"{name}: no such program in PATH; in {folder} there is one: write ./{name}"
    return (
        f"{name}: no such program in PATH; activate the environment that has it, or name it by "
        "its path"
    )


def not_executable(file: str) -> str:
    """Say what to do about a file that has not the permission to be started."""
    return f"{file} is not executable; chmod +x it, or name its interpreter before it"


def problem(words: Sequence[str], path: str, folder: Path) -> str:
    """Say which file of a command line is missing: the program, or the script of its Python."""
    file = located(words[0], path, folder)
    if file is None:
        return not_found(words[0], folder)
    if not os.access(file, os.X_OK):
        return not_executable(file)
    script = ""
    if len(words) > 1 and PYTHON.fullmatch(Path(words[0]).name):
        script = words[1]
    if script.endswith(".py") and not is_file(folder / script):
        return f"{folder / script} is not there; wanted a script, by a path from {folder}"
    return ""


def software_words(spec: TrialSpec) -> Sequence[str]:
    """Return the words that may name a program or a script, and empty ones for all others, so that
    none becomes the value of an option before it.

    A word with placeholders counts where it is the program, or ends as a script does. It stands at
    the end once more, as it was given: other trials start other files by it. Raises TemplateError.
    """
    axes = of_axes(spec.axes)
    kept, given = [], []
    for index, word in enumerate(words(spec.command, shell=spec.shell)):
        is_software = index == 0 or word.endswith(SCRIPTS)
        try:
            is_filled = bool(names(word))
        except TemplateError:  # a shell's text was cut within a placeholder
            is_filled, is_software = True, False
        if not is_filled:
            kept.append(word)
        elif is_software and set(names(word)) <= axes.keys():
            kept.append(replaced(word, axes))
            given.append(word)
        else:
            kept.append("")
    if spec.shell:
        return ["/bin/sh", *kept, *given]
    return [*kept, *given]
