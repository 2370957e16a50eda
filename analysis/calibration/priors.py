"""Priors of the rates, and why: log-normal, of shares logit-normal.

The shares of peaks and the starts of kernels are fitted (`efficiency.py`). The others were set by
hand, from physics and from what sources report, with the tables of docs/prediction.md in sight:
these are no clean test of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from costs.overlap import Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """A normal distribution of the logarithm of a rate; of a share of its log-odds."""

    median: float
    spread: float  # standard deviation of the logarithm
    is_share: bool = False

    def value(self, standard: Values) -> Values:
        """Return the rate at so many standard deviations from the median, for one or for many."""
        if self.is_share:
            odds = self.median / (1 - self.median)
            return 1 / (1 + np.exp(-(math.log(odds) + self.spread * standard)))
        return self.median * np.exp(self.spread * standard)


COMPUTE = Prior(median=1.0, spread=0.2)
"""Times the share of the peak that is expected of convolutions on the GPU (`efficiency.py`): other
sources than those that it was fitted to differ by so much.
"""

GUESSED_COMPUTE = Prior(median=1.0, spread=0.6)
"""The same of a GPU that no profile describes, and of networks that are mostly products of
matrices, to which no efficiency was fitted.
"""

PRECISION = Prior(median=1.0, spread=0.15)
"""Times the same, in a precision: software feeds tensor cores more or less well."""

GUESSED_PRECISION = Prior(median=1.0, spread=0.4)
"""As `GUESSED_COMPUTE`."""

MODEL_AND_PRECISION = Prior(median=1.0, spread=0.1)
"""Times both: not every network gains alike."""

BATCH_START = Prior(median=0.5, spread=0.6)
"""Launches' time that a kernel takes whatever the batch: an H200 waited 0.4 for each of GPT-2's. Of
convolutions its median is fitted (`efficiency.py`).
"""

LINK = Prior(median=0.75, spread=0.35)
"""Copies reach 10 to 11.5 of PCIe's 12 GB/s alone, and less beside others; guessed links may be
twice as fast or half.
"""

GUESSED_LINK = Prior(median=0.75, spread=0.6)

LATENCY = Prior(median=1.0, spread=0.5)
"""Profiles have orders of magnitude."""

ACROSS = Prior(median=0.4, spread=0.7)
"""DGX-1's rings pass both cliques by one link of four per GPU at least, by all with a library that
knows the mesh.
"""

SOCKETS = Prior(median=0.9, spread=0.35)
"""Profiles have what NCCL's model allows peers; copies through the host's memory differ."""

OVERLAP = Prior(median=0.65, spread=1.0, is_share=True)
"""TensorFlow sends gradients as they come, but copies and kernels wait for each other: all from a
third to nine tenths.
"""

HOST = Prior(median=0.5e-3, spread=1.0)
"""Seconds per further GPU: a thousand kernels and copies, launched by threads that get into each
other's way.
"""

SYNC = Prior(median=0.005, spread=0.8)
"""Clocks, and the host's scheduling, differ by some thousandths to some hundredths between
replicas.
"""

BOARD = Prior(median=0.03, spread=0.8)
"""Two GPUs share a K80's power: its boost gives way by some hundredths."""

INPUT = Prior(median=3.0, spread=0.4)
"""Times the profile's decoding per core, which distorts too: tf_cnn_benchmarks' pipelines were seen
to make 200 to 325 images/s per core (its commits f567510 and 1528c46).
"""

INPUT_OF_CONTAINERS = Prior(median=5.0, spread=0.5)
"""Rate with a process per GPU, as in NVIDIA's containers, where DALI often decodes on the GPUs."""

FEED = Prior(median=0.15, spread=1.0)
"""Cores that decode do not launch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Standard deviations of the logarithm of step times, by the effects that the physics leaves
    out."""

    # of one published figure, or of one process: clocks and placement make processes differ by a
    # hundredth
    noise: float = 0.012
    walk: float = 0.02  # per doubling of the GPUs, of one curve
    shared_walk: float = 0.012  # as `walk`, of all curves of one strategy and kind of data
    # times the share of a step that is not computing: what is said of it is wrong by so much
    overhead: float = 0.25


LEFT_OUT = LeftOut()
