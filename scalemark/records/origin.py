"""The maker of a number: scalemark by measuring or simulating it, or somebody else."""

from __future__ import annotations

from enum import StrEnum


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
