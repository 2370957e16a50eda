"""Who made a number: this program, or somebody whose published figure it is."""

from __future__ import annotations  # the types of fields are compared as text

import csv
import hashlib
import io
import json
import re
from dataclasses import dataclass, field, fields
from enum import StrEnum
from importlib.resources import files
from typing import Any

from scalemark.records.axes import free_axes, name_in_records
from scalemark.records.measurement import FASTEST, IMAGES, SLOWEST, check_item
from scalemark.records.validation import LARGEST_INTEGER, check_type


class ReferenceKind(StrEnum):
    """The way by which a reference came into the database: the column `origin` of references."""

    PUBLISHED = "published"  # curated, comes with scalemark
    ADDED = "added"  # from a log or table with a citation
    TABLE = "table"  # a row of somebody's own numbers: measured elsewhere, and published nowhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One figure that others measured. Text is as in the source: `?` marks what it leaves in doubt,
    and empty is what it does not say. Raises ValueError for what no source can have measured.
    """

    origin: str  # a ReferenceKind
    source: str  # short name, as in charts
    citation: str  # where it can be looked up
    hardware: str
    model: str
    batch_size: int | None  # per GPU; None where the source does not say
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
    hosts: int | None = None  # that share the GPUs; None where the source does not say
    # free ones, by name without the prefix; of a figure that comes with scalemark, our own
    axes: dict[str, Any] = field(default_factory=dict)
    compare: str = ""  # the free axis that plays the part of the strategy; empty: all do
    repeat: int = 1  # counted from 1 over rows of a table that say the same, throughput included

    def __post_init__(self) -> None:
        for name in _TEXTS:
            text = getattr(self, name)
            check_type(str, text, name)
            if _PASSWORD.search(text):
                raise ValueError(
                    f"{name} has an address with a password in it; leave the password out"
                )
        if self.origin not in _ORIGINS:
            raise ValueError(f"origin={self.origin!r}: wanted one of {', '.join(ReferenceKind)}")
        for name in ("source",) if self.origin == ReferenceKind.TABLE else ("source", "citation"):
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
        if self.hosts is not None:
            _check_count("hosts", self.hosts)
            if self.num_gpus % self.hosts:
                raise ValueError(
                    f"hosts={self.hosts} num_gpus={self.num_gpus}: num_gpus counts the GPUs of all "
                    f"hosts; wanted a multiple of {self.hosts}"
                )
        _check_count("repeat", self.repeat)
        if self.axes:
            named = free_axes(self.axes)
            own = {name_in_records(name): value for name, value in named}
            object.__setattr__(self, "axes", own)
        if not SLOWEST <= self.throughput <= FASTEST:
            raise ValueError(
                f"throughput={self.throughput}: wanted a number from {SLOWEST:g} to {FASTEST:g}, "
                "in items per second"
            )

    @property
    def key(self) -> str:
        """Return a digest of all fields but `origin`: the same figure is stored once."""
        values = self.values
        del values["origin"]
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def values(self) -> dict[str, Any]:
        """Return all fields by name."""
        return {name: getattr(self, name) for name in _NAMES}


_NAMES = tuple(each.name for each in fields(Reference))
_TEXTS = tuple(each.name for each in fields(Reference) if each.type == "str")
# the last two: of older databases
_ORIGINS = frozenset((*ReferenceKind, "tf_cnn_benchmarks", "mlperf"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A row, line or file that an import left out."""

    where: str  # as "results.csv line 12"
    reason: str  # what was found, and what was wanted


def published() -> list[Reference]:
    """Return the figures that come with scalemark, in the order of their files."""
    return [*_shipped("throughput.csv"), *_shipped("held_out.csv")]


def _shipped(name: str) -> list[Reference]:
    """Read a file of figures; columns that no reference has are axes of the trial."""
    text = files("store").joinpath("published", name).read_text(encoding="utf-8")
    references = []
    for row in csv.DictReader(io.StringIO(text, newline="")):
        values: dict[str, Any] = {field: row[field] for field in _NAMES if field in row}
        values["batch_size"] = int(row["batch_size"]) if row["batch_size"] else None
        values["num_gpus"] = int(row["num_gpus"])
        values["throughput"] = float(row["throughput"])
        values["axes"] = {axis: value for axis, value in row.items() if axis not in _NAMES}
        reference = Reference(origin=ReferenceKind.PUBLISHED.value, **values)
        references.append(reference)
    return references


_PASSWORD = re.compile(r"://[^/\s@]*:[^/\s@]+@")


def _check_count(name: str, count: int) -> None:
    if not 1 <= count <= LARGEST_INTEGER:
        raise ValueError(f"{name}={count}: wanted 1 or more, up to {LARGEST_INTEGER}")


class Origin(StrEnum):
    """The maker of a number."""

    MEASURED = "measured"  # by scalemark
    SIMULATED = "simulated"  # computed by scalemark from a hardware profile: no measurement
    PUBLISHED = "published"  # by others, with a source: comes with scalemark, or was added
    ELSEWHERE = "elsewhere"  # by another program: rows of a table that was taken in

    @property
    def is_ours(self) -> bool:
        """Say whether scalemark made it: a trial with all its axes, attempts and repeats."""
        return self in ORIGINS_OF_ATTEMPTS


ORIGINS_OF_ATTEMPTS = (Origin.MEASURED, Origin.SIMULATED)
