"""`python -m store`: the results database from the command line. Each file of `store/commands/`
brings some commands.
"""

from __future__ import annotations

import sys

from scalemark.cli import entry_point

if __name__ == "__main__":
    entry_point.loading()

from store.command_line import App, run

app = App(
    about="Read the results database, and look after it.",
    commands={
        "list": "store.commands.read:list_",
        "show": "store.commands.read:show",
        "query": "store.commands.read:query",
        "tag": "store.commands.annotate:tag",
        "note": "store.commands.annotate:note",
        "delete": "store.commands.annotate:delete",
        "restore": "store.commands.annotate:restore",
        "reference": "store.commands.exchange:references",
        "import": "store.commands.exchange:import_",
        "merge": "store.commands.exchange:merge_",
        "rebuild": "store.commands.exchange:rebuild",
        "check": "store.commands.read:check",
    },
)


def main(program: str = "python -m store") -> int:
    return run(app, "store", program)


if __name__ == "__main__":
    sys.exit(entry_point.run(main))
