"""Reads the figure of a log of another program, with the readers of own programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from scalemark.readers.log_text import LogError, log_text
from scalemark.readers.reading import ReadError, Reading
from scalemark.readers.search import Found, readings_of, search
from scalemark.records.references import Reference, ReferenceKind
from store.exchange.foreign_columns import DEFAULTS, ImportOptions, constants_of

NEEDED = ("source", "citation", "hardware", "model", "num_gpus")
"""What no log says of itself, or none that every reader reads."""

_AGREE = 1.05  # processes of one run print totals that differ by less


def reference_of(path: Path, said: ImportOptions) -> Reference:
    """Return the figure of a log. Raises ValueError where the log and the options leave it open."""
    found = _found(path, said.read)
    throughput, evidence = _throughput(found.readings)
    constants, axes = constants_of(said)
    wanted = constants.pop("item", "")
    item = found.item or wanted
    if not item:
        raise ValueError(f"{evidence}, of what is not known: say what is counted with --item")
    if wanted not in ("", item):
        raise ValueError(f"the log counts {item}; wanted --item {item}, or another --read")
    num_gpus = constants["num_gpus"]
    per_gpu = found.per_gpu if said.per_gpu is None else said.per_gpu
    if per_gpu is None and num_gpus > 1:
        raise ValueError(
            f"found {throughput:.6g} {item}/s, of one GPU or of all {num_gpus}: "
            "say it with --per-gpu or --all-gpus"
        )
    evidence = f"log, read by {found.read.partition(':')[0]}: {evidence}"
    values = {**DEFAULTS, "evidence": evidence, **constants}
    return Reference(
        **values,
        origin=ReferenceKind.ADDED.value,
        throughput=throughput * num_gpus if per_gpu else throughput,
        item=item,
        axes=axes,
    )


def _found(path: Path, read: str) -> Found:
    try:
        lines = log_text(path).lines
        if read:
            return Found(read=read, readings=readings_of(read, lines, None))
    except (LogError, ReadError) as error:
        raise ValueError(str(error)) from error
    result = search(lines)
    if result.is_unsure:
        labels = ", ".join(fit.candidate.label for fit in result.fits if fit.candidate)
        raise ValueError(f"nothing says which of {labels} is the speed; choose with --read")
    for found in result.fits:
        if found.has_throughput:
            return found
    raise ValueError(
        "no reader finds items per second in it; `scalemark read` shows what it has, and "
        "--read takes a pattern"
    )


def _throughput(readings: Sequence[Reading]) -> tuple[float, str]:
    """Return items/s and how it is known: the total of the run, else its mean, else a median."""
    rated = [reading for reading in readings if reading.throughput is not None]
    totals = [reading.throughput for reading in rated if reading.is_total and reading.throughput]
    rates = [reading.throughput for reading in rated if reading.throughput]
    if not rates:
        raise ValueError("no rate in it; wanted items per second above 0")
    if totals:
        if max(totals) > _AGREE * min(totals):
            raise ValueError(
                f"{len(totals)} totals, from {min(totals):.6g} to {max(totals):.6g}; wanted one "
                "run: give each a file of its own"
            )
        return median(totals), "total of the run"
    if rated[-1].is_mean:
        return rates[-1], "mean at its end"
    return median(rates), f"median of {len(rates)} rates"
