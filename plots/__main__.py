"""`python -m plots`: tables, charts and reports from the command line. Each file of
`plots/commands/` brings a command.
"""

from __future__ import annotations

import sys

from scalemark.cli import entry_point

if __name__ == "__main__":
    entry_point.loading()

import atexit
import gc

gc.disable()  # imports make no garbage

from plots.commands.charts import charts
from plots.commands.report import report
from plots.commands.serve import serve
from plots.commands.tables import tables
from store.command_line import make_app, run

app = make_app("Tables and charts of the results database.")
app.command()(tables)
app.command()(charts)
app.command()(report)
app.command()(serve)

gc.freeze()
gc.enable()


def main(program: str = "python -m plots") -> int:
    # or Python looks through everything once more before it ends: a fifth of a second
    atexit.register(gc.freeze)
    return run(app, "plots", program)


if __name__ == "__main__":
    sys.exit(entry_point.run(main))
