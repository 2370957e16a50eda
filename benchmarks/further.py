"""Published figures that no database has, which check predictions alone."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from scalemark.records.references import Reference, ReferenceKind


def further() -> list[dict[str, Any]]:
    """Read them in the form of the figures that every database has."""
    text = files("benchmarks").joinpath("further_throughput.csv").read_text(encoding="utf-8")
    found = []
    for row in csv.DictReader(io.StringIO(text, newline="")):
        values: dict[str, Any] = dict(row)
        values |= {"batch_size": int(row["batch_size"]), "num_gpus": int(row["num_gpus"])}
        values["throughput"] = float(row["throughput"])
        found.append(asdict(Reference(origin=ReferenceKind.ADDED.value, **values)))
    return found
