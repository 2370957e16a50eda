"""`python -m analysis`: each file of `analysis/commands/` is a command."""

from __future__ import annotations

import sys

from scalemark.cli import entry_point

if __name__ == "__main__":
    entry_point.loading()

from pkgutil import iter_modules

import analysis.commands
from store.command_line import App, run

app = App(
    about="Answers from the results database: what scales, what differs, what holds it back, and "
    "what to do.",
    commands={
        module.name: f"{analysis.commands.__name__}.{module.name}:{module.name}"
        for module in iter_modules(analysis.commands.__path__)
    },
)


def main(program: str = "python -m analysis") -> int:
    return run(app, "analysis", program)


if __name__ == "__main__":
    sys.exit(entry_point.run(main))
