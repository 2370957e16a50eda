"""The best strategy of each model on each GPU count, and where another one takes the lead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from analysis.scaling.crossovers import Lead, crossovers, leads
from analysis.tables.table import Rank
from analysis.text.titles import scaled
from plots.looks import Looks
from plots.pictures.by_model import Models, by_model
from plots.pictures.drawing import NothingToShow, Picture
from plots.pictures.file_names import file_names
from plots.pictures.lettering import height_in, wrapped
from plots.pictures.points import PARTLY, partly_failed, partly_marked, symbol
from plots.pictures.sheet import MARGIN_IN, Sheet, bare
from plots.pictures.theme import FOOTER_PT, SMALL_PT, WIDTH_IN, Palette
from plots.source import Source
from plots.tables.cells import NOT_RUN, OUT, TIE

ABOUT = "the best strategy of each model on each GPU count, with ties and crossovers"

_NAMES_IN, _CELL_IN = 0.85, 0.72  # for the names of models; a cell at least
_UNKNOWN = "?"
_DOUBTS = {Rank.UNKNOWN: _UNKNOWN, Rank.OUT: OUT}
_CENTERED: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": FOOTER_PT}

Leads = Mapping[str, Sequence[Lead]]
"""The leading strategies by model, in the order of GPU counts."""


def draw(source: Source, palette: Palette) -> Iterator[Picture]:
    """Yield a picture per setting and machine where strategies compete."""
    found: list[tuple[Models, Leads]] = []
    for models in by_model(source.results):
        led = {model: leads(models.of(model)) for model in models.models}
        if any(lead.ahead for of_model in led.values() for lead in of_model):
            found.append((models, led))
    if not found:
        raise NothingToShow("no two strategies completed on the same number of GPUs")
    names = file_names([models.table for models, _ in found])
    for (models, led_by), name in zip(found, names, strict=True):
        yield _picture(models, led_by, name, source.looks, palette)


def _picture(models: Models, led: Leads, name: str, looks: Looks, palette: Palette) -> Picture:
    devices = models.table.environment.devices
    cell_in = max(_CELL_IN, (WIDTH_IN - _NAMES_IN - 2 * MARGIN_IN) / max(3, len(models.gpus)))
    sheet = Sheet(palette, max(WIDTH_IN, _NAMES_IN + cell_in * len(models.gpus) + 2 * MARGIN_IN))
    sheet.heading(scaled("best strategy", models.table), models.setting())
    _map(sheet, models, led, looks, cell_in)
    every = [lead for of_model in led.values() for lead in of_model]
    for line in _legend(every):
        sheet.text(line, FOOTER_PT)
    sheet.gap(0.06)
    sheet.text(f"Crossovers, by number of {devices}", bold=True)
    for model in models.models:
        sheet.text(crossing(model, led[model], devices))
    leading = [lead.best.result for lead in every]
    return Picture(
        name=name,
        figure=sheet.finished(),
        results=models.table.results,
        marks=partly_marked(leading),
        about=partly_failed(leading),
    )


def crossing(model: str, found: Sequence[Lead], devices: str) -> str:
    """Return in words who leads, as `vgg16: ps_cpu; from 4 GPUs on replicated_nccl`."""
    if not found:
        return f"{model}: nothing completed"
    changes = crossovers(found)
    first = found[0].strategy
    if not changes:
        return f"{model}: {first}, no crossover"
    parts = [first if changes[0].before else "a tie"]
    for change in changes:
        text = f"{change.span(lambda num_gpus: f'{num_gpus} {devices}')} {change.after}"
        parts.append(text if change.is_certain else f"perhaps {text} ({change.doubt})")
    return f"{model}: {'; '.join(parts)}"


def _map(sheet: Sheet, models: Models, led: Leads, looks: Looks, cell_in: float) -> None:
    texts = {
        (model, lead.num_gpus): _text(lead, cell_in - 0.06)
        for model in models.models
        for lead in led[model]
    }
    labels = [models.label(model, _NAMES_IN - 0.06) for model in models.models]
    row_in = 0.12 + max(height_in(text, FOOTER_PT) for text in texts.values())
    row_in = max(row_in, *(0.06 + height_in(label, SMALL_PT) for label in labels))
    right_in = sheet.width_in - _NAMES_IN - MARGIN_IN - cell_in * len(models.gpus)
    axes = sheet.axes(row_in * len(labels), _NAMES_IN + MARGIN_IN, right_in)
    bare(axes, len(models.gpus), len(labels))
    axes.set_xticks([index + 0.5 for index in range(len(models.gpus))], list(map(str, models.gpus)))
    axes.set_yticks([index + 0.5 for index in range(len(labels))], labels)
    axes.set_xlabel(f"number of {models.table.environment.devices}")
    border: dict[str, Any] = {"lw": 3, "solid_capstyle": "butt", "zorder": 4}
    for down, model in enumerate(models.models):
        by_gpus = {lead.num_gpus: lead for lead in led[model]}
        changes = {change.num_gpus for change in crossovers(led[model])}
        for across, num_gpus in enumerate(models.gpus):
            corner = across, down
            if num_gpus in by_gpus:
                lead, text = by_gpus[num_gpus], texts[model, num_gpus]
                _cell(axes, corner, lead, text, sheet.palette, looks)
            else:
                _empty_cell(axes, corner, _failures(models, model, num_gpus), sheet.palette)
            if num_gpus in changes:
                ends = [down + 0.04, down + 0.96]
                axes.plot([across, across], ends, color=sheet.palette.ink, **border)
    sheet.gap(0.5)


def _empty_cell(axes: Axes, corner: tuple[int, int], text: str, palette: Palette) -> None:
    look: dict[str, Any] = {"facecolor": palette.ground, "edgecolor": palette.faint, "lw": 0.5}
    axes.add_patch(Rectangle(corner, 1, 1, **look))
    axes.text(corner[0] + 0.5, corner[1] + 0.5, text, **_CENTERED)


def _cell(
    axes: Axes, corner: tuple[int, int], lead: Lead, text: str, palette: Palette, looks: Looks
) -> None:
    face = palette.tint(palette.color(looks[lead.strategy]), 0.4)
    axes.add_patch(Rectangle(corner, 1, 1, facecolor=face, edgecolor=palette.ground, lw=1.5))
    box = None
    if lead.tied:
        hatch: dict[str, Any] = {"facecolor": "none", "hatch": "///", "lw": 0}
        edge = palette.tint(palette.color(looks[lead.tied[0]]), 0.75)
        axes.add_patch(Rectangle(corner, 1, 1, edgecolor=edge, **hatch))
        box = {"facecolor": face, "edgecolor": "none", "pad": 1}
    center = corner[0] + 0.5, corner[1] + 0.5
    axes.text(*center, text, bbox=box, linespacing=1.15, **_CENTERED)


def _text(lead: Lead, within_in: float) -> str:
    lines = [f"{lead.strategy}{PARTLY if lead.best.result.failed else ''}"]
    lines += [f"{TIE} {other}" for other in lead.tied[:2]]
    if len(lead.tied) > 2:
        lines.append(f"{TIE} {len(lead.tied) - 2} more")
    if not lead.tied and lead.ahead is None:
        lines.append("alone")
    elif not lead.tied:
        doubt = _DOUBTS.get(_rank_of_next(lead), "")
        lines.append(f"{lead.ahead:.2f}x next {doubt}".rstrip())
    return "\n".join(wrapped(line, FOOTER_PT, within_in) for line in lines)


def _rank_of_next(lead: Lead) -> Rank:
    """Return whether, and why not, the second best is known to be slower."""
    able = [cell for cell in lead.others if cell.result.throughput is not None]
    if lead.tied or not able:
        return Rank.ALONE
    return max(able, key=lambda cell: cell.result.throughput or 0.0).rank


def _failures(models: Models, model: str, num_gpus: int) -> str:
    """Return what a cell says in which nothing completed."""
    found = [one for one in models.of(model).results if one.num_gpus == num_gpus]
    return "\n".join(dict.fromkeys(map(symbol, found))) or NOT_RUN


def _legend(every: Sequence[Lead]) -> list[str]:
    """Explain the marks that occur."""
    ranks = {_rank_of_next(lead) for lead in every}
    lines = {
        "1.10x next: throughput over that of the second best": any(
            lead.ahead and not lead.tied for lead in every
        ),
        f"hatched, {TIE}: a tie, the 95 % interval of the ratio contains 1": any(
            lead.tied for lead in every
        ),
        f"{_UNKNOWN}: single processes; another run could turn it": Rank.UNKNOWN in ranks,
        f"{OUT}: stopped early by a race; its few repeats are not conclusive": Rank.OUT in ranks,
        "alone: no other strategy completed there": any(lead.ahead is None for lead in every),
    }
    return [line for line, occurs in lines.items() if occurs]
