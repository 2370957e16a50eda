"""C12 and C13: what staged variables and packs bring."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.claims.claim import Part, cases
from analysis.conclusions import repacking, staged_vars
from analysis.conclusions.cases import as_run
from analysis.results import Result


def c12(results: Sequence[Result]) -> tuple[Part, ...]:
    found = staged_vars.staged(results)
    return (
        Part(says="staged variables are faster", cases=cases(found, as_run, staged_vars.named)),
    )


def c13(results: Sequence[Result]) -> tuple[Part, ...]:
    found = repacking.repacked(results)
    return (
        Part(
            says="packs are faster than tensor by tensor",
            cases=cases(found, as_run, repacking.named),
        ),
    )
