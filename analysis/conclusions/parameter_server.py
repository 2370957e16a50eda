"""How near to the fastest a parameter server on the CPU comes on the most GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.conclusions.cases import STRATEGY, Compared, alike, by_speed, fastest, model, strategy
from analysis.conclusions.conclusion import Conclusion, by_place, counted, listed, rows_of, shares
from analysis.results import Result
from scalemark.stats.welch import Relation


def conclude(results: Sequence[Result]) -> Iterator[Conclusion]:
    compared: list[Compared] = []
    for group in alike([result for result in results if result.num_gpus > 1], *STRATEGY):
        server = next((one for one in group if one.strategy == "ps_cpu"), None)
        other = fastest([one for one in group if one is not server])
        if server and other and (one := by_speed(server, other)):
            compared.append(one)
    for of_place in by_place(compared).values():
        most = max(one.first.num_gpus for one in of_place)
        of = [one for one in of_place if one.first.num_gpus == most]
        place = of[0].first.place
        yield Conclusion(
            topic="parameter_server",
            place=place,
            sentence=f"On {place.counted(most)} a parameter server on the CPU reaches {shares(of)} of the fastest other "
            f"strategy, and is slower {counted(of, Relation.LESS)}: {listed(of, model, strategy)}.",
            rows=rows_of(of),
        )
