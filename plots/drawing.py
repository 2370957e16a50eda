"""Draws charts into files: their look, title, panels, legend, footer, and the names of the files.

Every chart is a file of `plots/charts/`, named like the chart. Colors that the color-blind can
distinguish, and markers that differ in grey. Names of pictures: the model,
and a number where a model has several.
"""

import math
import pkgutil
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import matplotlib
from matplotlib import RcParams
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font

from analysis import badges, titles
from analysis.labels import NoSuchAxisError
from analysis.pivot import Table
from analysis.results import Result, with_number
from plots import charts
from plots.source import Failed, PictureFormat, PlotSource, draft_of, environments_of, stop
from scalemark.records.references import Origin
from scalemark.text.untrusted import visible
from scalemark.text.wording import counted, safe_name
from store.errors import StoreError
from store.filters import nearest

# Okabe and Ito's colors (2008), wine for black, the ones that are faint on white last
SERIES = ("#0072B2", "#D55E00", "#009E73", "#882255", "#CC79A7", "#E69F00", "#56B4E9")
WIDTH_IN = 6.5
TITLE_PT, TEXT_PT, SMALL_PT, FOOTER_PT = 10.0, 9.0, 8.0, 7.0
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h")
DASHES = ("-", "--", ":", "-.")
HATCHES = ("", "/////", "...", "xxxx", "-----", "\\\\\\\\\\", "++++", "oo")
"""Tell neighbors apart in grey, in this order."""


GROUND, INK = "#FFFFFF", "#1A1A1A"
FAINT = "#6B6B6B"  # grid, footers, the ideal line


def series_style(index: int) -> dict[str, Any]:
    """Return the style of a series by its number; styles differ in grey, too."""
    return {
        "color": SERIES[index % len(SERIES)],
        "marker": MARKERS[index % len(MARKERS)],
        "linestyle": DASHES[index // len(SERIES) % len(DASHES)],
    }


def settings() -> RcParams:
    """Return the settings for `matplotlib.rc_context`."""
    inks = ["text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor"]
    inks += ["xtick.color", "ytick.color"]
    grounds = ("figure.facecolor", "axes.facecolor", "savefig.facecolor", "legend.facecolor")
    own = {
        **dict.fromkeys(inks, INK),
        **dict.fromkeys(grounds, GROUND),
        "grid.color": FAINT,
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
_PART = re.compile(r"[^ _/,=-]*[ _/,=-]|[^ _/,=-]+")  # with the letter that a line may end with
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
        names = list(map(label, handles))
        where: dict[str, Any] = {"loc": "outside right center", "frameon": False}
        figure.legend(list(handles.values()), names, handlelength=1.8, **where)


def label(name: str) -> str:
    """Break a long name into lines between its parts."""
    lines = [""]
    for part in _PART.findall(drawable(name)):
        while len(part) > _NAME_LETTERS:
            lines.append(part[:_NAME_LETTERS])
            part = part[_NAME_LETTERS:]
        if len(lines[-1]) + len(part) > _NAME_LETTERS and lines[-1]:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.strip() for line in lines if line.strip())


def drawable(text: str) -> str:
    """Escape controls, and characters that the font lacks."""
    known = _letters()
    letters = []
    for letter in visible(text):
        if ord(letter) not in known:
            letter = letter.encode("unicode_escape").decode("ascii")
        letters.append(letter)
    return "".join(letters)


@lru_cache
def _letters() -> frozenset[int]:
    return frozenset(get_font(findfont(FontProperties())).get_charmap())


def _wrapped(text: str, width_in: float, size_pt: float) -> str:
    letters = int(72 * width_in / (_LETTER * size_pt))
    return "\n".join(textwrap.wrap(drawable(text), letters))


def _badges(results: Sequence[Result]) -> list[str]:
    words: list[str] = []
    for environment in environments_of(results):
        of_environment = badges.of_environment(environment)
        if not environment.origin.is_ours:  # the source is named with the word
            of_environment[0] = environment.versions
        words += of_environment
    if any("single run" in badges.of_result(result) for result in results):
        words.append("single run")
    if titles.host_notes(results):
        words.append("hosts: processes of one machine")
    if titles.reported_notes(results):
        words.append("reported by the program")
    if titles.sweep_notes(results):
        words.append("repeats of other sweeps included")
    if any(result.failed for result in with_number(results)):
        words.append("some repeats have no number")
    return list(dict.fromkeys(words))


def small_title(axes: Axes, text: str) -> None:
    """Name a panel of several."""
    axes.set_title(label(text), loc="left", fontsize=SMALL_PT)


_SHOWN_FIRST = ("throughput", "scaling")
_DPI = 240  # of PNGs: sharp on today's screens
_LONGEST_NAME = 100  # of a file, without chart and ending
_COMPRESSION = 1  # of 9: higher ones take longer than they save


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One figure of a chart, without its footer. The figure's label is its title."""

    # of its file, without ending and chart, as "resnet50-precision=fp16"; of several pictures of
    # one name the second file is numbered
    name: str
    figure: Figure
    setting: str = ""  # for its footer: what is constant
    results: Sequence[Result] = ()  # that it shows: their machine and badges stand in its footer
    # for its footer: what signs in it mean, as "bars: 95 % CI"
    marks: list[str] = field(default_factory=list)
    about: Sequence[str] = ()  # for the details in its file: what else a reader may ask


class Chart(Protocol):
    """A file of `plots/charts/`."""

    ABOUT: str  # one line

    def draw(self, source: PlotSource) -> Iterator[Picture]:
        """Yield a picture per model, machine, or whatever the chart splits by. Raises NothingToShow
        when the results have nothing for it.
        """


def names() -> list[str]:
    """Return the names of all charts, those first that most readers look for."""
    files = sorted(module.name for module in pkgutil.iter_modules(charts.__path__))
    others = [name for name in files if name not in _SHOWN_FIRST]
    return [*_SHOWN_FIRST, *others]


def chart(name: str) -> Chart:
    """Import a chart. Raises StoreError for an unknown name, and whatever its file raises."""
    if name not in names():
        raise StoreError(f"{name[:100]}: no such chart; {nearest(name[:100], names())}")
    module: Chart = import_module(f"plots.charts.{name}")
    return module


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
    passed_over: Callable[[str, str], object] = lambda name, why: None,
    failed: Failed = stop,
) -> Iterator[Path]:
    """Yield files as they are written, CHART[-ORIGIN]-WHAT.png. A chart that has nothing to
    show of some or all results is reported to `passed_over`, and one that cannot be imported, drawn
    or written to `failed`, perhaps after some of its files.

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
    for name in dict.fromkeys(wanted):
        paths: list[Path] = []
        failure: Exception | None = None
        try:
            _write_chart(name, source, folder, dict.fromkeys(formats), paths)
        except NothingToShow as lack:
            passed_over(name, str(lack))
        except NoSuchAxisError as lack:
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


def _write_chart(
    name: str,
    source: PlotSource,
    folder: Path,
    formats: Iterable[PictureFormat],
    paths: list[Path],
) -> None:
    """Write the pictures of a chart, and add their files to `paths`: all at once, for matplotlib's
    settings are its own while it draws.
    """
    module = chart(name)
    stems: list[str] = []  # of file names; those that come twice are numbered
    with matplotlib.rc_context(settings()):
        for picture in module.draw(source):
            cleaned = safe_name(f"{source.file_name(name)}-{picture.name}".removesuffix("-"))
            stem, number = cleaned.replace(" ", "_"), 1
            while stem in stems:
                number += 1
                stem = f"{cleaned.replace(' ', '_')}-{number}"
            stems.append(stem)
            figure = finish(picture)
            for form in formats:
                path = folder / f"{stem}.{form}"
                with draft_of(path) as draft:
                    write(figure, draft, form, source, picture)
                paths.append(path)
    if not paths:
        raise NothingToShow(f"this chart is of {module.ABOUT}")


def finish(picture: Picture) -> Figure:
    """Return the figure with its footer: what is constant, its marks, and where it was measured."""
    figure = picture.figure
    words = [*_badges(picture.results), *dict.fromkeys(picture.marks)]
    machines = set()  # without what their badges say
    for environment in environments_of(picture.results):
        name = environment.machine.removesuffix(f", {environment.devices}")
        if environment.origin is Origin.SIMULATED:
            name = name.removeprefix("simulated ").removesuffix(", by a cost model")
        machines.add(name)
    where = machines.pop() if len(machines) == 1 else counted(len(machines), "machine")
    lines = []
    for text in (picture.setting, " · ".join(words), where):
        wrapped = _wrapped(text, figure.get_figwidth(), FOOTER_PT).splitlines()
        lines += wrapped[:_MOST_LINES]
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=FOOTER_PT, color=FAINT)
    return figure


def described(source: PlotSource, picture: Picture) -> str:
    """Return everything that must be known of the numbers in a picture, a line each."""
    notes: list[str] = []
    for environment in environments_of(picture.results):
        notes += titles.environment_notes(environment)
    notes = list(dict.fromkeys([*notes, *titles.result_notes(picture.results)]))
    notes += [*picture.about, *source.selection.notes]
    return "\n".join([*notes, source.stored_in, f"made by: {source.command}"])


def write(
    figure: Figure,
    path: Path | BinaryIO,
    form: PictureFormat,
    source: PlotSource,
    picture: Picture,
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
        figure.set_dpi(_DPI)
        canvas = FigureCanvasAgg(figure)
        canvas.print_png(path, metadata=said, pil_kwargs={"compress_level": _COMPRESSION})


def file_names(tables: Sequence[Table]) -> list[str]:
    """Return a name per table, as `resnet50`, or `resnet50-box7-a1b2c3` where machines or software
    differ. Several tables may have one name.
    """
    environments = {table.environment.key for table in tables}
    names = []
    for table in tables:
        parts = [str(table.setting.get("model", ""))]
        if len(environments) > 1:
            parts += [table.environment.host, table.environment.key]
        names.append(safe_name("-".join(filter(None, parts)))[:_LONGEST_NAME])
    return names
