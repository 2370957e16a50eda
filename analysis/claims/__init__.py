"""Holds published conclusions (`store/published/conclusions.csv`) against rows."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.claims.claim import Finding, claims
from analysis.claims.scaling import c7, c8, c9, c10, c11, c12, c13, c14
from analysis.claims.strategies import c1, c2, c3, c4, c5, c6
from analysis.results import Result
from scalemark.records.devices import DeviceKind

_CHECKS = (c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14)  # as in the file


def checked(results: Sequence[Result]) -> list[Finding]:
    """Check every claim, in order. They are about GPUs: CPU devices supply no rows."""
    on_gpus = [
        result for result in results if result.environment.device_kind is not DeviceKind.CPU_DEVICE
    ]
    both = zip(claims(), _CHECKS, strict=True)
    return [Finding(claim=claim, parts=check(on_gpus)) for claim, check in both]
