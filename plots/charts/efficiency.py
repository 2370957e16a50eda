"""Efficiency against GPUs: the part of a perfect speed-up that each strategy reaches."""

from __future__ import annotations

from collections.abc import Iterator

from plots.pictures.axes import Values
from plots.pictures.drawing import Picture
from plots.pictures.speed_ups import Ratio, draw_ratio
from plots.pictures.theme import Palette
from plots.source import Source

ABOUT = "part of a perfect speed-up against GPUs, a line per strategy and number of hosts"


def draw(source: Source, palette: Palette) -> Iterator[Picture]:
    """A picture per model, setting and machine that has a baseline."""
    ratio = Ratio(
        name="efficiency",
        label="speed-up over {baseline}, divided by number of {devices}",
        of=lambda result: result.efficiency,
        ideal=lambda num_gpus: 1.0,
        values=Values.SHARE,
    )
    return draw_ratio(source, palette, ratio)
