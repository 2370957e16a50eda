"""What a faster precision does to efficiency."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.conclusions.cases import OF_PRECISION, Compared, alike, by_efficiency, on_gpus
from analysis.conclusions.conclusion import Conclusion, by_place, counted, listed, rows_of
from analysis.results import Result
from scalemark.abilities import precision_of


def conclude(results: Sequence[Result]) -> Iterator[Conclusion]:
    for of in by_place(slower(results)).values():
        place = of[0].first.place
        batches = any(one.first.axes["batch_size"] != one.second.axes["batch_size"] for one in of)
        formats = any(_data_format(one.first) != _data_format(one.second) for one in of)
        also = f"{'; the batch differs, too' if batches else ''}{'; the data format differs, too' if formats else ''}"
        yield Conclusion(
            topic="precision",
            place=place,
            sentence="The slower precision has the higher efficiency on the most GPUs "
            f"{counted(of)}{also}: {listed(of, on_gpus, named)}.",
            rows=rows_of(of),
        )


def slower(results: Sequence[Result]) -> list[Compared]:
    """fp32 or tf32 against what is faster, each at its own batch, both with or without XLA; on the
    most GPUs of both.
    """
    most: dict[tuple[object, ...], Compared] = {}
    for compiled in (False, True):
        told = [
            result
            for result in results
            if precision_of(_precision(result)) and _is_compiled(result) is compiled
        ]
        for group in alike(told, *OF_PRECISION):
            slow, fast = _slowest_and_fastest(group)
            if _product_bits(slow) > _product_bits(fast) and (one := by_efficiency(slow, fast)):
                curves = (slow.place.key, slow.hosts, slow.curve, fast.curve)
                if curves not in most or most[curves].first.num_gpus < slow.num_gpus:
                    most[curves] = one
    return list(most.values())


def _slowest_and_fastest(group: Sequence[Result]) -> tuple[Result, Result]:
    """Precisions, each at its largest batch; with the dimensions of an image in one order, where
    both have that.
    """
    ends = [end(map(_product_bits, group)) for end in (max, min)]
    slow, fast = ([result for result in group if _product_bits(result) == bits] for bits in ends)
    shared = set(map(_data_format, slow)) & set(map(_data_format, fast))
    return _largest_batch(slow, shared), _largest_batch(fast, shared)


def _largest_batch(results: Sequence[Result], data_formats: set[str]) -> Result:
    able = [result for result in results if _data_format(result) in data_formats] or results
    return max(able, key=lambda result: (int(result.axes["batch_size"] or 0), _data_format(result)))


def _data_format(result: Result) -> str:
    """Sources tell it in notes alone."""
    return str(result.axes.get("data_format", ""))


def _product_bits(result: Result) -> int:
    """The fewer, the faster; 0 of a precision that is none of ours."""
    abilities = precision_of(_precision(result))
    return abilities.product_bits if abilities else 0


def _precision(result: Result) -> str:
    return str(result.axes["precision"]).rstrip("?").partition("+")[0]


def _is_compiled(result: Result) -> bool:
    return "+XLA" in str(result.axes["precision"])


def named(result: Result) -> str:
    return str(result.axes["precision"])
