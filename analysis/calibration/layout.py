"""The rates that rows share, as a vector of standard deviations from their priors' medians.

```
 compute   one per model, times one per precision      link, overlap, host_s   one per strategy
 start, latency, across, sockets, sync, board, input, feed      one for the place
```
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.calibration import priors
from analysis.calibration.priors import Prior
from analysis.calibration.row import Row
from costs.memory import is_half
from costs.step import OWN_PROCESSES, Rates

Floats = NDArray[np.float64]
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Of all rows that are looked at together."""

    priors: dict[Key, Prior]  # in the order of the vector

    @classmethod
    def of(cls, rows: Iterable[Row], *, is_known: bool) -> Layout:
        """`is_known`: a profile describes the box; else its links are guesses."""
        found = dict(_PLACE)
        for row in rows:
            for key, prior in zip(_keys(row), _OF_ROW, strict=True):
                found[key] = prior
            found[_input(row)] = (
                priors.INPUT_OF_CONTAINERS
                if row.work.variable_update in OWN_PROCESSES
                else priors.INPUT
            )
            found["link", *row.strategy] = priors.LINK if is_known else priors.GUESSED_LINK
        return cls(priors=found)

    @property
    def start(self) -> Floats:
        return np.zeros(len(self.priors))

    def rates(self, row: Row) -> RatesOf:
        """Of a row, for any vector."""
        names = list(self.priors)
        keys = (*_keys(row), _input(row), ("link", *row.strategy), *_PLACE)
        return RatesOf(places=tuple((names.index(key), self.priors[key]) for key in keys))


@dataclass(frozen=True, slots=True, kw_only=True)
class RatesOf:
    """Which entries of the vector are a row's."""

    places: tuple[tuple[int, Prior], ...]

    def __call__(self, vector: Floats) -> Rates:
        """Of one vector (P,), or of many (D, P)."""
        told = [prior.value(vector[..., index]) for index, prior in self.places]
        (
            model,
            precision,
            both,
            overlap,
            host_s,
            decoding,
            link,
            start,
            latency,
            across,
            sockets,
            sync,
            board,
            feed,
        ) = told
        compute = model * precision * both
        return Rates(
            compute=compute,
            memory=0.7 * compute / priors.COMPUTE.median,
            start=start,
            link=link,
            latency=latency,
            across=across,
            sockets=sockets,
            overlap=overlap,
            board=board,
            host_s=host_s,
            sync=sync,
            input=decoding,
            feed=feed,
        )


_PLACE: dict[Key, Prior] = {
    ("start",): priors.BATCH_START,
    ("latency",): priors.LATENCY,
    ("across",): priors.ACROSS,
    ("sockets",): priors.SOCKETS,
    ("sync",): priors.SYNC,
    ("board",): priors.BOARD,
    ("feed",): priors.FEED,
}
_OF_ROW = (
    priors.COMPUTE,
    priors.PRECISION,
    priors.MODEL_AND_PRECISION,
    priors.OVERLAP,
    priors.HOST,
)


def _input(row: Row) -> Key:
    """A process per GPU feeds itself, often with GPUs' help."""
    return (
        "input",
        "own processes" if row.work.variable_update in OWN_PROCESSES else "one process",
    )


def precision_class(row: Row) -> str:
    """What compute speed depends on, beside the model."""
    kind = "half" if is_half(row.work.precision) else row.work.precision
    return f"{kind}+XLA" if row.work.xla else kind


def _keys(row: Row) -> tuple[Key, ...]:
    model, precision = row.work.network.name, precision_class(row)
    return (
        ("compute", model),
        ("precision", precision),
        ("compute", model, precision),
        ("overlap", *row.strategy),
        ("host", *row.strategy),
    )
