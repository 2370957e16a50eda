"""The command that would supply rows for a claim: on the machines that the rows at hand are of, or
simulated as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis.claims.claim import Claim
from analysis.results import Origin, Result
from scalemark.host.own_code import typed
from scalemark.records import overrides

_SWEEP = "python sweep.py "


def supplying(claim: Claim, results: Sequence[Result]) -> str:
    """Beside simulated results the same sweep simulated: on the profile that the claim is about,
    else on theirs.
    """
    simulated = next((one.place for one in results if one.place.origin is Origin.SIMULATED), None)
    if simulated is None or not claim.supply.startswith(_SWEEP):
        return claim.supply
    hardware = (
        ("engine=simulated", f"hardware={claim.profile}") if claim.profile else simulated.hardware
    )
    return f"{claim.supply} {overrides.sweep(hardware).removeprefix(typed('sweep')).lstrip()}"
