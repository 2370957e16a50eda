"""The rates that rows share, as a vector of standard deviations from their priors' medians.

```
 compute   what is expected of GPU, model and precision (`efficiency.py`),
           times one per model, one per precision      link, overlap, host_s   one per strategy
 start     one per kind of layers
 latency, across, sockets, sync, board, input, feed    one for the environment
```
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from analysis.calibration import priors
from analysis.calibration.efficiency import (
    PRODUCTS,
    Efficiency,
    fitted,
    is_mostly_products,
)
from analysis.calibration.priors import Prior
from analysis.calibration.row import Row
from costs.hardware import Hardware
from costs.memory import is_half
from costs.step import OWN_PROCESSES, Rates

Floats = NDArray[np.float64]
Key = tuple[str, ...]

MEMORY = 0.7 / PRODUCTS
"""Share of the memory bandwidth over that of the peak: both are used alike well or badly."""

_OF_ALL: dict[str, Prior] = {
    "latency": priors.LATENCY,
    "across": priors.ACROSS,
    "sockets": priors.SOCKETS,
    "sync": priors.SYNC,
    "board": priors.BOARD,
    "feed": priors.FEED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The rates of all rows that are looked at together."""

    priors: dict[Key, Prior]  # in the order of the vector
    efficiency: Efficiency

    @classmethod
    def of(
        cls, rows: Iterable[Row], *, is_known: bool, efficiency: Efficiency | None = None
    ) -> Layout:
        """Lay out the rates of rows; `is_known` says that a profile describes the box.

        `efficiency` is what is expected of GPUs before any row: by default what comes with
        scalemark.
        """
        efficiency = efficiency or fitted()
        found: dict[Key, Prior] = {(name,): prior for name, prior in _OF_ALL.items()}
        for row in rows:
            keys = _keys(row)
            is_fitted = is_known and not is_mostly_products(row.work.network)
            found[keys["model"]] = priors.COMPUTE if is_fitted else priors.GUESSED_COMPUTE
            found[keys["start"]] = priors.BATCH_START
            if not is_mostly_products(row.work.network):
                found[keys["start"]] = replace(priors.BATCH_START, median=efficiency.start)
            found[keys["precision"]] = priors.PRECISION if is_fitted else priors.GUESSED_PRECISION
            found[keys["both"]] = priors.MODEL_AND_PRECISION
            found[keys["overlap"]] = priors.OVERLAP
            found[keys["host_s"]] = priors.HOST
            found[keys["input"]] = (
                priors.INPUT_OF_CONTAINERS if _has_own_processes(row) else priors.INPUT
            )
            found[keys["link"]] = priors.LINK if is_known else priors.GUESSED_LINK
        return cls(priors=found, efficiency=efficiency)

    @property
    def start(self) -> Floats:
        return np.zeros(len(self.priors))

    def rates(self, row: Row, hardware: Hardware) -> RatesOf:
        names = list(self.priors)
        places = {name: (names.index(key), self.priors[key]) for name, key in _keys(row).items()}
        share = self.efficiency.share(row.work, hardware)
        return RatesOf(by_name=places, share=share)


@dataclass(frozen=True, slots=True, kw_only=True)
class RatesOf:
    """The entries of the vector that are a row's."""

    by_name: dict[str, tuple[int, Prior]]
    share: float  # of the peak, expected before any row

    @property
    def places(self) -> list[int]:
        return [index for index, _ in self.by_name.values()]

    def __call__(self, vector: Floats) -> Rates:
        """Return the rates of one vector (P,), or of many (D, P)."""
        values = {
            name: prior.value(vector[..., index]) for name, (index, prior) in self.by_name.items()
        }
        compute = self.share * values.pop("model") * values.pop("precision") * values.pop("both")
        return Rates(compute=compute, memory=MEMORY * compute, **values)


def _keys(row: Row) -> dict[str, Key]:
    """Return the key of each rate of a row, by its name in `Rates`; three make its compute."""
    model, precision = row.work.network.name, precision_class(row)
    # A process per GPU feeds itself, often with the GPUs' help.
    feeding = "own processes" if _has_own_processes(row) else "one process"
    layers = "products" if is_mostly_products(row.work.network) else "convolutions"
    keys: dict[str, Key] = {
        "model": ("compute", model),
        "precision": ("precision", precision, layers),
        "both": ("compute", model, precision),
        "start": ("start", layers),
        "overlap": ("overlap", *row.strategy),
        "host_s": ("host", *row.strategy),
        "input": ("input", feeding),
        "link": ("link", *row.strategy),
    }
    return keys | {name: (name,) for name in _OF_ALL}


def _has_own_processes(row: Row) -> bool:
    return row.work.variable_update in OWN_PROCESSES


def precision_class(row: Row) -> str:
    """Return what compute speed depends on, beside the model."""
    kind = "half" if is_half(row.work.precision) else row.work.precision
    return f"{kind}+XLA" if row.work.xla else kind
