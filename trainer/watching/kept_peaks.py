"""Keeps measured peaks in the user's cache folder, a file for each kind of device and software."""

from __future__ import annotations

import hashlib
import math
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from scalemark.host.cache_folder import cache_folder
from scalemark.records.validation import JsonRecord, canonical
from scalemark.run_folder.regular_file import read_regular

_MOST_BYTES = 2**16


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakOf(JsonRecord):
    """All that a peak depends on."""

    machine: str  # Machine.key, or the name of the host where a trainer was started by hand
    device: str  # its kind, and of a GPU its name
    num_cores: int  # that the process may run on; 0 of a GPU, to which they do not matter
    num_intra_threads: int  # as the trial has it, 0 = TensorFlow's choice; 0 of a GPU
    num_inter_threads: int  # the same
    precision: str
    software: str  # scalemark.host.software.key

    @property
    def file_name(self) -> str:
        return f"{hashlib.sha256(canonical(asdict(self)).encode()).hexdigest()[:16]}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPeak(JsonRecord):
    """The content of a file."""

    of: PeakOf
    flops_per_s: float

    def __post_init__(self) -> None:
        if not 0 < self.flops_per_s < math.inf:
            raise ValueError(f"flops_per_s={self.flops_per_s}: wanted more than 0")


def read(of: PeakOf) -> float | None:
    """Return a peak in FLOP/s; None where none is kept, or what is kept is damaged or another's."""
    try:
        kept = KeptPeak.from_json(read_regular(_file(of), _MOST_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RuntimeError) as error:
        print(f"the kept peak cannot be used, and is measured again: {error}", file=sys.stderr)
        return None
    return kept.flops_per_s if kept.of == of else None


def write(of: PeakOf, flops_per_s: float) -> None:
    """Keep a peak, whole or not at all; where that is not possible the next trial measures it."""
    try:
        file = _file(of)
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(f".{os.getpid()}")
        draft.write_text(KeptPeak(of=of, flops_per_s=flops_per_s).to_json())
        draft.replace(file)
    except (OSError, RuntimeError) as error:
        print(f"the peak cannot be kept: {error}", file=sys.stderr)


def _file(of: PeakOf) -> Path:
    """Raises RuntimeError for a user without a home."""
    return cache_folder() / "peaks" / of.file_name
