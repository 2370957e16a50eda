"""Figures: colors, title, panels, legend and footer, placed by matplotlib itself.

Colors that the color-blind can distinguish, and markers that differ in grey, on light or dark
ground.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from matplotlib import RcParams
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font

from analysis import badges
from analysis.results import Environment, Result
from analysis.titles import (
    environment_notes,
    host_notes,
    program_notes,
    reported_notes,
    step_notes,
    sweep_notes,
)
from plots.source import Theme
from scalemark.records.references import Origin
from scalemark.text.untrusted import visible
from scalemark.text.wording import counted

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


_LETTER = 0.58  # width of a letter, times its size: wide enough for most texts
_NAME_LETTERS = 30  # of a line in the legend
_LINE_IN = 0.14  # height of a line in the legend or the footer
_MOST_LINES = 3  # of the machine in the footer


def panels(
    num: int,
    height_in: float,
    *,
    columns: int = 1,
    names: Sequence[str] = (),
    width_in: float = WIDTH_IN,
    is_shared: bool = False,
) -> tuple[Figure, list[Axes]]:
    """Return a figure with so many panels, tall enough for a legend with these names."""
    columns = min(columns, num)
    num_rows = math.ceil(num / columns)
    num_lines = sum(label(name).count("\n") + 1 for name in names)
    legend_in = _LINE_IN * num_lines + 0.06 * len(names) + 0.3
    size = (width_in, max(num_rows * height_in, legend_in) + 1.0)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(
        num_rows, columns, squeeze=False, sharex=is_shared, sharey=is_shared
    ).ravel()
    for unused in grid[num:]:
        unused.set_visible(False)
    return figure, list(grid[:num])


def set_title(figure: Figure, title: str) -> None:
    """Set the title at the left, and as the label of the figure."""
    figure.set_label(title)
    text = _wrapped(title, 0.85 * figure.get_figwidth(), TITLE_PT)  # its letters are bold
    figure.suptitle(text, x=0.01, ha="left", fontsize=TITLE_PT, fontweight="bold")


def add_legend(figure: Figure, handles: Mapping[str, Artist]) -> None:
    """Name what is drawn at the right of the panels."""
    if handles:
        names = [label(name) for name in handles]
        figure.legend(
            list(handles.values()),
            names,
            loc="outside right center",
            frameon=False,
            handlelength=1.8,
        )


def label(name: str) -> str:
    """Break a long name into lines between its parts."""
    lines = [""]
    for part in _parts(drawable(name)):
        while len(part) > _NAME_LETTERS:
            lines.append(part[:_NAME_LETTERS])
            part = part[_NAME_LETTERS:]
        if len(lines[-1]) + len(part) > _NAME_LETTERS and lines[-1]:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.strip() for line in lines if line.strip())


def _parts(text: str) -> list[str]:
    """Split a name behind the letters that a line may end with."""
    parts = [""]
    for letter in text:
        parts[-1] += letter
        if letter in " _/,=-":
            parts.append("")
    return parts


def add_footer(
    figure: Figure, setting: str, results: Sequence[Result], marks: Sequence[str], palette: Palette
) -> None:
    """Say below a picture what is constant, what its marks mean, and where it was measured."""
    words = [*_badges(results), *dict.fromkeys(marks)]
    lines = []
    for text in (setting, " · ".join(words), _machine(results)):
        wrapped = _wrapped(text, figure.get_figwidth(), FOOTER_PT).splitlines()
        lines += wrapped[:_MOST_LINES]
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=FOOTER_PT, color=palette.faint)


def details(results: Sequence[Result]) -> list[str]:
    """Return what must be known of all numbers in a picture, in full."""
    notes: list[str] = []
    for environment in _environments(results):
        notes += environment_notes(environment)
    notes += program_notes(results) + reported_notes(results)
    notes += [*step_notes(results), *host_notes(results), *sweep_notes(results)]
    return list(dict.fromkeys(notes))


def drawable(text: str) -> str:
    """Escape controls, and characters that the font lacks."""
    known = _letters()
    return "".join(
        letter if ord(letter) in known else letter.encode("unicode_escape").decode("ascii")
        for letter in visible(text)
    )


@lru_cache
def _letters() -> frozenset[int]:
    return frozenset(get_font(findfont(FontProperties())).get_charmap())


def _wrapped(text: str, width_in: float, size_pt: float) -> str:
    letters = int(72 * width_in / (_LETTER * size_pt))
    return "\n".join(textwrap.wrap(drawable(text), letters))


def _environments(results: Sequence[Result]) -> list[Environment]:
    return list(dict.fromkeys(result.environment for result in results))


def _badges(results: Sequence[Result]) -> list[str]:
    words: list[str] = []
    for environment in _environments(results):
        of_environment = badges.of_environment(environment)
        if not environment.origin.is_ours:  # the source is named with the word
            of_environment[0] = environment.versions
        words += of_environment
    if any("single run" in badges.of_result(result) for result in results):
        words.append("single run")
    if host_notes(results):
        words.append("hosts: processes of one machine")
    if reported_notes(results):
        words.append("reported by the program")
    if sweep_notes(results):
        words.append("repeats of other sweeps included")
    if any(result.failed and result.throughput is not None for result in results):
        words.append("some repeats have no number")
    return list(dict.fromkeys(words))


def _machine(results: Sequence[Result]) -> str:
    """Return the machine without what its badge says."""
    machines = []
    for environment in _environments(results):
        text = environment.machine.removesuffix(f", {environment.devices}")
        if environment.origin is Origin.SIMULATED:
            text = text.removeprefix("simulated ").removesuffix(", by a cost model")
        machines.append(text)
    different = list(dict.fromkeys(machines))
    return different[0] if len(different) == 1 else counted(len(different), "machine")


def small_title(axes: Axes, text: str) -> None:
    """Name a panel of several."""
    axes.set_title(label(text), loc="left", fontsize=SMALL_PT)
