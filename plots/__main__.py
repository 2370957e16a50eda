"""`python -m plots`: tables, charts and reports from the command line."""

import sys

from scalemark.cli import entry_point

if __name__ == "__main__":
    entry_point.loading()

from store.command_line import App, run

app = App(
    about="Tables and charts of the results database.",
    commands={
        "tables": "plots.commands:tables",
        "charts": "plots.commands:charts",
        "report": "plots.commands:report",
    },
    in_one_view=("tables", "charts"),
)


def main(program: str = "python -m plots") -> int:
    return run(app, "plots", program)


if __name__ == "__main__":
    sys.exit(entry_point.run(main))
