"""Answers `python -m sweeper` with the command of `scalemark` that has taken its place."""

import sys

from scalemark.cli.commands import moved

if __name__ == "__main__":
    sys.exit(moved("sweeper"))
