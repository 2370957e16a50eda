"""`scalemark read LOG`: which reader reads a log, and the line of configuration for it."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from textwrap import fill

from scalemark.cli import entry_point

if __name__ == "__main__":
    entry_point.loading()

from scalemark.readers.found import Found, search
from scalemark.readers.log_text import LogError, LogText, log_text, logs_below
from scalemark.readers.opening import KINDS, about
from scalemark.readers.reading import Reading
from scalemark.text.untrusted import quoted, visible

FOUND, NOTHING, UNREADABLE = 0, 1, 2
LAST_LINES = 20
_MOST_LOGS = 5
_MOST_SHOWN = 300  # characters of a line


def main(
    arguments: Sequence[str] | None = None, *, program: str = "python -m scalemark.readers"
) -> int:
    """Return 0 where a reader reads the log, 1 where none does, 2 where it is no text."""
    asked = _asked(arguments, program)
    path: Path = asked.log
    try:
        text = log_text(path)
    except LogError as error:
        why = f"{quoted(str(path))} cannot be read: {error}"
        if asked.json:
            print(json.dumps({"error": why}, indent=1))
        print(f"{program}: {why}", file=sys.stderr)
        return UNREADABLE
    found = search(text.lines, path if path.is_dir() else None)
    if asked.json:
        print(json.dumps(_as_json(path, text, found), indent=1))
    elif found:
        print(_told(path, text, found))
    if not found:
        print(f"{program}: {_nothing(path, text)}", file=sys.stderr)
    return FOUND if found else NOTHING


def overrides(found: Found) -> str:
    """Return the settings as arguments of `scalemark sweep`, quoted for a shell."""
    settings = dict(found.settings)
    read = settings.pop("read")
    said = [f"command.{name}={value}" for name, value in settings.items()]
    return shlex.join([f"read={read}", *said])


def _asked(arguments: Sequence[str] | None, program: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Tries all readers on the output of a training program, as train.log of\n"
        "`python train.py > train.log`, and prints the arguments of scalemark sweep that read it.\n"
        "Exits with 1 where none does.",
        epilog="\n".join(["readers:", *map(_about, KINDS)]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "log", type=Path, metavar="LOG", help="a file, or a folder with what a program left"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args(arguments)


def _about(kind: str) -> str:
    said = fill(about(kind), 96, initial_indent="  ", subsequent_indent="    ")
    return said.replace("%", "%%")


def _told(path: Path, text: LogText, found: Sequence[Found]) -> str:
    rows = [("reader", "readings", "first", "last", "item", "per GPU")]
    for one in found:
        shown = one.rated or list(one.readings)
        rows.append(
            (
                _short(one.read),
                str(len(shown)),
                _shown(shown[0]),
                _shown(shown[-1]),
                one.item or "-",
                {True: "yes", False: "no", None: "-"}[one.per_gpu],
            )
        )
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([_headline(path, text), "", *lines, "", *_advice(found[0])])


def _headline(path: Path, text: LogText) -> str:
    lines = "line" if len(text.lines) == 1 else "lines"
    said = f"{quoted(str(path))}: {len(text.lines):,} {lines}"
    return (
        said if text.is_whole else f"{said}, of the begin and the end of {text.num_bytes:,} bytes"
    )


def _advice(best: Found) -> list[str]:
    said = [overrides(best)]
    if best.num_unusable:
        unusable = next(reading.unusable for reading in best.readings if reading.unusable)
        said.append(
            f"{best.num_unusable} of {len(best.readings)} readings have no usable rate, "
            f"as {unusable!r}"
        )
    if best.counts_items:
        said.append(
            f"the log seems to count {best.item} in place of steps: where each GPU counts its own, "
            "set command.items_per_step=num_gpus"
        )
    elif not best.has_throughput:
        said.append(
            "the log has steps and no items per second: "
            "add command.items_per_step, as command.items_per_step=batch_size*num_gpus"
        )
    return said


def _shown(reading: Reading) -> str:
    said = [] if reading.step is None else [f"step {reading.step:,}"]
    if reading.throughput is not None:
        said.append(f"{reading.throughput:,.6g}/s")
    elif reading.step_s is not None:
        said.append(f"{reading.step_s:.4g} s/step")
    return " ".join(said) or reading.unusable or "-"


def _short(read: str) -> str:
    kind, colon, _ = read.partition(":")
    return f"{kind}:..." if colon else kind


def _nothing(path: Path, text: LogText) -> str:
    lines = [f"{quoted(str(path))} has no lines; wanted the output of a training program"]
    if text.lines:
        last = [visible(line[:_MOST_SHOWN]) for line in text.lines[-LAST_LINES:]]
        lines = [
            f"no reader found a rate in {quoted(str(path))}; write a pattern for a line of it, as "
            "read=regex:img/s ([0-9.]+), or let the program print METRIC throughput=123.4. "
            f"Its last {len(last)} lines:",
            *(f"  {line}" for line in last),
        ]
    # a folder is read without its folders, which may be other runs
    if deeper := list(islice(logs_below(path), _MOST_LOGS)):
        lines.append("There are logs in folders of it; read one of these:")
        lines += [f"  {quoted(str(log))}" for log in deeper]
    return "\n".join(lines)


def _as_json(path: Path, text: LogText, found: Sequence[Found]) -> dict[str, object]:
    return {
        "log": str(path),
        "lines": len(text.lines),
        "is_whole": text.is_whole,
        "proposed": found[0].settings if found else None,
        "overrides": overrides(found[0]) if found else None,
        "found": [
            {
                "read": one.read,
                "readings": len(one.readings),
                "unusable": one.num_unusable,
                "item": one.item or None,
                "per_gpu": one.per_gpu,
                "first": _entry((one.rated or one.readings)[0]),
                "last": _entry((one.rated or one.readings)[-1]),
            }
            for one in found
        ],
    }


def _entry(reading: Reading) -> dict[str, object]:
    return {
        "throughput": reading.throughput,
        "step": reading.step,
        "step_s": reading.step_s,
        "is_total": reading.is_total,
        "is_mean": reading.is_mean,
    }


if __name__ == "__main__":
    sys.exit(entry_point.run(main))
