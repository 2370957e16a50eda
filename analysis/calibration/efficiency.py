"""How much of a GPU's peak convolutions are expected to reach, before any row of the box is seen.

`efficiency.csv` has the logarithms of factors of one share, by what is known of a trial:

    log share = base + generation of the GPU + precision + both + XLA + model
              + framework + framework and precision + years of the software

`python -m benchmarks.fit_efficiency` fits them to published figures. Networks that are mostly
products of matrices reach more, by other sources (`costs.step`), and none of these factors is
theirs.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from costs.hardware import Hardware
from costs.memory import is_half
from costs.networks import Network
from costs.step import has_tensor_cores
from costs.work import Work

PRODUCTS = 0.5
"""The share of networks that are mostly products of matrices."""

_MOSTLY = 0.5  # of a network's FLOPs
_GENERATIONS = {
    "3": "Kepler",
    "5": "Maxwell",
    "6": "Pascal",
    "7": "Volta",
    "8": "Ampere",
    "9": "Hopper",
}
"""By the first number of the compute capability."""

FIRST_YEAR = 2018  # years are counted from it

Term = tuple[str, str]
"""A factor by what it is of, as `("model", "vgg16")`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """The software of a figure, which decides how well tensor cores are fed."""

    framework: str
    year: int


OURS = Software(framework="TensorFlow", year=2020)
"""Whoever reports no software is taken to use it. No figure of TensorFlow that was fitted is newer.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """The fitted factors, and the software of the figures that are to be predicted."""

    logs: Mapping[Term, float]
    software: Software = OURS

    @property
    def start(self) -> float:
        """Return how often a kernel takes as long as its launch, whatever the batch."""
        return math.exp(self.logs["start", ""])

    def share(self, work: Work, hardware: Hardware) -> float:
        """Return the share of the peak that is expected; what was not seen changes nothing."""
        if is_mostly_products(work.network):
            return PRODUCTS
        wanted = terms(work, hardware, self.software)
        return math.exp(sum(self.logs.get(term, 0.0) * num for term, num in wanted.items()))


def is_mostly_products(network: Network) -> bool:
    return network.product_share > _MOSTLY


def terms(work: Work, hardware: Hardware, software: Software) -> dict[Term, float]:
    """Return the factors of a trial, and how often each counts."""
    precision = "half" if is_half(work.precision) else work.precision
    generation = _GENERATIONS.get(hardware.compute_capability.partition(".")[0], "other")
    cores = "tensor cores" if has_tensor_cores(hardware, work.precision) else "ordinary cores"
    found: dict[Term, float] = {
        ("base", ""): 1.0,
        ("generation", generation): 1.0,
        ("precision", precision): 1.0,
        ("generation and precision", f"{generation} {precision}"): 1.0,
        ("model", work.network.name.removesuffix("_v1.5")): 1.0,
        ("years", cores): float(software.year - FIRST_YEAR),
    }
    if software.framework != OURS.framework:
        found["framework", software.framework] = 1.0
        found["framework and precision", f"{software.framework} {precision}"] = 1.0
    if work.xla:
        found["XLA", ""] = 1.0
    return found


@cache
def fitted() -> Efficiency:
    """Read the factors that come with scalemark."""
    text = files("analysis.calibration").joinpath("efficiency.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(io.StringIO(text, newline=""))
    return Efficiency(logs={(row["of"], row["value"]): float(row["log"]) for row in rows})
