"""Draws charts into files: every chart is a file of `plots/charts/`, named like the chart.

Names of pictures: the model, and only what tells a picture from its neighbors of the same
model.
"""

from __future__ import annotations

import hashlib
import pkgutil
import re
from collections import defaultdict
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
from plots.source import DPI, Failed, PictureFormat, PlotSource, Theme, attempted, draft_of, stop
from scalemark.text.wording import as_typed, counted, safe_name
from store.errors import StoreError
from store.filters import nearest

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


class Chart(Protocol):
    """A file of `plots/charts/`."""

    ABOUT: str  # one line for --help

    def draw(self, source: PlotSource, palette: Palette) -> Iterator[Picture]:
        """Yield a picture per model, machine, or whatever the chart splits by. Raises NothingToShow
        when the results have nothing for it.
        """


def names() -> list[str]:
    """Return the names of all charts, those first that most readers look for."""
    files = sorted(module.name for module in pkgutil.iter_modules(charts.__path__))
    others = [name for name in files if name not in _FIRST]
    return [*_FIRST, *others]


def chart(name: str) -> Chart:
    """Import a chart. Raises StoreError for an unknown name, and whatever its file raises."""
    if name not in names():
        raise StoreError(f"{name[:100]}: no such chart; {nearest(name[:100], names())}")
    module: Chart = import_module(f"plots.charts.{name}")
    return module


def abouts(failed: Failed) -> dict[str, str]:
    """Return a line about each chart; `failed` is called for one that cannot be imported."""
    texts = {}
    for name in names():
        module = attempted(name, partial(chart, name), failed)
        if module is not None:
            texts[name] = module.ABOUT
    return texts


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
    dpi: int = DPI,
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
            writer = _ChartWriter(name, source, folder, dict.fromkeys(formats), theme, dpi)
            failure: Exception | None = None
            reason = ""
            try:
                has_more = writer.write_all(most)
                if has_more and is_first:
                    cut_short(f"{name}: more than {counted(most or 0, 'picture')}")
            except NothingToShow as lack:
                reason = str(lack)
            except NoSuchAxisError as lack:
                reason = str(NothingToShow(f"no {lack.axis} is reported"))
            except OSError as error:
                failure = _unwritable(error, folder)
            except Exception as error:  # whatever it is, the other charts are worth drawing
                failure = error
            if reason and is_first:
                passed_over(name, reason)
            yield from writer.paths  # first, for `failed` may raise
            if failure is not None:
                failed(name, failure)


def _unwritable(error: OSError, folder: Path) -> StoreError:
    path = getattr(error, "filename2", None) or error.filename or folder
    return StoreError(f"{path}: {error.strerror}; choose another folder with --out")


class _ChartWriter:
    """Writes the pictures of one chart in one theme."""

    def __init__(
        self,
        name: str,
        source: PlotSource,
        folder: Path,
        formats: Iterable[PictureFormat],
        theme: Theme,
        dpi: int,
    ) -> None:
        self.paths: list[Path] = []  # of files that are written
        self._name, self._source, self._folder = name, source, folder
        self._formats, self._theme, self._dpi = formats, theme, dpi
        self._taken: dict[str, str] = {}  # names of pictures by those of their files

    def write_all(self, most: int | None) -> bool:
        """Write all at once, for matplotlib's settings are its own while it draws. Return whether
        the chart has more.
        """
        module = chart(self._name)
        palette = PALETTES[self._theme]
        with matplotlib.rc_context(settings(self._theme)):
            pictures = module.draw(self._source, palette)
            for picture in islice(pictures, most):
                stem = self._stem(picture.name)
                figure = finish(picture, palette)
                for form in self._formats:
                    path = self._folder / f"{stem}.{form}"
                    with draft_of(path) as draft:
                        write(figure, draft, form, self._source, picture, self._dpi)
                    self.paths.append(path)
            has_more = next(pictures, None) is not None
        if not self.paths:
            raise NothingToShow(f"this chart is of {module.ABOUT}")
        return has_more

    def _stem(self, picture: str) -> str:
        """Return a file name of letters that every file system takes, and no more than fit."""
        parts = [self._source.file_name(self._name), picture]
        if self._theme is not Theme.LIGHT:
            parts.append(self._theme)
        whole = "-".join(filter(None, parts))
        stem = _FORBIDDEN.sub("_", whole)
        if len(stem) > _LONGEST or _FORBIDDEN.search(whole.replace(" ", "_")):
            stem = f"{stem[: _LONGEST - 7]}-{_digest(whole)}"
        if self._taken.get(stem, picture) != picture:
            stem = f"{stem}-{_digest(picture)}"  # of two sweeps `a b` and `a_b`
        if stem in self._taken:
            raise ValueError(
                f"chart {self._name} has two pictures for {stem}: {self._taken[stem]!r} and "
                f"{picture!r}"
            )
        self._taken[stem] = picture
        return stem


def finish(picture: Picture, palette: Palette) -> Figure:
    """Return the figure with its footer."""
    add_footer(picture.figure, picture.setting, picture.results, picture.marks, palette)
    return picture.figure


def described(source: PlotSource, picture: Picture) -> str:
    """Return everything that must be known of the numbers in a picture, a line each."""
    notes = [*details(picture.results), *picture.about, *source.selection.notes]
    return "\n".join([*notes, source.stored_in, f"made by: {source.command}"])


def write(
    figure: Figure,
    path: Path | BinaryIO,
    form: PictureFormat,
    source: PlotSource,
    picture: Picture,
    dpi: float = DPI,
) -> None:
    """Write the same figure as the same bytes, described. Unlike
    `Figure.savefig` this does not draw twice, the first time for nothing.
    """
    description = described(source, picture)
    said: dict[str, Any] = {"Title": str(figure.get_label()), "Description": description}
    canvas: Any  # matplotlib's writers have no types
    if form is PictureFormat.PDF:
        from matplotlib.backends.backend_pdf import FigureCanvasPdf  # here, for few ask for it

        said = {"Title": said["Title"], "Subject": description, "CreationDate": None}
        canvas = FigureCanvasPdf(figure)
        canvas.print_pdf(path, metadata=said)
        return
    said["Source"] = source.stored_in
    if form is PictureFormat.SVG:
        canvas = FigureCanvasSVG(figure)
        canvas.print_svg(path, metadata=said | {"Date": None})
    else:
        figure.set_dpi(dpi)
        canvas = FigureCanvasAgg(figure)
        canvas.print_png(path, metadata=said, pil_kwargs={"compress_level": _COMPRESSION})


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def file_names(tables: Sequence[Table]) -> list[str]:
    """Return a name per table, as `resnet50`, `train-program=3f2a1c` of one of two programs, and
    `resnet50-box7-a1b2c3` where machines or software differ.
    """
    neighbors: dict[object, list[Table]] = defaultdict(list)
    environments = set()
    for table in tables:
        neighbors[table.setting.get("model")].append(table)
        environments.add(table.environment.key)
    names = []
    for table in tables:
        model = table.setting.get("model")
        parts = [] if model is None else [str(model)]
        for axis in ("command", "read", "model_digest", "scaling"):
            values = {str(other.setting.get(axis)) for other in neighbors[model]}
            if axis in table.setting and len(values) > 1:
                parts.append(_part(axis, table.setting[axis]))
        if len(environments) > 1:
            parts += [table.environment.host, table.environment.key]
        names.append(safe_name("-".join(parts)))
    return unique(names)


def unique(names: Sequence[str]) -> list[str]:
    """Number names from the second of each on."""
    numbered: list[str] = []
    for name in names:
        own, number = name, 1
        while own in numbered:
            number += 1
            own = f"{name}-{number}".removeprefix("-")
        numbered.append(own)
    return numbered


def _part(axis: str, value: object) -> str:
    if axis == "command":
        return program_name(str(value)).replace(" ", "=")
    if axis == "read":  # a pattern would be too long
        kind, colon, _ = str(value).partition(":")
        return f"read={kind}-{_digest(str(value))}" if colon else f"read={kind}"
    return f"{axis}={as_typed(value)}"
