"""What benchmarks share on their command line, and how they print rows of Markdown tables."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path


def parser(
    description: str | None,
    *,
    number: int | None = None,
    only: Iterable[str] = (),
    rounds: str = "",
    writes_json: bool = False,
) -> argparse.ArgumentParser:
    """Return a parser of the usual options: how many are drawn by default, names of questions, what
    a round is, and whether figures can be written to a file.
    """
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if number is not None:
        about = "how many are drawn (default: %(default)s)"
        made.add_argument("number", nargs="?", type=int, default=number, help=about)
    if only:
        about = "one question; may be given several times"
        made.add_argument("--only", action="append", choices=list(only), help=about)
    if rounds:
        made.add_argument("--rounds", type=int, metavar="N", help=rounds)
    if writes_json:
        made.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    return made


def head(*names: str) -> None:
    """Print the head of a table."""
    row(*names)
    row(*("---" for _ in names))


def row(*cells: object) -> None:
    """Print a row, with a space before each % as our tables have it."""
    line = " | ".join(map(str, cells)).replace("%", " %").replace("  %", " %")
    print(f"| {line} |", flush=True)
