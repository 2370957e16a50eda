"""Speed-up against GPUs: a line per strategy and number of hosts, over its named baseline, with the
ideal line.
"""

from __future__ import annotations

from collections.abc import Iterator

from plots.pictures.axes import Values
from plots.pictures.drawing import Picture
from plots.pictures.speed_ups import Ratio, draw_ratio
from plots.pictures.theme import Palette
from plots.source import Source

ABOUT = "speed-up against GPUs over a named baseline, a line per strategy"


def draw(source: Source, palette: Palette) -> Iterator[Picture]:
    """A picture per model, setting and machine that has a baseline."""
    ratio = Ratio(
        name="speed-up",
        label="times {baseline}",
        of=lambda result: result.speed_up,
        ideal=float,
        values=Values.RATIO,
    )
    return draw_ratio(source, palette, ratio)
