"""Colors that the color-blind can distinguish, and markers that differ in grey, on light or dark
ground.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib import RcParams
from matplotlib.colors import to_hex, to_rgb

from plots.pictures.choices import Theme

# Okabe and Ito's colors (2008), the ones that are faint on white last; a fourth is that which
# cannot be seen on the ground.
_FIRST, _LAST = ("#0072B2", "#D55E00", "#009E73"), ("#CC79A7", "#E69F00", "#56B4E9")
WIDTH_IN = 6.5
TITLE_PT, TEXT_PT, SMALL_PT, FOOTER_PT = 10.0, 9.0, 8.0, 7.0
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h")
DASHES = ("-", "--", ":", "-.")
HATCHES = ("", "/////", "...", "xxxx", "-----", "\\\\\\\\\\", "++++", "oo")
"""Tell neighbors apart in grey, in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Palette:
    """The colors of one theme."""

    ground: str
    ink: str  # text, axes
    faint: str  # grid, footers, the ideal line
    series: tuple[str, ...]

    def tint(self, color: str, share: float) -> str:
        """Return this share of the color on the ground, opaque."""
        red, green, blue = (
            share * of + (1 - share) * under
            for of, under in zip(to_rgb(color), to_rgb(self.ground), strict=True)
        )
        return to_hex((red, green, blue))

    def color(self, index: int) -> str:
        return self.series[index % len(self.series)]

    def style(self, index: int) -> dict[str, Any]:
        """Return the style of the series of this number for `Axes.plot`; styles differ also in grey
        and beyond the number of colors.
        """
        return {
            "color": self.color(index),
            "marker": MARKERS[index % len(MARKERS)],
            "linestyle": DASHES[index // len(self.series) % len(DASHES)],
        }


PALETTES: Mapping[Theme, Palette] = {
    Theme.LIGHT: Palette(
        ground="#FFFFFF", ink="#1A1A1A", faint="#6B6B6B", series=(*_FIRST, "#000000", *_LAST)
    ),
    Theme.DARK: Palette(
        ground="#16181D", ink="#ECECEC", faint="#9A9A9A", series=(*_FIRST, "#F0E442", *_LAST)
    ),
}


def settings(theme: Theme) -> RcParams:
    """Return the settings for `matplotlib.rc_context`."""
    palette = PALETTES[theme]
    inks = ["text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor"]
    inks += ["xtick.color", "ytick.color"]
    grounds = ("figure.facecolor", "axes.facecolor", "savefig.facecolor", "legend.facecolor")
    own = {
        **dict.fromkeys(inks, palette.ink),
        **dict.fromkeys(grounds, palette.ground),
        "grid.color": palette.faint,
        "grid.alpha": 0.3,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "font.family": "DejaVu Sans",  # comes with matplotlib, so that pictures are alike anywhere
        "font.size": TEXT_PT,
        "axes.labelsize": SMALL_PT,
        "xtick.labelsize": SMALL_PT,
        "ytick.labelsize": SMALL_PT,
        "legend.fontsize": SMALL_PT,
        "lines.linewidth": 1.4,
        "lines.markersize": 4.5,
        "hatch.linewidth": 0.6,
        "text.hinting": "none",
        "text.parse_math": False,  # a dollar in a path is a dollar
        "svg.hashsalt": "scalemark",  # the same picture is the same file
        "svg.fonttype": "none",  # text stays text
        "pdf.fonttype": 42,  # letters of a known kind, which journals ask for
    }
    return RcParams(own)
