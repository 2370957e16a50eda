"""A box of GPUs as the cost model knows it, and the profiles that describe boxes: a file each in
`conf/hardware/`, below its key `profile`, with the source of each figure as a comment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from scalemark.records.validation import checked
from scalemark.text.wording import did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """Rates are of one GPU, in one direction, by large copies, unless a comment says otherwise."""

    name: str  # of the profile
    gpu: str  # as NVML would name it
    num_gpus: int
    memory_gib: float
    compute_capability: str
    tflops: dict[str, float]  # precision -> peak, dense; without a precision it cannot be had
    memory_gb_per_s: float  # of the GPU's own memory
    clock_mhz: float | None = None  # the highest it runs at; None = not known
    pcie_gb_per_s: float  # between a GPU and its host
    gpus_per_switch: int  # GPUs that share one uplink to their host bridge; 1 = none share
    num_sockets: int = 2  # GPUs are spread evenly over them, lowest numbers first
    # between two CPU sockets; None = not known, an error where it is needed
    socket_gb_per_s: float | None = None
    # bus bandwidth of a ring over all NVLinks of a GPU; None = no NVLink
    nvlink_gb_per_s: float | None = None
    # so many GPUs reach each other directly by NVLink; of DGX-1 4, with a switch all
    nvlink_clique: int = 0
    host_memory_gb_per_s: float  # of all sockets together, reads and writes
    host_sum_gb_per_s: float  # of gradients that the CPUs add up, bytes read
    num_cores: int
    host_memory_gib: float
    launch_us: float = 8.0  # of one kernel, from TensorFlow's executor
    copy_us: float = 15.0  # of one small copy between devices
    # of a ring, per GPU that is passed: NCCL's Simple protocol on PCIe; 3.4 on NVLink
    hop_us: float = 5.7
    decode_images_per_s_per_core: float = 110.0  # JPEG of 500 x 375 px, decoded and distorted

    def __post_init__(self) -> None:
        if not 1 <= self.num_gpus <= MOST_GPUS:
            raise ValueError(f"{self.name}: num_gpus={self.num_gpus}: wanted 1 to {MOST_GPUS}")
        figures = asdict(self)
        for precision, peak in self.tflops.items():
            figures[f"tflops.{precision}"] = peak
        for name, value in figures.items():
            least = 0.0 if name in _MAY_BE_0 else 1e-3
            if isinstance(value, int | float) and not least <= value <= _MOST:
                raise ValueError(f"{self.name}: {name}={value:g}: wanted {least:g} to {_MOST:g}")
        if self.nvlink_gb_per_s and self.nvlink_clique < 2:
            raise ValueError(
                f"{self.name}: nvlink_gb_per_s without nvlink_clique: how many GPUs reach "
                "each other directly?"
            )

    @property
    def gpus_per_socket(self) -> int:
        return -(-self.num_gpus // self.num_sockets)

    @property
    def is_mesh(self) -> bool:
        """Each pair of GPUs has NVLinks of its own; a switch gives all of a GPU's links to any."""
        return self.nvlink_gb_per_s is not None and self.nvlink_clique < self.num_gpus

    def to_json(self) -> str:
        """Return canonical JSON: equal hardware gives equal text."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Hardware:
        """Read a profile; whole numbers do where others are wanted.

        Raises ValueError, naming the keys, when keys are missing or unknown, or are no numbers
        where these are wanted.
        """
        if isinstance(values, dict):  # older databases have it, and nothing reads it
            values = {name: values[name] for name in values if name != "usd_per_gpu_hour"}
        try:
            # Equal hardware has equal JSON, whether a figure was written as 16 or as 16.0.
            made = checked(cls, values)
        except ValueError as error:
            raise ValueError(f"not a hardware profile: {error}") from None
        return cls(**made)

    @classmethod
    def from_json(cls, text: str) -> Hardware:
        return cls.from_values(json.loads(text))


MOST_GPUS = 256
"""In one box: 16 times the largest that was sold, and a machine has a link between each two."""

_MOST = 1e6  # of any figure: beyond is a slip of units
_MAY_BE_0 = ("launch_us", "copy_us", "hop_us", "nvlink_clique")


FOLDER = Path(__file__).resolve().parent.parent.parent / "conf" / "hardware"
_ENDING = ".yaml"
_OF_MACHINES = ("auto", "cpu", "gpu")  # files there of machines that exist


class ProfileError(ValueError):
    """Raised for a file that is no profile, and for an unknown name; the message says what is
    wrong, or which profiles there are.
    """


@cache
def profiles() -> tuple[str, ...]:
    """Return the names of those that ship."""
    names = {path.stem for path in FOLDER.glob(f"*{_ENDING}")}
    return tuple(sorted(names.difference(_OF_MACHINES)))


@cache
def profile(name: str) -> Hardware:
    """Read a profile that ships. Raises ProfileError."""
    if name not in profiles():
        hint = did_you_mean(name, profiles(), f"there are {', '.join(profiles())}")
        raise ProfileError(f"hardware={name}: no such profile; {hint}")
    file = FOLDER / f"{name}{_ENDING}"
    try:
        return Hardware.from_values(yaml.safe_load(file.read_text(encoding="utf-8"))["profile"])
    except (OSError, KeyError, ValueError, TypeError, yaml.YAMLError) as error:
        shown = " ".join(str(error).split())
        raise ProfileError(f"conf/hardware/{file.name}: {shown}; mend this file") from None


def overrides_of(hardware_profile: str) -> tuple[str, ...]:
    """Return the overrides that simulate this hardware (JSON) with `sweep.py`.

    They name the profile, and in what the hardware differs from the file so named.
    """
    box = asdict(Hardware.from_json(hardware_profile))
    overrides = ["engine=simulated", f"hardware={box['name']}"]
    if box["name"] not in profiles():
        return tuple(overrides)
    shipped = asdict(profile(box["name"]))
    peaks, shipped_peaks = box.pop("tflops"), shipped.pop("tflops")
    changed = {name: value for name, value in box.items() if value != shipped[name]}
    for precision, peak in peaks.items():
        if peak != shipped_peaks.get(precision):
            changed[f"tflops.{precision}"] = peak
    for name, value in changed.items():
        overrides.append(f"hardware.profile.{name}={json.dumps(value)}")
    gone = [precision for precision in shipped_peaks if precision not in peaks]
    return (*overrides, *(f"~hardware.profile.tflops.{precision}" for precision in gone))
