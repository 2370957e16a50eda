"""A figure built from the top down in strips, measured in inches: what has its own strip overlaps
with nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Transform, offset_copy

from plots.pictures.lettering import height_in, width_in, wrapped
from plots.pictures.theme import FOOTER_PT, SMALL_PT, TITLE_PT, WIDTH_IN, Palette

MARGIN_IN = 0.08
_HANDLE_IN = 0.42  # of a line with its marker in a legend, and the space beside it
_COLUMN_GAP_IN = 0.12
_BETWEEN_ROWS = 0.25  # of a legend, times its letters' size


class Sheet:
    """Width in inches; it grows downwards with what is put on it."""

    def __init__(self, palette: Palette, width_in: float = WIDTH_IN) -> None:
        self.palette = palette
        self.width_in = width_in
        self.figure = Figure(figsize=(width_in, 1))
        FigureCanvasAgg(self.figure)
        self._depth_in = MARGIN_IN
        # axes, and in inches how deep they begin, how tall they are, the room at left and right
        self.placed: list[tuple[Axes, float, float, float, float]] = []

    @property
    def inner_in(self) -> float:
        """Return the width between the margins."""
        return self.width_in - 2 * MARGIN_IN

    def heading(self, headline: str, setting: str = "") -> None:
        """Write what is shown, and below it in small letters the setting it was made with. The
        figure is labeled with both.
        """
        self.figure.set_label(f"{headline}; {setting}" if setting else headline)
        self.text(headline, TITLE_PT, bold=True)
        if setting:
            self.text(setting)
        self.gap(0.08)

    def text(
        self, text: str, size_pt: float = SMALL_PT, *, bold: bool = False, color: str | None = None
    ) -> None:
        """Write a paragraph over the whole width."""
        lines = wrapped(text, size_pt, self.inner_in, bold=bold)
        self.figure.text(
            0,
            1,
            lines,
            transform=self._here(),
            fontsize=size_pt,
            fontweight="bold" if bold else "normal",
            color=color or self.palette.ink,
            va="top",
            linespacing=1.15,
        )
        self.gap(height_in(lines, size_pt))

    def gap(self, height_in: float) -> None:
        self._depth_in += height_in

    def axes(self, height_in: float, left_in: float, right_in: float = MARGIN_IN) -> Axes:
        """Add axes over the width, but for what their labels need at the sides; leave a gap below
        for those of the x axis.
        """
        axes = self.figure.add_axes((0, 0, 1, 1))
        # told here: ticks are made late, perhaps under other settings
        ink, faint = self.palette.ink, self.palette.faint
        axes.tick_params(
            color=ink, labelcolor=ink, labelsize=SMALL_PT, grid_color=faint, grid_alpha=0.3
        )
        self.placed.append((axes, self._depth_in, height_in, left_in, right_in))
        self.gap(height_in)
        return axes

    def legend(self, handles: Sequence[Artist], names: Sequence[str]) -> None:
        """Add a legend below what is there, in as many columns as the names allow."""
        if not handles:
            return
        labels = [wrapped(name, SMALL_PT, self.inner_in - _HANDLE_IN) for name in names]
        num_columns = self._num_columns(
            [width_in(label, SMALL_PT) + _HANDLE_IN for label in labels]
        )
        num_rows = math.ceil(len(labels) / num_columns)
        self.figure.legend(
            handles,
            labels,
            loc="upper left",
            bbox_to_anchor=(0, 1),
            bbox_transform=self._here(),
            ncols=num_columns,
            fontsize=SMALL_PT,
            frameon=False,
            borderaxespad=0,
            borderpad=0,
            handlelength=2.6,
            handletextpad=0.6,
            columnspacing=1,
            labelspacing=_BETWEEN_ROWS,
        )
        between_in = _BETWEEN_ROWS * SMALL_PT / 72
        for row in range(num_rows):
            heights_in = [height_in(label, SMALL_PT) for label in labels[row::num_rows]]
            self.gap(0.93 * max(heights_in) + between_in)
        self.gap(0.04)

    def _here(self) -> Transform:
        """Return the way from the figure's upper left corner to the margin, as deep as the sheet
        is; it holds when the figure grows below.
        """
        return offset_copy(self.figure.transFigure, self.figure, MARGIN_IN, -self._depth_in)

    def _num_columns(self, widths_in: Sequence[float]) -> int:
        """Return how many fit side by side, filled downwards."""
        for num_rows in range(1, len(widths_in)):
            columns = [
                widths_in[start : start + num_rows] for start in range(0, len(widths_in), num_rows)
            ]
            if sum(map(max, columns)) + (len(columns) - 1) * _COLUMN_GAP_IN <= self.inner_in:
                return len(columns)
        return 1

    def finished(self) -> Figure:
        """Return the figure in its size, with everything in its place."""
        self.figure.set_size_inches(self.width_in, self._depth_in)
        for axes, top_in, tall_in, left_in, right_in in self.placed:
            bottom = 1 - (top_in + tall_in) / self._depth_in
            axes.set_position(
                (
                    left_in / self.width_in,
                    bottom,
                    1 - (left_in + right_in) / self.width_in,
                    tall_in / self._depth_in,
                )
            )
        return self.figure


def bare(axes: Axes, num_columns: int, num_rows: int) -> None:
    """Prepare axes for a map: a unit per cell, the first row on top, and neither frame nor grid."""
    axes.set_xlim(0, num_columns)
    axes.set_ylim(num_rows, 0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, pad=3)


def add_footer(figure: Figure, line: str, palette: Palette) -> None:
    """Add a line below whatever the figure has, which grows by what it needs; it is broken only
    where it would be cut off.
    """
    width_in = float(figure.get_figwidth())
    text = wrapped(line, FOOTER_PT, width_in - 2 * MARGIN_IN)
    below_in = height_in(text, FOOTER_PT) + 2 * MARGIN_IN
    _grow(figure, below_in)
    figure.text(
        MARGIN_IN,
        MARGIN_IN,
        text,
        transform=figure.dpi_scale_trans,
        fontsize=FOOTER_PT,
        color=palette.faint,
        va="bottom",
        linespacing=1.15,
        gid="footer",
    )


def _grow(figure: Figure, below_in: float) -> None:
    before_in = float(figure.get_figheight())
    share = before_in / (before_in + below_in)
    figure.set_figheight(before_in + below_in)
    for axes in figure.axes:
        left, bottom, width, height = axes.get_position().bounds
        axes.set_position((left, 1 - share + bottom * share, width, height * share))
