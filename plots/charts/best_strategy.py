"""The best strategy of each model on each GPU count, and from how many GPUs on another one
leads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from analysis.pivot import Rank
from analysis.scaling.crossovers import Lead, crossovers, leads
from analysis.text.titles import scaling, table_notes
from plots.looks import Looks
from plots.pictures.by_model import Models, by_model
from plots.pictures.drawing import NothingToShow, Picture
from plots.pictures.file_names import file_names
from plots.pictures.lettering import height_in, wrapped
from plots.pictures.points import PARTLY, partly_failed, symbol
from plots.pictures.sheet import MARGIN_IN, Sheet, bare
from plots.pictures.theme import FOOTER_PT, SMALL_PT, WIDTH_IN, Palette
from plots.source import Source
from plots.tables.layout import NOT_RUN, OUT, TIE

ABOUT = "the best strategy of each model on each GPU count, with ties and crossovers"

_NAMES_IN, _CELL_IN = 0.85, 0.72  # for the names of models; a cell at least
_UNKNOWN = "?"
_DOUBTS = {_UNKNOWN: Rank.UNKNOWN, OUT: Rank.OUT}


def draw(source: Source, palette: Palette) -> Iterator[Picture]:
    """A picture per setting and machine where strategies compete."""
    found = [
        (of, {model: leads(of.of(model)) for model in of.models}) for of in by_model(source.results)
    ]
    found = [
        (of, led)
        for of, led in found
        if any(lead.ahead for found_leads in led.values() for lead in found_leads)
    ]
    if not found:
        raise NothingToShow("no two strategies completed on the same number of GPUs")
    for (models, led), name in zip(found, file_names([of.table for of, _ in found]), strict=True):
        yield _picture(models, led, name, source.looks, palette)


def _picture(
    models: Models, led: Mapping[str, Sequence[Lead]], name: str, looks: Looks, palette: Palette
) -> Picture:
    devices = models.table.place.devices
    cell_in = max(_CELL_IN, (WIDTH_IN - _NAMES_IN - 2 * MARGIN_IN) / max(3, len(models.gpus)))
    sheet = Sheet(palette, max(WIDTH_IN, _NAMES_IN + cell_in * len(models.gpus) + 2 * MARGIN_IN))
    sheet.heading(f"best strategy ({scaling(models.table)})", models.setting())
    _map(sheet, models, led, looks, cell_in)
    every = [lead for of in led.values() for lead in of]
    for told in _legend(every):
        sheet.text(told, FOOTER_PT)
    sheet.gap(0.06)
    sheet.text(f"Crossovers, by number of {devices}", bold=True)
    for model in models.models:
        sheet.text(crossing(model, led[model], devices))
    return Picture(
        name=name,
        figure=sheet.finished(),
        about=[
            *table_notes(models.table),
            *partly_failed([lead.best.result for lead in every], PARTLY),
        ],
    )


def crossing(model: str, found: Sequence[Lead], devices: str) -> str:
    """In words, as `vgg16: ps_cpu; from 4 GPUs on replicated_nccl`."""
    if not found:
        return f"{model}: nothing completed"
    changes = crossovers(found)
    parts = ["a tie" if changes and not changes[0].before else found[0].strategy]
    for change in changes:
        told = f"{change.span(lambda num_gpus: f'{num_gpus} {devices}')} {change.after}"
        parts.append(told if change.is_certain else f"perhaps {told} ({change.doubt})")
    return (
        f"{model}: {'; '.join(parts)}" if len(parts) > 1 else f"{model}: {parts[0]}, no crossover"
    )


def _map(
    sheet: Sheet, models: Models, led: Mapping[str, Sequence[Lead]], looks: Looks, cell_in: float
) -> None:
    texts = {
        (model, lead.num_gpus): _text(lead, cell_in - 0.06)
        for model in models.models
        for lead in led[model]
    }
    labels = [models.label(model, _NAMES_IN - 0.06) for model in models.models]
    row_in = 0.12 + max(height_in(text, FOOTER_PT) for text in texts.values())
    row_in = max(row_in, *(0.06 + height_in(label, SMALL_PT) for label in labels))
    right_in = sheet.width_in - _NAMES_IN - MARGIN_IN - cell_in * len(models.gpus)
    axes = sheet.axes(row_in * len(models.models), _NAMES_IN + MARGIN_IN, right_in)
    bare(axes, len(models.gpus), len(models.models))
    axes.set_xticks(
        [index + 0.5 for index in range(len(models.gpus))],
        [str(num_gpus) for num_gpus in models.gpus],
    )
    axes.set_yticks([index + 0.5 for index in range(len(models.models))], labels)
    axes.set_xlabel(f"number of {models.table.place.devices}")
    colors = {strategy: sheet.palette.color(look) for strategy, look in looks.items()}
    for down, model in enumerate(models.models):
        by_gpus = {lead.num_gpus: lead for lead in led[model]}
        changes = {change.num_gpus for change in crossovers(led[model])}
        for across, num_gpus in enumerate(models.gpus):
            _cell(
                axes,
                (across, down),
                by_gpus.get(num_gpus),
                texts.get((model, num_gpus)),
                colors,
                sheet.palette,
            )
            if num_gpus in changes:
                axes.plot(
                    [across, across],
                    [down + 0.04, down + 0.96],
                    color=sheet.palette.ink,
                    lw=3,
                    solid_capstyle="butt",
                    zorder=4,
                )
            if (model, num_gpus) not in texts:
                axes.text(
                    across + 0.5,
                    down + 0.5,
                    _failures(models, model, num_gpus),
                    ha="center",
                    va="center",
                    fontsize=FOOTER_PT,
                )
    sheet.gap(0.5)


def _cell(
    axes: Axes,
    corner: tuple[int, int],
    lead: Lead | None,
    text: str | None,
    colors: Mapping[str, str],
    palette: Palette,
) -> None:
    if lead is None or text is None:
        axes.add_patch(
            Rectangle(corner, 1, 1, facecolor=palette.ground, edgecolor=palette.faint, lw=0.5)
        )
        return
    face = palette.tint(colors[lead.strategy], 0.4)
    axes.add_patch(Rectangle(corner, 1, 1, facecolor=face, edgecolor=palette.ground, lw=1.5))
    if lead.tied:
        hatch = palette.tint(colors[lead.tied[0]], 0.75)
        axes.add_patch(
            Rectangle(corner, 1, 1, facecolor="none", edgecolor=hatch, hatch="///", lw=0)
        )
    box = {"facecolor": face, "edgecolor": "none", "pad": 1} if lead.tied else None
    axes.text(
        corner[0] + 0.5,
        corner[1] + 0.5,
        text,
        ha="center",
        va="center",
        fontsize=FOOTER_PT,
        bbox=box,
        linespacing=1.15,
    )


def _text(lead: Lead, within_in: float) -> str:
    told = [
        f"{lead.strategy}{PARTLY if lead.best.result.failed else ''}",
        *(f"{TIE} {other}" for other in lead.tied[:2]),
    ]
    if len(lead.tied) > 2:
        told.append(f"{TIE} {len(lead.tied) - 2} more")
    if not lead.tied and lead.ahead is None:
        told.append("alone")
    elif not lead.tied:
        told.append(
            f"{lead.ahead:.2f}x "
            f"next{''.join(f' {mark}' for mark, rank in _DOUBTS.items() if _next_is(lead, rank))}"
        )
    return "\n".join(wrapped(text, FOOTER_PT, within_in) for text in told)


def _next_is(lead: Lead, rank: Rank) -> bool:
    """Whether the next is not told to be slower, for the reason that `rank` gives."""
    able = [cell for cell in lead.others if cell.result.throughput is not None]
    following = max(able, key=lambda cell: cell.result.throughput or 0.0, default=None)
    return not lead.tied and following is not None and following.rank is rank


def _failures(models: Models, model: str, num_gpus: int) -> str:
    """Of a cell in which nothing completed."""
    found = [of for of in models.of(model).results if of.num_gpus == num_gpus]
    return "\n".join(dict.fromkeys(map(symbol, found))) or NOT_RUN


def _legend(every: Sequence[Lead]) -> list[str]:
    """How to read the marks that occur."""
    found = (
        ["1.10x next: images/s over those of the second best"]
        if any(lead.ahead and not lead.tied for lead in every)
        else []
    )
    if any(lead.tied for lead in every):
        found.append(f"hatched, {TIE}: a tie, the 95 % interval of the ratio contains 1")
    if any(_next_is(lead, Rank.UNKNOWN) for lead in every):
        found.append(f"{_UNKNOWN}: single processes; another run could turn it")
    if any(_next_is(lead, Rank.OUT) for lead in every):
        found.append(f"{OUT}: put out of a race; its few repeats cannot tell")
    if any(lead.ahead is None for lead in every):
        found.append("alone: no other strategy completed there")
    return found
