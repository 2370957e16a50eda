"""One picture of each chart, and no text on another with few and many lines."""

import pytest
from matplotlib.figure import Figure

from scalemark.records.measurement import Outcome
from tests.filled import fill
from tests.plots.charts.charting import overlaps, picture_test, pictures, resnet, speed, steps

KINDS = ("throughput", "scaling", "efficiency", "batch_sizes", "memory")


def fill_with(num_strategies: int, **axes: object) -> None:
    """On 1, 2, 4 and 8 devices with two batch sizes or one; the third runs out of memory on 8."""
    entries, details = [], []
    for strategy in range(num_strategies):
        for num_gpus in (1, 2, 4, 8):
            for repeat in range(5 if strategy == 1 else 2):
                fits = (strategy, num_gpus) != (2, 8)
                number = speed(strategy, num_gpus, repeat) if fits else None
                entries.append((resnet(strategy, num_gpus, **axes), number))
                detail: dict[str, object] = {"outcome": Outcome.OUT_OF_MEMORY}
                if fits:
                    used = 2**30 + 2**27 * strategy + 2**25 * num_gpus
                    detail = {"steps": steps(0.1), "peak_host_memory_bytes": used}
                    detail |= {"data_wait_share": 0.1 * num_gpus / 8, "duration_s": 12.0}
                details.append(detail)
    fill("results.db", entries, name=f"{axes}", details=details)


@picture_test
@pytest.mark.parametrize("kind", ["throughput", "scaling"])
def test_the_picture_of_five_strategies(kind: str) -> Figure:
    fill_with(5)
    (found,) = pictures(kind)
    return found.figure


@picture_test
@pytest.mark.parametrize("kind", ["efficiency", "memory", "batch_sizes"])
def test_the_picture(kind: str) -> Figure:
    fill_with(3)
    if kind == "batch_sizes":
        fill_with(3, batch_size=16)
    return pictures(kind)[0].figure


@pytest.mark.integration
@picture_test
def test_the_picture_of_settings_as_panels() -> Figure:
    axes = [
        {"precision": precision, "batch_size": size}
        for precision in ("fp32", "bf16", "fp16")
        for size in (8, 16, 32)
    ]
    entries = [
        (resnet(strategy, num_gpus, **of), speed(strategy, num_gpus) + place)
        for place, of in enumerate(axes)
        for strategy in (0, 1)
        for num_gpus in (1, 2)
    ]
    fill("results.db", entries)
    (found,) = pictures("scaling")
    return found.figure


@pytest.mark.integration
@pytest.mark.parametrize("num_strategies", [1, 12])
@pytest.mark.parametrize("kind", KINDS)
def test_no_text_stands_on_another(kind: str, num_strategies: int) -> None:
    fill_with(num_strategies)
    if kind == "batch_sizes":
        fill_with(num_strategies, batch_size=16)
    for found in pictures(kind):
        assert overlaps(found.figure) == []
