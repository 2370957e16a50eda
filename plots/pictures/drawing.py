"""Draws charts into files: every chart is a file of `plots/charts/`, named like the chart."""

from __future__ import annotations

import hashlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Protocol

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from analysis.results import Origin
from plots import charts
from plots.parts import Failed, stop
from plots.pictures.choices import PictureFormat, Theme
from plots.pictures.sheet import add_footer
from plots.pictures.theme import PALETTES, Palette, settings
from plots.source import Source
from plots.whole_file import draft_of
from store.errors import StoreError
from store.filters.selection import nearest

DPI = 120  # 500 pixels wide; who needs more asks for SVG
_COMPRESSION = 1  # of 9: higher ones take longer than they save
_FORBIDDEN = re.compile(r"[^A-Za-z0-9=._-]+")  # in names of files
_LONGEST = 120  # characters of a file's name, without its ending


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One figure of a chart, without its footer."""

    # of its file, without ending and chart: "resnet50", "resnet50-precision=fp16", see
    # plots.pictures.file_names
    name: str
    figure: Figure
    # lines for the footer: machine and versions of what it shows, notes a reader needs
    about: Sequence[str]


class Chart(Protocol):
    """What a file of `plots/charts/` has."""

    ABOUT: str  # one line for --help

    def draw(self, source: Source, palette: Palette) -> Iterator[Picture]:
        """A picture per model, machine, or whatever the chart splits by; none when the results have
        nothing for it.
        """


def names() -> list[str]:
    """Of all charts."""
    return sorted(
        module.name
        for module in pkgutil.iter_modules(charts.__path__)
        if not module.name.startswith("_")
    )


def chart(name: str) -> Chart:
    """Raises StoreError for a name that is none."""
    if name not in names():
        raise StoreError(f"{name[:100]}: no such chart; {nearest(name[:100], names())}")
    found: Chart = import_module(f"plots.charts.{name}")
    return found


class NothingToShow(StoreError):  # noqa: N818 - not an error where all charts were asked for
    """Why a chart has no picture of these results: passed over, and told where the chart was asked
    for by name.
    """


def draw(
    source: Source,
    folder: Path,
    wanted: Sequence[str],
    formats: Sequence[PictureFormat] = (PictureFormat.PNG,),
    themes: Sequence[Theme] = (Theme.LIGHT,),
    passed_over: Callable[[str], None] = lambda why: None,
    most: int | None = None,
    cut_short: Callable[[str], None] = lambda what: None,
    failed: Failed = stop,
) -> Iterator[Path]:
    """Files as they are written, CHART[-simulated]-WHAT[-dark].png. `passed_over` is told each
    chart that has nothing to show, and why; `failed` each that cannot be drawn or written, perhaps
    after some of its files, and the others are drawn.

    Of each chart `most` pictures are drawn, and `cut_short` is told where there are more. Raises
    StoreError for an unknown chart, where there is no result to draw, and where the folder cannot
    be made.
    """
    found = [(name, chart(name)) for name in dict.fromkeys(wanted)]
    _ = source.results  # refused here once, instead of by every chart
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(error, folder) from error
    for theme in dict.fromkeys(themes):
        for name, one in found:
            paths: list[Path] = []
            reason: Exception | None = None
            has_more = False
            try:
                has_more = _write(
                    paths, source, folder, name, one, dict.fromkeys(formats), theme, most
                )
            except Exception as error:  # whatever it is, the other charts are worth drawing
                reason = error
            yield from paths
            if isinstance(reason, NothingToShow):
                if theme == themes[0]:
                    passed_over(f"{name}: nothing to show: {reason}")
            elif reason:
                failed(name, _unwritable(reason, folder) if isinstance(reason, OSError) else reason)
            if has_more and theme == themes[0]:
                cut_short(f"{name}: more than {most} pictures")


def _unwritable(error: OSError, folder: Path) -> StoreError:
    path = getattr(error, "filename2", None) or error.filename or folder
    return StoreError(f"{path}: {error.strerror}; choose another folder with --out")


def _write(
    paths: list[Path],
    source: Source,
    folder: Path,
    name: str,
    one: Chart,
    formats: Iterable[PictureFormat],
    theme: Theme,
    most: int | None,
) -> bool:
    """Write all of one chart at once, for matplotlib's settings are its own while it draws, and
    append each file to `paths`. Return whether the chart has more.
    """
    taken: dict[str, str] = {}
    with matplotlib.rc_context(settings(theme)):
        pictures = one.draw(source, PALETTES[theme])
        for picture in islice(pictures, most):
            stem = _file_name(
                f"{name}-simulated" if source.selection.origin is Origin.SIMULATED else name,
                picture.name,
                theme,
            )
            if taken.get(stem, picture.name) != picture.name:
                stem = f"{stem}-{_digest(picture.name)}"  # of two sweeps `a b` and `a_b`
            if stem in taken:
                raise ValueError(
                    f"chart {name} has two pictures for {stem}: {taken[stem]!r} and "
                    f"{picture.name!r}"
                )
            taken[stem] = picture.name
            paths.extend(_written(finish(source, picture, PALETTES[theme]), folder, stem, formats))
        has_more = next(pictures, None) is not None
    if not paths:
        raise NothingToShow(f"this chart is of {one.ABOUT}")
    return has_more


def finish(source: Source, picture: Picture, palette: Palette) -> Figure:
    """The figure with its footer: what it was made on and with, from which database, and by which
    command.
    """
    add_footer(picture.figure, footer(source, picture), palette)
    return picture.figure


def footer(source: Source, picture: Picture) -> list[str]:
    """What must stand below a picture."""
    return [*picture.about, *source.selection.notes, source.stored_in, f"made by: {source.command}"]


def write(figure: Figure, path: Path, form: PictureFormat, dpi: int = DPI) -> None:
    """The same figure is the same bytes. Unlike `Figure.savefig` it does not draw twice, the first
    time for nothing.
    """
    if form is PictureFormat.SVG:
        FigureCanvasSVG(figure).print_svg(path, metadata={"Date": None})  # type: ignore[no-untyped-call]  # of matplotlib
    else:
        figure.set_dpi(dpi)
        FigureCanvasAgg(figure).print_png(path, pil_kwargs={"compress_level": _COMPRESSION})  # type: ignore[no-untyped-call]  # too


def _written(
    figure: Figure, folder: Path, stem: str, formats: Iterable[PictureFormat]
) -> Iterator[Path]:
    for form in formats:
        path = folder / f"{stem}.{form}"
        with draft_of(path) as draft:
            write(figure, draft, form)
        yield path


def _file_name(chart_name: str, shown: str, theme: Theme) -> str:
    """Of letters that every file system takes, and short enough for all of them."""
    told = "-".join(
        part for part in (chart_name, shown, "" if theme is Theme.LIGHT else theme) if part
    )
    name = _FORBIDDEN.sub("_", told)
    is_whole = len(name) <= _LONGEST and not _FORBIDDEN.search(told.replace(" ", "_"))
    return name if is_whole else f"{name[: _LONGEST - 7]}-{_digest(told)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:6]
