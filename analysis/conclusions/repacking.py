"""What it brings to send gradients in a few packs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.conclusions.cases import Compared, alike, as_run, by_speed, fastest
from analysis.conclusions.conclusion import Conclusion, by_place, counted, listed, rows_of
from analysis.results import Result


def conclude(results: Sequence[Result]) -> Iterator[Conclusion]:
    for of in by_place(repacked(results)).values():
        place = of[0].first.place
        compacted = any(
            one.first.axes["compact_gradients"] != one.second.axes["compact_gradients"]
            for one in of
        )
        also = "; the packs are sent as half precision in some of them" if compacted else ""
        yield Conclusion(
            topic="repacking",
            place=place,
            sentence=f"Gradients in packs are faster {counted(of)}{also}: {listed(of, as_run, named)}.",
            rows=rows_of(of),
        )


def repacked(results: Sequence[Result]) -> list[Compared]:
    """Packs against one message per tensor: with the same compaction where there is such a trial,
    else with none.
    """
    found = []
    able = [
        result for result in results if result.num_gpus > 1 and "gradient_repacking" in result.axes
    ]
    for group in alike(able, "gradient_repacking", "compact_gradients", "telling"):
        plain = [result for result in group if not result.axes["gradient_repacking"]]
        for packed in (result for result in group if result.axes["gradient_repacking"]):
            same = [
                one
                for one in plain
                if one.axes["compact_gradients"] == packed.axes["compact_gradients"]
            ]
            other = fastest(same or plain)
            if other and (one := by_speed(packed, other)):
                found.append(one)
    return found


def named(result: Result) -> str:
    axes = result.axes
    packs = (
        f"in {axes['gradient_repacking']} packs"
        if axes["gradient_repacking"]
        else "tensor by tensor"
    )
    return f"{packs}{', compacted,' if axes['compact_gradients'] else ''}"
