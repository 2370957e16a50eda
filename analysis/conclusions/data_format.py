"""Which order of an image's dimensions is faster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.conclusions.cases import Compared, alike, as_run, by_speed
from analysis.conclusions.conclusion import Conclusion, by_place, counted, listed, rows_of
from analysis.results import Result


def conclude(results: Sequence[Result]) -> Iterator[Conclusion]:
    compared: list[Compared] = []
    for group in alike(
        [one for one in results if one.axes.get("data_format")], "data_format", "telling"
    ):
        last = [one for one in group if one.axes["data_format"] == "NHWC"]
        first = [one for one in group if one.axes["data_format"] == "NCHW"]
        compared += [found for one in last for other in first if (found := by_speed(one, other))]
    for of in by_place(compared).values():
        yield Conclusion(
            topic="data_format",
            place=of[0].first.place,
            sentence=(
                f"Channels last are faster than channels first {counted(of)}: "
                f"{listed(of, as_run, _way)}."
            ),
            rows=rows_of(of),
        )


def _way(result: Result) -> str:
    return str(result.axes["data_format"])
