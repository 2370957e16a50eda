"""What a faster precision does to efficiency."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from analysis.conclusions.cases import OF_PRECISION, Compared, alike, by_efficiency, on_gpus
from analysis.conclusions.conclusion import Conclusion, by_place, counted, listed, rows_of
from analysis.results import Result

_SPEED = {"fp32": 0, "tf32": 1, "bf16": 2, "fp16": 2, "mixed": 2}


def conclude(results: Sequence[Result]) -> Iterator[Conclusion]:
    for of in by_place(slower(results)).values():
        place = of[0].first.place
        batches = any(one.first.axes["batch_size"] != one.second.axes["batch_size"] for one in of)
        also = "; the batch differs, too" if batches else ""
        yield Conclusion(
            topic="precision",
            place=place,
            sentence="The slower precision has the higher efficiency on the most GPUs "
            f"{counted(of)}{also}: {listed(of, on_gpus, named)}.",
            rows=rows_of(of),
        )


def slower(results: Sequence[Result]) -> list[Compared]:
    """fp32 or tf32 against what is faster, each at its own batch, both with or without XLA; on the most GPUs of both."""
    most: dict[tuple[object, ...], Compared] = {}
    for compiled in (False, True):
        told = [result for result in results if _precision(result) in _SPEED and _is_compiled(result) is compiled]
        for group in alike(told, *OF_PRECISION):
            slow, fast = _largest_batch(group, min), _largest_batch(group, max)
            if _SPEED[_precision(slow)] < _SPEED[_precision(fast)] and (one := by_efficiency(slow, fast)):
                curves = (slow.place.key, slow.hosts, slow.curve, fast.curve)
                if curves not in most or most[curves].first.num_gpus < slow.num_gpus:
                    most[curves] = one
    return list(most.values())


def _largest_batch(group: Sequence[Result], end: Callable[[Iterable[int]], int]) -> Result:
    speed = end(_SPEED[_precision(result)] for result in group)
    of = [result for result in group if _SPEED[_precision(result)] == speed]
    return max(of, key=lambda result: int(result.axes["batch_size"] or 0))


def _precision(result: Result) -> str:
    return str(result.axes["precision"]).rstrip("?").partition("+")[0]


def _is_compiled(result: Result) -> bool:
    return "+XLA" in str(result.axes["precision"])


def named(result: Result) -> str:
    return str(result.axes["precision"])
