"""The one argument of many benchmarks: how many cases they draw."""

from __future__ import annotations

import argparse


def number_to_draw(description: str | None, default: int) -> int:
    """Read it from the command line, which `--help` explains by a description."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "number",
        nargs="?",
        type=int,
        default=default,
        help="how many are drawn (default: %(default)s)",
    )
    number: int = parser.parse_args().number
    return number
