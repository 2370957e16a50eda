"""What is believed of rates before any row is seen, and why: medians and spreads of log-normal (of
shares logit-normal) priors.

They were set from physics and from what sources tell, not fitted to the figures that predictions
are judged by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from costs.overlap import Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """Of the logarithm of a rate; of `is_share` of its log-odds."""

    median: float
    spread: float  # standard deviation of the logarithm
    is_share: bool = False

    def value(self, standard: Values) -> Values:
        """At so many standard deviations from the median; of one, or of many at once."""
        if self.is_share:
            return 1 / (
                1 + np.exp(-(math.log(self.median / (1 - self.median)) + self.spread * standard))
            )
        return self.median * np.exp(self.spread * standard)


COMPUTE = Prior(median=0.5, spread=0.6)
"""Of a model, share of the peak: K80 boards reach a quarter of it, cuDNN on P100 about half, small
layers less.
"""

PRECISION = Prior(median=1.0, spread=0.4)
"""Of a precision, times COMPUTE: tensor cores differ in how well convolutions feed them, and XLA in
what it fuses.
"""

MODEL_AND_PRECISION = Prior(median=1.0, spread=0.15)
"""Times both: not every network gains alike."""

BATCH_START = Prior(median=2.0, spread=0.8)
"""Launches' time that a kernel takes whatever the batch: 1 where kernels are short, 5 on GPUs of
few, slow multiprocessors.
"""

LINK = Prior(median=0.75, spread=0.35)
"""Copies reach 10 to 11.5 of PCIe's 12 GB/s alone, and less beside others; guessed links may be
twice as fast or half.
"""

GUESSED_LINK = Prior(median=0.75, spread=0.6)

LATENCY = Prior(median=1.0, spread=0.5)
"""Profiles tell orders of magnitude."""

ACROSS = Prior(median=0.4, spread=0.7)
"""DGX-1's rings pass both cliques by one link of four per GPU at least, by all with a library that
knows the mesh.
"""

SOCKETS = Prior(median=0.9, spread=0.35)
"""Profiles tell what NCCL's model allows peers; copies through the host's memory do better, or
worse.
"""

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
"""Where each GPU has its own process, as in NVIDIA's containers, decoding is often done by DALI, in
part on the GPUs.
"""

FEED = Prior(median=0.15, spread=1.0)
"""Cores that decode do not launch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """What the physics does not tell, as standard deviations of the logarithm of step times."""

    # of one published figure, or of one process: clocks and placement make processes differ by a
    # hundredth
    noise: float = 0.012
    walk: float = 0.02  # per doubling of the GPUs, of one curve
    shared_walk: float = 0.012  # as `walk`, of all curves of one strategy and kind of data
    # times the share of a step that is not computing: what is said of it is wrong by so much
    overhead: float = 0.25


LEFT_OUT = LeftOut()
