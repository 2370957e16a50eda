"""Concludes what real data, the data format, staged variables and packs of gradients do to
throughput."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.conclusions.cases import (
    Compared,
    alike,
    as_run,
    by_speed,
    fastest,
    is_real,
    is_synthetic,
    on_most_gpus,
)
from analysis.conclusions.conclusion import Conclusion, by_environment, how_often, listed, shares
from analysis.results import Result
from scalemark.stats.welch import Relation

_OF_DATA = ("data", "data_dir", "distortions", "cache")


def real_data(results: Sequence[Result]) -> Iterator[Conclusion]:
    def say(of: list[Compared]) -> str:
        devices = of[0].first.environment.devices
        return (
            f"On the most {devices} real data reach {shares(of)} of synthetic, and are slower "
            f"{how_often(of, Relation.LESS)}: {listed(of, as_run, _data)}."
        )

    yield from by_environment("real_data", on_most_gpus(real_against_synthetic(results)), say)


def real_against_synthetic(results: Sequence[Result]) -> list[Compared]:
    found = []
    for group in alike(results, *_OF_DATA):
        real = fastest(one for one in group if is_real(one))
        synthetic = fastest(one for one in group if is_synthetic(one))
        if compared := by_speed(real, synthetic):
            found.append(compared)
    return found


def _data(result: Result) -> str:
    return str(result.axes["data"])


def data_format(results: Sequence[Result]) -> Iterator[Conclusion]:
    def say(of: list[Compared]) -> str:
        what = "Channels last are faster than channels first"
        return f"{what} {how_often(of)}: {listed(of, as_run, _data_format)}."

    known = [one for one in results if one.axes.get("data_format")]
    compared = []
    for group in alike(known, "data_format", "telling"):
        last = [one for one in group if _data_format(one) == "NHWC"]
        first = [one for one in group if _data_format(one) == "NCHW"]
        compared += [by_speed(one, other) for one in last for other in first]
    yield from by_environment("data_format", [one for one in compared if one], say)


def _data_format(result: Result) -> str:
    return str(result.axes["data_format"])


def staged_vars(results: Sequence[Result]) -> Iterator[Conclusion]:
    def say(of: list[Compared]) -> str:
        return (
            f"Staged variables are faster {how_often(of)}: {listed(of, as_run, staged)}; "
            "their weights are one step old, so this is not plain SGD."
        )

    yield from by_environment("staged_vars", with_staged_vars(results), say)


def with_staged_vars(results: Sequence[Result]) -> list[Compared]:
    """Compare trials with and without them, on 2 GPUs or more."""
    known = [one for one in results if one.num_gpus > 1 and "staged_vars" in one.axes]
    found = []
    for group in alike(known, "staged_vars"):
        by_value = {bool(one.axes["staged_vars"]): one for one in group}
        if compared := by_speed(by_value.get(True), by_value.get(False)):
            found.append(compared)
    return found


def staged(result: Result) -> str:
    return "staged" if result.axes["staged_vars"] else "not staged"


def repacking(results: Sequence[Result]) -> Iterator[Conclusion]:
    def say(of: list[Compared]) -> str:
        also = ""
        if any(_is_compacted(one.first) != _is_compacted(one.second) for one in of):
            also = "; the packs are sent as half precision in some of them"
        return f"Gradients in packs are faster {how_often(of)}{also}: {listed(of, as_run, packs)}."

    yield from by_environment("repacking", repacked(results), say)


def repacked(results: Sequence[Result]) -> list[Compared]:
    """Compare packs with one message per tensor, with the same compaction where there is one."""
    known = [one for one in results if one.num_gpus > 1 and "gradient_repacking" in one.axes]
    found = []
    for group in alike(known, "gradient_repacking", "compact_gradients", "telling"):
        plain = [one for one in group if not one.axes["gradient_repacking"]]
        for packed in group:
            if not packed.axes["gradient_repacking"]:
                continue
            same = [one for one in plain if _is_compacted(one) == _is_compacted(packed)]
            if compared := by_speed(packed, fastest(same or plain)):
                found.append(compared)
    return found


def _is_compacted(result: Result) -> bool:
    return bool(result.axes["compact_gradients"])


def packs(result: Result) -> str:
    num = result.axes["gradient_repacking"]
    reported = f"in {num} packs" if num else "tensor by tensor"
    return f"{reported}, compacted," if _is_compacted(result) else reported
