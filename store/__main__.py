"""`python -m store`: the results database from the command line. Each file of `store/commands/`
brings some commands.
"""

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
        "tag": "store.commands.change:tag",
        "note": "store.commands.change:note",
        "delete": "store.commands.change:delete",
        "restore": "store.commands.change:restore",
        "reference": "store.commands.change:references",
        "import": "store.commands.change:import_",
        "merge": "store.commands.change:merge_",
        "rebuild": "store.commands.change:rebuild",
        "check": "store.commands.read:check",
    },
)


def main(program: str = "python -m store") -> int:
    return run(app, "store", program)


if __name__ == "__main__":
    sys.exit(entry_point.run(main))
