"""`python -m store`: the results database from the command line. Each file of `store/commands/`
brings some commands.
"""

from __future__ import annotations

import sys

from scalemark.cli import entry_point

if __name__ == "__main__":
    entry_point.loading()

from store.command_line import make_app, run
from store.commands import annotate, compare, exchange, maintain, read, rebuild, reference

app = make_app("Read the results database, and look after it.")
for part in (read.app, compare.app, annotate.app):
    app.add_typer(part)
app.add_typer(reference.app, name="reference")
app.command("export")(exchange.export_)
app.command("import")(exchange.import_)
app.command()(rebuild.rebuild)
for command in (maintain.backup, maintain.check, maintain.vacuum):
    app.command()(command)


def main(program: str = "python -m store") -> int:
    return run(app, "store", program)


if __name__ == "__main__":
    sys.exit(entry_point.run(main))
