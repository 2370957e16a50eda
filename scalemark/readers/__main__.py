"""`scalemark read LOG`: which numbers of a log say how fast it trains, and the setting for them."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill

from scalemark.cli import entry_point

if __name__ == "__main__":
    entry_point.loading()

from scalemark.cli.terminal import (
    READING_WIDTH,
    make_console,
    print_columns,
    print_json,
    reader_may_leave,
)
from scalemark.readers.log_text import OUTPUT_FILE, LogError, LogText, log_text
from scalemark.readers.opening import FASTEST_STEP_S, KINDS, Reading, about
from scalemark.readers.search import FIRST_LINES, LAST_LINES, FoundReader, Search, search
from scalemark.text.untrusted import quoted, visible
from scalemark.text.wording import counted

READ, NOTHING, UNREADABLE = 0, 1, 2
_SHOWN_LINES = 20  # of a log in which nothing is found
_MOST_ROWS = 8
_MOST_SHOWN = 300  # characters of a line
_ABOUT = (
    "Finds what says how fast a program trains in its output, as train.log of `python train.py > "
    "train.log`, and prints the arguments of scalemark sweep that read it. Exits with 1 where "
    "nothing says so, or where several numbers may be the speed. Tokens and samples of the same "
    "steps both may: one is proposed, and how to count the other."
)
_OF_SWEEPS = (
    "`scalemark read --sweep SWEEP SETTING...` reads the kept logs of a sweep another way: "
    "read=..., item=tokens, items_per_step=64*num_gpus, per_gpu=true. Others stay as they were."
)
_SOURCES = (".py", ".ipynb", ".sh")
_COLUMNS = ("reader", "number", "readings", "first", "last", "item", "of")


def main(
    arguments: Sequence[str] | None = None, *, program: str = "python -m scalemark.readers"
) -> int:
    """Return 0 where one number is the speed, 1 where none or several may be, 2 for no text."""
    if sys.stdout is None:
        print(f"{program}: there is no standard output to write to", file=sys.stderr)
        return UNREADABLE
    asked = _asked(arguments, program)
    path: Path = asked.log
    try:
        if path.suffix in _SOURCES and path.is_file():
            raise LogError(
                "found the source of a program; wanted what it prints, as train.log of "
                "`python train.py > train.log 2>&1`"
            )
        text = log_text(path)
    except LogError as error:
        why = f"{quoted(str(path))} cannot be read: {error}"
        if asked.json:
            print_json({"error": why})
        print(f"{program}: {why}", file=sys.stderr)
        return UNREADABLE
    result = search(text.lines, path)
    with reader_may_leave():
        if asked.json:
            print_json(_as_json(path, text, result))
        elif result.fits:
            _print_fits(path, text, result)
        sys.stdout.flush()
    if not result.fits:
        print(f"{program}: {_nothing(path, text)}", file=sys.stderr)
    return READ if result.fits and not result.is_unsure else NOTHING


def _asked(arguments: Sequence[str] | None, program: str) -> argparse.Namespace:
    width = min(READING_WIDTH, get_terminal_size().columns)
    readers = [
        fill(about(kind), width, initial_indent="  ", subsequent_indent="    ") for kind in KINDS
    ]
    parser = argparse.ArgumentParser(
        prog=program,
        description=fill(_ABOUT, width),
        epilog="\n".join([fill(_OF_SWEEPS, width), "\nreaders:", *readers]).replace("%", "%%"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "log",
        type=Path,
        metavar="LOG",
        help="a file, or a run folder: its log.txt, and files of results",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked, others = parser.parse_known_args(arguments)
    if others:
        parser.error(
            f"unrecognized arguments: {' '.join(others)}; a reader is a setting of a sweep, as "
            "`scalemark sweep command=... read=...`, and of the logs that one kept: `scalemark "
            "read --sweep SWEEP read=...`"
        )
    return asked


def _print_fits(path: Path, text: LogText, result: Search) -> None:
    headline = f"{quoted(str(path))}: {counted(len(text.lines), 'line')}"
    if not text.is_whole:
        headline += f", of the begin and the end of {text.num_bytes:,} bytes"
    print(f"{headline}\n")
    print_columns(make_console(), _COLUMNS, map(_row, result.fits[:_MOST_ROWS]))
    if result.is_sampled:
        print(
            f"\nthe first reads all lines, the others the first {FIRST_LINES:,} and the last "
            f"{LAST_LINES:,}"
        )
    if result.others:
        labels = [f"{other.name or 'a number'} ({other.role.aside})" for other in result.others]
        print(f"\nleft out, as rates of something else: {', '.join(labels[:_MOST_ROWS])}")
    print("", *_advice(result), sep="\n")


def _row(fit: FoundReader) -> tuple[str, ...]:
    kind, colon, _ = fit.read.partition(":")
    return (
        f"{kind}:..." if colon else kind,
        quoted(fit.candidate.name, 40) if fit.candidate and fit.candidate.name else "-",
        str(len(fit.shown)),
        _shown(fit.shown[0]),
        _shown(fit.shown[-1]),
        fit.item or "-",
        {True: "one GPU", False: "all GPUs", None: "-"}[fit.per_gpu],
    )


def _advice(result: Search) -> list[str]:
    best = result.fits[0]
    said = [best.overrides]
    if result.is_unsure:
        others = ", ".join(quoted(label, 40) for label in best.like)
        label = best.candidate.name if best.candidate else "it"
        said = [f"nothing says whether {label} or {others} is the speed of training; choose:"]
        said += [fit.overrides for fit in result.choices]
    elif best.candidate:
        for fit in result.fits[1:]:
            is_alike = fit.candidate and fit.candidate.class_ == best.candidate.class_
            if is_alike and fit.item != best.item:
                said.append(f"to count {fit.item} instead: {fit.overrides}")
    if result.num_ranks > 1 and best.has_throughput and best.per_gpu is None:
        said.append(
            f"{result.num_ranks} ranks print it; where each counts its own items, add "
            "command.per_gpu=true"
        )
    if best.file:
        said.append(
            f"{best.file} is a file of results: let the program write it below {{run_dir}}, and "
            "give its path from there"
        )
    unusable = [reading.unusable for reading in best.readings if reading.unusable]
    if unusable:
        said.append(
            f"{len(unusable)} of {len(best.readings)} readings have no usable rate, "
            f"as {unusable[0]!r}"
        )
    if num_before := best.readings[-1].steps_before:
        said.append(
            f"steps begin anew, last after {num_before:,}, which is taken for an epoch; where "
            "another rank, run or batch size begins there, read a log of each"
        )
    fastest_s = min((reading.step_s for reading in best.rated if reading.step_s), default=1.0)
    if "items_per_step" in best.settings:
        said.append(
            f"the log seems to count {best.item} in place of steps: where each GPU counts its own, "
            "set command.items_per_step=num_gpus"
        )
    elif fastest_s < FASTEST_STEP_S:
        said.append(
            f"{1 / fastest_s:,.0f} steps per second may be items, as environment steps: where they "
            "are, add command.items_per_step=1"
        )
    elif not best.has_throughput and not any(reading.items_per_step for reading in best.readings):
        said.append(
            "the log has steps and no items per second: "
            "add command.items_per_step, as command.items_per_step=batch_size*num_gpus"
        )
    return said


def _shown(reading: Reading) -> str:
    said = "" if reading.step is None else f"step {reading.step:,} "
    if reading.throughput is not None:
        said += f"{reading.throughput:,.6g}/s"
    elif reading.step_s is not None:
        said += f"{reading.step_s:.4g} s/step"
    if reading.is_mean and reading.has_rate:
        said += " (mean)"
    return said.strip() or reading.unusable or "-"


def _nothing(path: Path, text: LogText) -> str:
    shown = quoted(str(path))
    if text.lines:
        last = text.lines[-_SHOWN_LINES:]
        why = (
            f"no reader found a rate in {shown}; write a pattern for a line of it, as "
            "read=regex:img/s ([0-9.,]+), or let the program print METRIC throughput=123.4. "
            f"Its last {len(last)} lines:"
        )
        return "\n  ".join([why, *(visible(line[:_MOST_SHOWN]) for line in last)])
    if path.is_dir():
        return (
            f"{shown} has neither lines in {OUTPUT_FILE} nor a file of results that a reader "
            "knows; give the path of the log itself"
        )
    if not text.is_whole:
        return (
            f"{shown} is one line of {text.num_bytes:,} bytes, as far as it was looked at; wanted "
            "the output of a training program, which ends lines"
        )
    return f"{shown} has no lines; wanted the output of a training program"


def _as_json(path: Path, text: LogText, result: Search) -> dict[str, object]:
    best = result.fits[0] if result.fits and not result.is_unsure else None
    return {
        "log": str(path),
        "lines": len(text.lines),
        "is_whole": text.is_whole,
        "proposed": best.settings if best else None,
        "overrides": best.overrides if best else None,
        "unsure": result.is_unsure,
        "sampled": result.is_sampled,
        "found": list(map(_entry, result.fits)),
        "left_out": [
            {"label": other.name, "of": other.role.aside, "rate": other.usual}
            for other in result.others
        ],
    }


def _entry(fit: FoundReader) -> dict[str, object]:
    names = ("throughput", "step", "step_s", "is_total", "is_mean")
    first, last = ({name: getattr(fit.shown[at], name) for name in names} for at in (0, -1))
    return {
        "read": fit.read,
        "readings": len(fit.readings),
        "unusable": sum(bool(reading.unusable) for reading in fit.readings),
        "item": fit.item or None,
        "per_gpu": fit.per_gpu,
        "first": first,
        "last": last,
    }


if __name__ == "__main__":
    sys.exit(entry_point.run(main))
