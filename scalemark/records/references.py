"""Published and imported figures: with their source, stored beside our own and never mixed with
them.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from importlib.resources import files

from scalemark.records.measurement import IMAGES, check_item
from scalemark.records.validation import LARGEST_INTEGER


class Origin(StrEnum):
    """Where a reference comes from."""

    PUBLISHED = "published"  # curated, comes with scalemark
    ADDED = "added"  # by `python -m store reference add`
    TF_CNN_BENCHMARKS = "tf_cnn_benchmarks"  # one of its logs
    MLPERF = "mlperf"  # a log of MLPerf training


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One figure that others measured. Text attributes are as the source tells them: `?` marks what
    it leaves in doubt, empty is what it does not tell at all. Raises ValueError for what no source
    can have measured."""

    origin: str  # an Origin
    source: str  # short name, as in charts
    citation: str  # where it can be looked up
    hardware: str
    model: str
    batch_size: int | None  # per GPU; none where the source does not tell
    data: str
    variable_update: str
    all_reduce: str
    local_parameter_device: str
    precision: str  # +XLA where the source compiled with it
    num_gpus: int
    throughput: float
    evidence: str  # how sure we are that the source says so
    note: str = ""
    item: str = IMAGES  # what is counted per second

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, str):
                _check_text(field.name, value)
        if self.origin not in list(Origin):
            raise ValueError(f"origin={self.origin!r}: wanted one of {', '.join(Origin)}")
        for name in ("source", "citation"):
            if not getattr(self, name).strip(" ?"):
                raise ValueError(
                    f"{name}={getattr(self, name)!r}: wanted one that others can look up"
                )
        for name in ("hardware", "model"):
            if not getattr(self, name).strip():
                raise ValueError(f"{name} is empty; write ? when it is not known")
        check_item(self.item)
        _check_count("num_gpus", self.num_gpus)
        if self.batch_size is not None:
            _check_count("batch_size", self.batch_size)
        if not 0 < self.throughput < float("inf"):
            raise ValueError(f"throughput={self.throughput}: wanted a finite number greater than 0")

    @property
    def key(self) -> str:
        """Digest of all fields: the same figure of the same source is stored once."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceFilter:
    """Which references are wanted; None wants all."""

    model: str | None = None  # its name; found also where the source leaves it in doubt
    hardware: str | None = None  # part of it
    source: str | None = None  # part of it
    origin: Origin | None = None
    num_gpus: int | None = None

    def wants(self, reference: Mapping[str, object]) -> bool:
        """The fields of a reference as a mapping. Case does not matter: databases disagree about
        it, so none is asked.
        """
        return (
            (
                self.model is None
                or str(reference["model"]).casefold().rstrip("?")
                == self.model.casefold().rstrip("?")
            )
            and (
                self.hardware is None
                or self.hardware.casefold() in str(reference["hardware"]).casefold()
            )
            and (
                self.source is None or self.source.casefold() in str(reference["source"]).casefold()
            )
            and (self.origin is None or reference["origin"] == self.origin)
            and (self.num_gpus is None or reference["num_gpus"] == self.num_gpus)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A row, line or file that an import left out."""

    where: str  # as "results.csv line 12"
    reason: str  # what was found, and what was wanted


def published() -> list[Reference]:
    """The figures that come with scalemark, in the order of their file."""
    text = files("store").joinpath("published", "throughput.csv").read_text(encoding="utf-8")
    return [_from_row(row) for row in csv.DictReader(io.StringIO(text, newline=""))]


def _from_row(row: dict[str, str]) -> Reference:
    return Reference(
        origin=Origin.PUBLISHED.value,
        source=row["source"],
        citation=row["citation"],
        hardware=row["hardware"],
        model=row["model"],
        batch_size=int(row["batch_size"]) if row["batch_size"] else None,
        data=row["data"],
        variable_update=row["variable_update"],
        all_reduce=row["all_reduce"],
        local_parameter_device=row["local_parameter_device"],
        precision=row["precision"],
        num_gpus=int(row["num_gpus"]),
        throughput=float(row["throughput"]),
        evidence=row["evidence"],
        note=row["note"],
    )


_PASSWORD = re.compile(r"://[^/\s@]*:[^/\s@]+@")


def _check_count(name: str, count: int) -> None:
    if not 1 <= count <= LARGEST_INTEGER:
        raise ValueError(
            f"{name}={count}: wanted 1 or more"
            + (f", up to {LARGEST_INTEGER}" if count > 1 else "")
        )


def _check_text(name: str, text: str) -> None:
    """Everything is welcome that both databases can hold, and that tells no secret."""
    if "\x00" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise ValueError(f"{name} has a character that is no text; wanted Unicode without NUL")
    if _PASSWORD.search(text):
        raise ValueError(f"{name} has an address with a password in it; leave the password out")
