"""Reads who published a figure with which software, and figures that no database has."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from analysis.calibration.efficiency import Software
from scalemark.records.references import Origin, Reference


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A source of published figures."""

    publisher: str
    software: Software


@cache
def sources() -> dict[str, Source]:
    """Read the sources by their names."""
    found = {}
    for row in _table("sources.csv"):
        software = Software(framework=row["framework"], year=int(row["year"]))
        found[row["source"]] = Source(publisher=row["publisher"], software=software)
    return found


def further() -> list[dict[str, Any]]:
    """Read the figures that no database has, in the form of those that all have."""
    found = []
    for row in _table("further_throughput.csv"):
        values: dict[str, Any] = dict(row)
        values |= {"batch_size": int(row["batch_size"]), "num_gpus": int(row["num_gpus"])}
        values["throughput"] = float(row["throughput"])
        found.append(asdict(Reference(origin=Origin.ADDED.value, **values)))
    return found


def _table(name: str) -> list[dict[str, str]]:
    text = files("benchmarks").joinpath(name).read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text, newline="")))
