"""Reads the figure of a log of another program, with the readers of own programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from scalemark.readers.found import Found, readings_of, search
from scalemark.readers.log_text import LogError, log_text
from scalemark.readers.reading import ReadError, Reading
from scalemark.records.references import Origin, Reference

NEEDED = ("source", "citation", "hardware", "model", "num_gpus")
"""What no log says of itself, or none that every reader reads."""

_AGREE = 1.05  # processes of one run print totals that differ by less


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSource:
    """What a person says of a log, or of all rows of a table."""

    source: str  # short name, as in charts
    citation: str  # where it can be looked up
    hardware: str
    model: str = ""
    num_gpus: int | None = None
    batch_size: int | None = None  # per GPU
    item: str = ""  # what is counted, as images
    read: str = ""  # the reader of a log, as `scalemark sweep` takes it; empty: the best one
    per_gpu: bool | None = None  # whether a rate is that of one GPU; None: not said

    @property
    def constants(self) -> dict[str, str]:
        """Return what all rows of a table share."""
        values = {name: getattr(self, name) for name in (*NEEDED, "batch_size", "item")}
        return {name: str(value) for name, value in values.items() if value not in ("", None)}


def reference_of(path: Path, log: LogSource) -> Reference:
    """Return the figure of a log. Raises ValueError where the log and the options leave it open."""
    found = _found(path, log.read)
    throughput, evidence = _throughput(found.readings)
    counted = found.item or log.item
    if not counted:
        raise ValueError(f"{evidence}, of what is not known: say what is counted with --item")
    if log.item and log.item != counted:
        raise ValueError(f"the log counts {counted}; wanted --item {counted}, or another --read")
    num_gpus = log.num_gpus or 1
    per_gpu = found.per_gpu if log.per_gpu is None else log.per_gpu
    if per_gpu is None and num_gpus > 1:
        raise ValueError(
            f"found {throughput:.6g} {counted}/s, of one GPU or of all {num_gpus}: "
            "say it with --per-gpu or --all-gpus"
        )
    return Reference(
        origin=Origin.ADDED.value,
        source=log.source,
        citation=log.citation,
        hardware=log.hardware,
        model=log.model,
        batch_size=log.batch_size,
        data="",
        variable_update="",
        all_reduce="",
        local_parameter_device="",
        precision="",
        num_gpus=num_gpus,
        throughput=throughput * num_gpus if per_gpu else throughput,
        evidence=f"log, read by {found.read.partition(':')[0]}: {evidence}",
        item=counted,
    )


def _found(path: Path, read: str) -> Found:
    try:
        lines = log_text(path).lines
        if read:
            return Found(read=read, readings=readings_of(read, lines, None))
    except (LogError, ReadError) as error:
        raise ValueError(str(error)) from error
    for found in search(lines, None):
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
