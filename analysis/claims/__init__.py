"""Published conclusions (`store/published/conclusions.csv`), held against rows: agrees, disagrees,
or who would supply rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis.claims.claim import Finding, claims
from analysis.claims.scaling import c7, c8, c9, c10, c11, c14
from analysis.claims.strategies import c1, c2, c3, c4, c5, c6
from analysis.claims.switches import c12, c13
from analysis.results import Result
from scalemark.records.devices import DeviceKind

_CHECKS = {
    "C1": c1,
    "C2": c2,
    "C3": c3,
    "C4": c4,
    "C5": c5,
    "C6": c6,
    "C7": c7,
    "C8": c8,
    "C9": c9,
    "C10": c10,
    "C11": c11,
    "C12": c12,
    "C13": c13,
    "C14": c14,
}


def checked(results: Sequence[Result]) -> list[Finding]:
    """Every claim, in order. They are of GPUs: what CPU stand-ins measured is no row for any."""
    of_gpus = [
        result for result in results if result.place.device_kind is not DeviceKind.CPU_STAND_IN
    ]
    return [Finding(claim=claim, parts=_CHECKS[claim.id](of_gpus)) for claim in claims()]
