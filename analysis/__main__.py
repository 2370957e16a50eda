"""`python -m analysis`: each file of `analysis/commands/` is a command."""

import sys

from scalemark.cli import entry_point

if __name__ == "__main__":
    entry_point.loading()

from pkgutil import iter_modules

import analysis.commands
from store.command_line import App, run

COMMANDS = [module.name for module in iter_modules(analysis.commands.__path__)]
app = App(
    about="Answers from the results database: what scales, what differs, what holds it back, and "
    "what to do.",
    commands={name: f"{analysis.commands.__name__}.{name}:{name}" for name in COMMANDS},
    in_one_view=COMMANDS,
)


def main(program: str = "python -m analysis") -> int:
    return run(app, "analysis", program)


if __name__ == "__main__":
    sys.exit(entry_point.run(main))
