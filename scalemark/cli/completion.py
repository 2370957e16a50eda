"""Completes commands in bash and zsh: each TAB asks `scalemark --complete LINE` for candidates."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

_BASH = """\
_scalemark() {
  local line=${COMP_LINE:0:COMP_POINT} word found kept
  word=${line##* }
  kept=${word%"${word##*[=:]}"} # bash completes what follows the last of these
  COMPREPLY=()
  while IFS= read -r found; do
    COMPREPLY+=("${found#"$kept"}")
  done < <("$1" --complete "$line" 2>/dev/null)
  case "${COMPREPLY[*]}" in *[=.]) compopt -o nospace ;; esac
}
complete -o default -F _scalemark scalemark
"""

_ZSH = """\
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
_scalemark() {
  local line="${(j: :)words[1,CURRENT-1]} $PREFIX" one
  local -a begun whole
  for one in ${(f)"$($words[1] --complete $line 2>/dev/null)"}; do
    case $one in *[=.]) begun+=($one) ;; *) whole+=($one) ;; esac
  done
  (( $#begun )) && compadd -Q -S '' -- $begun
  (( $#whole )) && compadd -Q -- $whole
  (( $#begun + $#whole )) || _files
}
compdef _scalemark scalemark
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH}


def install(shell: str, home: Path) -> str:
    """Have the shell read its script at each start, and return a line that says so."""
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    script = data / "scalemark" / f"completion.{shell}"
    folder = Path(os.environ.get("ZDOTDIR") or home) if shell == "zsh" else home
    settings = folder / f".{shell}rc"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(SCRIPTS[shell], encoding="utf-8")
    line = f"source '{script}'"
    text = settings.read_text(encoding="utf-8") if settings.exists() else ""
    if line not in text.splitlines():
        with settings.open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n" if text and not text.endswith("\n") else f"{line}\n")
    return f"{settings} reads {script} from the next start of {shell} on"


def complete(line: str, modules: Mapping[str, str]) -> list[str]:
    """Return candidates for the last word of a line; `modules` are those of the commands."""
    _, *words, current = line.split(" ") if " " in line else ("", "")
    words = [word for word in words if word]
    if not words:
        return _beginning(current, [*modules, "--help", "--version"])
    if words[0] not in modules:
        return []
    if words[0] == "sweep":
        find: Callable[[Sequence[str], str], list[str]]
        find = import_module("sweeper.grid.completion").candidates
        return find(words[1:], current)
    module = import_module(modules[words[0]])
    if not hasattr(module, "app"):
        return []
    is_subcommand = words[0] in module.app.commands
    return _beginning(current, _of_app(module.app, words if is_subcommand else words[1:], current))


def _of_app(app: Any, words: Sequence[str], current: str) -> Sequence[str]:
    """Return subcommands, options, or the choices of the option before."""
    if not words:
        return [*app.commands, "--help"]
    import typer.main  # here, because a command of others needs none of it

    command: Any = typer.main.get_command(app.typer(words[0]))
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
    if choices := _choices(command, words[-1]):
        return choices
    if not current.startswith("-"):
        return list(getattr(command, "commands", ()))
    options = [name for option in command.params for name in option.opts if name.startswith("-")]
    return [*options, "--help"]


def _choices(command: Any, option: str) -> list[str]:
    """Return the values that an option takes, by the annotation of the command's function."""
    named = [one.name for one in command.params if option in one.opts]
    if not named or command.callback is None:
        return []
    kind = get_type_hints(command.callback).get(named[0])
    found: list[str] = []
    for one in get_args(kind) or [kind]:
        if isinstance(one, type) and issubclass(one, Enum):
            found += [str(member.value) for member in one]
    return found


def _beginning(current: str, found: Sequence[str]) -> list[str]:
    return [one for one in found if one.startswith(current)]
