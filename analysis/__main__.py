"""`python -m analysis`: each file of `analysis/commands/` is a command."""

from __future__ import annotations

import sys

from scalemark.cli import entry_point

if __name__ == "__main__":
    entry_point.loading()

from importlib import import_module
from pkgutil import iter_modules

import analysis.commands
from store.command_line import make_app, run

app = make_app(
    "Answers from the results database: what scales, what differs, what holds it back, and "
    "what to do."
)
app.callback()(lambda: None)  # a command is named even where there is one alone
for found in iter_modules(analysis.commands.__path__):
    app.command()(getattr(import_module(f"analysis.commands.{found.name}"), found.name))


def main(program: str = "python -m analysis") -> int:
    return run(app, "analysis", program)


if __name__ == "__main__":
    sys.exit(entry_point.run(main))
