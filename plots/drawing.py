"""Draws charts into files: every chart is a file of `plots/charts/`, named like the chart.

Names of pictures: the model, and only what tells a picture from its neighbors of the same
model.
"""

from __future__ import annotations

import hashlib
import pkgutil
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from analysis.labels import NoSuchAxisError
from analysis.pivot import Table
from analysis.results import Result
from analysis.titles import program_name
from plots import charts
from plots.figure import PALETTES, Palette, add_footer, details, settings
from plots.options import DPI, Failed, PictureFormat, Theme, attempted, draft_of, stop
from plots.source import PlotSource
from scalemark.text.wording import as_typed, counted, safe_name
from store.errors import StoreError
from store.filters.selection import nearest

_FIRST = ("throughput", "scaling")
_COMPRESSION = 1  # of 9: higher ones take longer than they save
_FORBIDDEN = re.compile(r"[^A-Za-z0-9=._-]+")  # in names of files
_LONGEST = 120  # characters of a file's name, without its ending


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One figure of a chart, without its footer. The figure's label is its title."""

    # of its file, without ending and chart: "resnet50", "resnet50-precision=fp16", see
    # plots.drawing
    name: str
    figure: Figure
    setting: str = ""  # for its footer: what is constant
    results: Sequence[Result] = ()  # that it shows: their machine and badges stand in its footer
    # for its footer: what signs in it mean, as "bars: 95 % CI"
    marks: list[str] = field(default_factory=list)
    about: Sequence[str] = ()  # for the details in its file: what else a reader may ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The pixels of a PNG. SVG and PDF have none."""

    dpi: int = DPI
    width_px: int | None = None  # of each picture; None = as wide as it is in inches

    def dpi_of(self, figure: Figure) -> float:
        if self.width_px is None:
            return self.dpi
        return self.width_px / float(figure.get_figwidth())


class Chart(Protocol):
    """A file of `plots/charts/`."""

    ABOUT: str  # one line for --help

    def draw(self, source: PlotSource, palette: Palette) -> Iterator[Picture]:
        """Yield a picture per model, machine, or whatever the chart splits by. Raises NothingToShow
        when the results have nothing for it.
        """


def names() -> list[str]:
    """Return the names of all charts, those first that most readers look for."""
    found = [module.name for module in pkgutil.iter_modules(charts.__path__)]
    own = sorted(name for name in found if not name.startswith("_"))
    return sorted(own, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))


def chart(name: str) -> Chart:
    """Import a chart. Raises StoreError for an unknown name, and whatever its file raises."""
    if name not in names():
        raise StoreError(f"{name[:100]}: no such chart; {nearest(name[:100], names())}")
    found: Chart = import_module(f"plots.charts.{name}")
    return found


def abouts(failed: Failed) -> dict[str, str]:
    """Return a line about each chart; `failed` is called for one that cannot be imported."""
    found = {name: attempted(name, partial(_about, name), failed) for name in names()}
    return {name: text for name, text in found.items() if text is not None}


def _about(name: str) -> str:
    return chart(name).ABOUT


NO_LINE = "no strategy completed on two GPU counts"


class NothingToShow(StoreError):  # noqa: N818 - not an error where all charts were asked for
    """Says why a chart has no picture of these results, or of so many settings among them, which
    it says after the pictures of the others.
    """

    def __init__(self, why: str, num: int = 0, of: int = 0) -> None:
        part = f" of {num} of {of} settings" if num else ""
        super().__init__(f"nothing to show{part}: {why}")


def draw(
    source: PlotSource,
    folder: Path,
    wanted: Sequence[str],
    formats: Sequence[PictureFormat] = (PictureFormat.PNG,),
    themes: Sequence[Theme] = (Theme.LIGHT,),
    passed_over: Callable[[str, str], object] = lambda name, why: None,
    most: int | None = None,
    cut_short: Callable[[str], None] = lambda what: None,
    failed: Failed = stop,
    resolution: Resolution = Resolution(),
) -> Iterator[Path]:
    """Yield files as they are written, CHART[-ORIGIN]-WHAT[-dark].png. A chart that has nothing to
    show of some or all results is reported to `passed_over`, one that cannot be imported, drawn or
    written to `failed`, perhaps after some of its files, and one with more than `most` pictures to
    `cut_short`.

    Raises StoreError for an unknown chart, where there is no result to draw, and where the folder
    cannot be made.
    """
    for name in wanted:
        if name not in names():
            chart(name)
    _ = source.results  # refused here once, instead of by every chart
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(error, folder) from error
    for theme in dict.fromkeys(themes):
        is_first = theme == themes[0]  # what is reported of a chart holds in every theme
        for name in dict.fromkeys(wanted):
            paths: list[Path] = []
            failure: Exception | None = None
            try:
                has_more = _write(
                    paths, source, folder, name, dict.fromkeys(formats), theme, most, resolution
                )
                if has_more and is_first:
                    cut_short(f"{name}: more than {counted(most or 0, 'picture')}")
            except NothingToShow as reason:
                if is_first:
                    passed_over(name, str(reason))
            except NoSuchAxisError as lack:
                if is_first:
                    passed_over(name, str(NothingToShow(f"no {lack.axis} is reported")))
            except OSError as error:
                failure = _unwritable(error, folder)
            except Exception as error:  # whatever it is, the other charts are worth drawing
                failure = error
            yield from paths  # first, for `failed` may raise
            if failure is not None:
                failed(name, failure)


def _unwritable(error: OSError, folder: Path) -> StoreError:
    path = getattr(error, "filename2", None) or error.filename or folder
    return StoreError(f"{path}: {error.strerror}; choose another folder with --out")


def _write(
    paths: list[Path],
    source: PlotSource,
    folder: Path,
    name: str,
    formats: Iterable[PictureFormat],
    theme: Theme,
    most: int | None,
    resolution: Resolution,
) -> bool:
    """Write all of one chart at once, for matplotlib's settings are its own while it draws, and
    append each file to `paths`. Return whether the chart has more.
    """
    one = chart(name)
    first = source.file_name(name)
    taken: dict[str, str] = {}
    with matplotlib.rc_context(settings(theme)):
        pictures = one.draw(source, PALETTES[theme])
        for picture in islice(pictures, most):
            stem = _file_name(first, picture.name, theme)
            if taken.get(stem, picture.name) != picture.name:
                stem = f"{stem}-{_digest(picture.name)}"  # of two sweeps `a b` and `a_b`
            if stem in taken:
                raise ValueError(
                    f"chart {name} has two pictures for {stem}: {taken[stem]!r} and "
                    f"{picture.name!r}"
                )
            taken[stem] = picture.name
            figure = finish(picture, PALETTES[theme])
            about = facts(source, picture)
            for form in formats:
                path = folder / f"{stem}.{form}"
                with draft_of(path) as draft:
                    write(figure, draft, form, resolution, about)
                paths.append(path)
        has_more = next(pictures, None) is not None
    if not paths:
        raise NothingToShow(f"this chart is of {one.ABOUT}")
    return has_more


def finish(picture: Picture, palette: Palette) -> Figure:
    """Return the figure with its footer."""
    add_footer(picture.figure, picture.setting, picture.results, picture.marks, palette)
    return picture.figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a file says of its picture to those who ask it, as `exiftool` does."""

    title: str
    description: str  # machines, versions, notes, and the command; a line each
    source: str  # the database


def facts(source: PlotSource, picture: Picture) -> Facts:
    """Return everything that must be known of the numbers in a picture."""
    notes = [*details(picture.results), *picture.about, *source.selection.notes]
    return Facts(
        title=str(picture.figure.get_label()),
        description="\n".join([*notes, source.stored_in, f"made by: {source.command}"]),
        source=source.stored_in,
    )


def write(
    figure: Figure, path: Path | BinaryIO, form: PictureFormat, resolution: Resolution, about: Facts
) -> None:
    """Write the same figure as the same bytes. Unlike `Figure.savefig` this does not draw twice,
    the first time for nothing.
    """
    title, description = about.title, about.description
    canvas: Any  # matplotlib's writers have no types
    if form is PictureFormat.SVG:
        said = {"Title": title, "Description": description, "Source": about.source, "Date": None}
        canvas = FigureCanvasSVG(figure)
        canvas.print_svg(path, metadata=said)
    elif form is PictureFormat.PDF:
        from matplotlib.backends.backend_pdf import FigureCanvasPdf  # here, for few ask for it

        said = {"Title": title, "Subject": description, "CreationDate": None}
        canvas = FigureCanvasPdf(figure)
        canvas.print_pdf(path, metadata=said)
    else:
        said = {"Title": title, "Description": description, "Source": about.source}
        figure.set_dpi(resolution.dpi_of(figure))
        canvas = FigureCanvasAgg(figure)
        canvas.print_png(path, metadata=said, pil_kwargs={"compress_level": _COMPRESSION})


def _file_name(chart_name: str, shown: str, theme: Theme) -> str:
    """Use letters that every file system takes, and no more than fit into all of them."""
    parts = [chart_name, shown, "" if theme is Theme.LIGHT else theme]
    reported = "-".join(part for part in parts if part)
    name = _FORBIDDEN.sub("_", reported)
    is_whole = len(name) <= _LONGEST and not _FORBIDDEN.search(reported.replace(" ", "_"))
    return name if is_whole else f"{name[: _LONGEST - 7]}-{_digest(reported)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def file_names(tables: Sequence[Table]) -> list[str]:
    """Return a name per table, as `resnet50`, `train-program=3f2a1c` of one of two programs, and
    `resnet50-box7-a1b2c3` where machines or software differ.
    """
    neighbors: dict[object, list[Table]] = defaultdict(list)
    for table in tables:
        neighbors[table.setting.get("model")].append(table)
    num_environments = len({table.environment.key for table in tables})
    names = []
    for table in tables:
        parts = [str(table.setting["model"])] if "model" in table.setting else []
        for axis in ("command", "read", "model_digest", "scaling"):
            values = {
                str(other.setting.get(axis)) for other in neighbors[table.setting.get("model")]
            }
            if axis in table.setting and len(values) > 1:
                parts.append(_part(axis, table.setting[axis]))
        if num_environments > 1:
            parts += [table.environment.host, table.environment.key]
        names.append(safe_name("-".join(parts)))
    return unique(names)


def unique(names: Sequence[str]) -> list[str]:
    """Number names from the second of each on."""
    seen: Counter[str] = Counter()
    numbered = []
    for name in names:
        seen[name] += 1
        suffix = "" if seen[name] == 1 else f"-{seen[name]}"
        numbered.append(f"{name}{suffix}".removeprefix("-"))
    return numbered


def _part(axis: str, value: object) -> str:
    if axis == "command":
        return program_name(str(value)).replace(" ", "=")
    if axis == "read":  # a pattern would be too long
        kind, colon, _ = str(value).partition(":")
        digest = hashlib.sha256(str(value).encode()).hexdigest()[:6]
        return f"read={kind}-{digest}" if colon else f"read={kind}"
    return f"{axis}={as_typed(value)}"
