"""The stages of the kit, a file each, in the order in which they run.

A stage has `ABOUT`, a sentence; `LINES`, what must hold and it judges; `MINUTES`, its time; and
`run(kit)`, which yields what it finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from benchmarks.gpu.kit import Finding, Kit


class Stage(Protocol):
    """The module of a stage."""

    ABOUT: str
    LINES: Mapping[str, str]  # key -> what must hold
    MINUTES: Mapping[str, float]  # by the size of a box: cpu, gpu, gpus

    def run(self, kit: Kit) -> Iterator[Finding]:
        """Yield findings as they come. Raises NotRunError where it cannot run."""
