"""Completes commands, subcommands and options of `scalemark` in bash and zsh. What a sweep takes is
completed by Hydra (`python sweep.py --shell-completion install=bash`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

SCRIPT = """\
if [ -n "$ZSH_VERSION" ]; then autoload -Uz compinit bashcompinit; compinit; bashcompinit; fi
_scalemark() {
  local found=$(scalemark --complete "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null)
  COMPREPLY=($(compgen -W "$found" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _scalemark scalemark
"""


def candidates(words: Sequence[str], modules: Mapping[str, str]) -> list[str]:
    """Return what may follow these words; `modules` are those of the commands."""
    if not words:
        return [*modules, "--help", "--version"]
    if words[0] == "sweep" or words[0] not in modules:
        return []
    app: Any = getattr(import_module(modules[words[0]]), "app", None)
    if app is None:
        return []
    if words[0] not in app.commands:
        words = words[1:]
    if not words:
        return [*app.commands, "--help"]
    import typer.main  # here, because most words need none of it

    command: Any = typer.main.get_command(app.typer(words[0]))
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
    options = [name for option in command.params for name in option.opts if name.startswith("-")]
    return [*getattr(command, "commands", ()), *options, "--help"]
