"""Concludes what a larger batch and a faster precision do to the efficiency of scaling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.conclusions.cases import Compared, alike, by_efficiency, on_gpus, on_most_gpus
from analysis.conclusions.conclusion import Conclusion, by_environment, how_often, listed
from analysis.results import Result
from scalemark.abilities import precision_of

_OF_PRECISION = ("precision", "loss_scale", "data_format", "batch_size")


def batch_size(results: Sequence[Result]) -> Iterator[Conclusion]:
    def say(of: list[Compared]) -> str:
        devices = of[0].first.environment.devices
        what = f"The larger batch has the higher efficiency on the most {devices}"
        return f"{what} {how_often(of)}: {listed(of, batch_subject, at_batch)}."

    yield from by_environment("batch_size", larger_batch(results), say)


def larger_batch(results: Sequence[Result]) -> list[Compared]:
    """Compare the largest batch with the smallest, of trials that differ in nothing else."""
    known = [
        one for one in results if one.axes["batch_size"] and one.axes.get("scaling") != "strong"
    ]
    found = []
    for group in alike(known, "batch_size"):
        small, *_, large = sorted(group, key=_batch)
        if compared := by_efficiency(large, small):
            found.append(compared)
    return on_most_gpus(found)


def _batch(result: Result) -> int:
    return int(result.axes["batch_size"] or 0)


def batch_subject(result: Result) -> str:
    return f"{on_gpus(result)} ({result.strategy}, {result.axes['data']} data)"


def at_batch(result: Result) -> str:
    return f"at {result.axes['batch_size']}"


def precision(results: Sequence[Result]) -> Iterator[Conclusion]:
    def say(of: list[Compared]) -> str:
        also = ""
        if any(_batch(one.first) != _batch(one.second) for one in of):
            also += "; the batch differs, too"
        if any(_data_format(one.first) != _data_format(one.second) for one in of):
            also += "; the data format differs, too"
        devices = of[0].first.environment.devices
        what = f"The slower precision has the higher efficiency on the most {devices}"
        return f"{what} {how_often(of)}{also}: {listed(of, on_gpus, in_precision)}."

    yield from by_environment("precision", slower_precision(results), say)


def slower_precision(results: Sequence[Result]) -> list[Compared]:
    """Compare fp32 or tf32 with what is faster, each at its own batch, both with or without XLA."""
    found = []
    for is_compiled in (False, True):
        known = [
            one
            for one in results
            if _product_bits(one) and ("+XLA" in in_precision(one)) is is_compiled
        ]
        for group in alike(known, *_OF_PRECISION):
            slow, fast = _slowest_and_fastest(group)
            if _product_bits(slow) > _product_bits(fast):
                found.append(by_efficiency(slow, fast))
    return on_most_gpus(one for one in found if one)


def _slowest_and_fastest(group: Sequence[Result]) -> tuple[Result, Result]:
    """Pick each at its largest batch, in a data format that both have, if there is one."""
    bits = [_product_bits(one) for one in group]
    slow = [one for one in group if _product_bits(one) == max(bits)]
    fast = [one for one in group if _product_bits(one) == min(bits)]
    shared = {_data_format(one) for one in slow} & {_data_format(one) for one in fast}
    return _largest_batch(slow, shared), _largest_batch(fast, shared)


def _largest_batch(results: Sequence[Result], data_formats: set[str]) -> Result:
    able = [one for one in results if _data_format(one) in data_formats] or results
    return max(able, key=lambda one: (_batch(one), _data_format(one)))


def _data_format(result: Result) -> str:
    """Sources report it in notes alone."""
    return str(result.axes.get("data_format", ""))


def _product_bits(result: Result) -> int:
    """The fewer, the faster; 0 of a precision that is not one of ours."""
    abilities = precision_of(in_precision(result).partition("+")[0].rstrip("?"))
    return abilities.product_bits if abilities else 0


def in_precision(result: Result) -> str:
    return str(result.axes["precision"])
