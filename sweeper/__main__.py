"""Commands: `python -m sweeper status` shows how far sweeps are, from another terminal; `python -m
sweeper judge` judges a change of a trial.
"""

import sys

from scalemark.cli import entry_point

if __name__ == "__main__":
    entry_point.loading()

from store.command_line import App, run

app = App(
    about="Look at sweeps that run, judge a change, or measure what this machine can do.",
    commands={
        "status": "sweeper.live.status:status",
        "judge": "sweeper.early_stopping.command:judge",
        "probe": "sweeper.probe:probe",
        "read": "sweeper.reading:read",
    },
)


def main(program: str = "python -m sweeper") -> int:
    return run(app, "sweeper", program)


if __name__ == "__main__":
    sys.exit(entry_point.run(main))
