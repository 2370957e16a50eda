"""What weights of the previous step bring: copies that hide behind computation, by an algorithm
that is not plain SGD.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.conclusions.cases import Compared, alike, as_run, by_speed
from analysis.conclusions.conclusion import Conclusion, by_place, counted, listed, rows_of
from analysis.results import Result


def conclude(results: Sequence[Result]) -> Iterator[Conclusion]:
    for of in by_place(staged(results)).values():
        place = of[0].first.place
        yield Conclusion(
            topic="staged_vars",
            place=place,
            sentence=f"Staged variables are faster {counted(of)}: {listed(of, as_run, named)}; "
            "their weights are one step old, so this is not plain SGD.",
            rows=rows_of(of),
        )


def staged(results: Sequence[Result]) -> list[Compared]:
    """With against without, on 2 GPUs or more."""
    found = []
    for group in alike(
        [result for result in results if result.num_gpus > 1 and "staged_vars" in result.axes],
        "staged_vars",
    ):
        by_value = {bool(result.axes["staged_vars"]): result for result in group}
        if len(by_value) > 1 and (one := by_speed(by_value[True], by_value[False])):
            found.append(one)
    return found


def named(result: Result) -> str:
    return "staged" if result.axes["staged_vars"] else "not staged"
