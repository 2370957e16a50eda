"""Our images/s against figures that others published of the same model: the closest ones first,
with their sources.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import count

from analysis.hosts_told import hosts_of
from analysis.pivot import Label, Table, pivot
from analysis.published import precision_as_published, published
from analysis.results import Origin, Result
from analysis.text.titles import headings, row_title, scaling, table_notes
from plots.looks import Looks
from plots.pictures.curves import Curve, Values, draw_curves
from plots.pictures.drawing import NothingToShow, Picture
from plots.pictures.file_names import file_names
from plots.pictures.points import failures, partly_failed, points
from plots.pictures.sheet import Sheet
from plots.pictures.theme import Palette
from plots.source import Source
from scalemark.records.devices import DeviceKind

ABOUT = "our images/s against published figures of the same model"

MOST_OURS, MOST_THEIRS = 2, 4  # lines: more of them nobody can tell apart
_USUAL_PX = {
    "alexnet": 227,
    "vgg16": 224,
    "resnet50": 224,
    "resnet152": 224,
    "inception3": 299,
    "resnet18_cifar": 32,
}
"""Images that published figures are of: few sources tell it."""
_FAR = 99.0  # a batch that its source does not tell
_OTHER_WORLDS = (
    "published figures are of other hardware, software and years: they show what was reached, "
    "not who is faster"
)


def draw(source: Source, palette: Palette) -> Iterator[Picture]:
    """A picture per model, setting and machine of ours whose model others published."""
    tables = [
        table
        for table in pivot(source.results)
        if table.place.origin is Origin.MEASURED and _has_number(table)
    ]
    theirs = _by_model(published(source.references)) if tables else {}
    tables = [table for table in tables if _model(table.results[0]) in theirs]
    if source.selection.origin is Origin.SIMULATED:
        compared = (
            "python -m plots tables --origin simulated --against SOURCE sets simulated numbers "
            "against them"
        )
        raise NothingToShow(f"published figures stand beside measured ones only; {compared}")
    if not tables:
        raise NothingToShow(
            "of no model there is both a number of ours and a published one; see python -m "
            "store reference list"
        )
    for table, name in zip(tables, file_names(tables), strict=True):
        yield _picture(table, name, theirs[_model(table.results[0])], source.looks, palette)


def _has_number(table: Table) -> bool:
    return any(result.throughput is not None for result in table.results)


def _by_model(results: Sequence[Result]) -> dict[str, list[list[Result]]]:
    """Curves of each model: figures of one source that differ in nothing but the number of GPUs."""
    curves: dict[tuple[str, str, str], list[Result]] = defaultdict(list)
    for result in results:
        curves[_model(result), result.place.key, result.curve].append(result)
    found: dict[str, list[list[Result]]] = defaultdict(list)
    for (model, *_), curve in curves.items():
        found[model].append(curve)
    return found


def _model(result: Result) -> str:
    """Also where its source leaves it in doubt."""
    return str(result.axes["model"]).casefold().rstrip("?")


def _picture(
    table: Table, name: str, theirs: Sequence[Sequence[Result]], looks: Looks, palette: Palette
) -> Picture:
    rows = _fastest(table)
    ours = [_ours(table, row, looks[str(row[0])]) for row in rows]
    closest = sorted(
        theirs, key=lambda curve: _distance(curve, table.cells[_any_cell(table, rows[0])].result)
    )[:MOST_THEIRS]
    free = (look for look in count() if look not in {curve.look for curve in ours})
    curves = [*ours, *(_theirs(curve, look) for curve, look in zip(closest, free, strict=False))]
    sheet = Sheet(palette)
    sheet.heading(*headings(table, f"{table.unit} then and now"))
    for told in _other_size(table):
        sheet.text(told, bold=True)
    sheet.gap(0.04)
    counted = "number of GPUs" + (
        "" if table.place.device_kind is DeviceKind.GPU else f" (ours: {table.place.devices})"
    )
    beyond = draw_curves(sheet, curves, None, Values.AMOUNT, counted, with_legend=False)
    handles = [
        line
        for line in sheet.figure.axes[0].get_lines()
        if line.get_label() in {curve.name for curve in curves}
    ]
    for line in handles[: len(ours)]:
        line.set(linewidth=2.6, markersize=6.5)
    sheet.legend(handles, [curve.name for curve in curves])
    return Picture(
        name=name, figure=sheet.finished(), about=[*_about(table, rows, closest, theirs), *beyond]
    )


def _about(
    table: Table,
    rows: Sequence[Label],
    shown: Sequence[Sequence[Result]],
    theirs: Sequence[Sequence[Result]],
) -> list[str]:
    found = [*table_notes(table), _OTHER_WORLDS]
    if len(table.rows) > len(rows):
        found.append(
            f"ours: {len(rows)} of {len(table.rows)} strategies, the fastest; see another "
            "with strategy=NAME"
        )
    if len(theirs) > len(shown):
        told = (
            f"published: {len(shown)} of {len(theirs)} curves, the closest in precision, data "
            "and batch size"
        )
        found.append(
            f"{told}; see all with python -m store reference list model="
            f"{table.results[0].axes['model']}"
        )
    drawn = [
        *(of for curve in shown for of in curve),
        *(of for of in table.results if of.strategy in {row[0] for row in rows}),
    ]
    found += partly_failed(drawn, "ringed")
    if not all(of.is_valid for of in drawn):
        found.append("hollow: suspect or invalid, or in doubt already in its source")
    return found


def _other_size(table: Table) -> list[str]:
    """Work per image goes with its area: what was smaller is no speed-up."""
    usual = _USUAL_PX.get(_model(table.results[0]))
    ours = sorted({result.axes["image_px"] for result in table.results} - {usual})
    if usual is None or not ours:
        return []
    return [
        (
            f"Ours at {' and '.join(map(str, ours))} px, where {usual} px are usual: another "
            "amount of work per image."
        )
    ]


def _fastest(table: Table) -> list[Label]:
    """Strategies by their best number on the most GPUs that any completed on; the best first."""
    able = [cell.result for cell in table.cells.values() if cell.result.throughput is not None]
    order = sorted(able, key=lambda of: (-of.num_gpus, -(of.throughput or 0.0)))
    return [(strategy,) for strategy in dict.fromkeys(of.strategy for of in order)][:MOST_OURS]


def _any_cell(table: Table, row: Label) -> tuple[Label, Label]:
    return next(key for key in table.cells if key[0] == row)


def _ours(table: Table, row: Label, look: int) -> Curve:
    results = [cell.result for (of, _), cell in table.cells.items() if of == row]
    return Curve(
        name=f"ours: {row_title(table, row)}, {scaling(table)}",
        points=points(results),
        failures=failures(results),
        look=look,
    )


def _theirs(curve: Sequence[Result], look: int) -> Curve:
    first = curve[0]
    batch_size = first.axes["batch_size"]
    told = [
        first.strategy.replace("_n/a", "").strip("_"),
        "batch unknown" if batch_size is None else f"batch {batch_size}",
        first.axes["precision"],
        f"{first.axes['data']} data" if first.axes["data"] else "",
    ]
    source = first.place.versions.removeprefix("published: ")
    return Curve(
        name=f"{source}, {first.place.host}: {', '.join(filter(None, told))}",
        points=points(curve),
        failures=(),
        look=look,
    )


def _distance(curve: Sequence[Result], ours: Result) -> tuple[int, float, bool, bool, int]:
    """How far a published curve is from what we ran: in precision, data and batch size, then in
    whether it is of several hosts, then in strategy; long ones first.
    """
    theirs = curve[0]
    batch_size = theirs.axes["batch_size"]
    apart = abs(math.log2(batch_size / ours.axes["batch_size"])) if batch_size else _FAR
    other_precision = precision_as_published(theirs.axes) != precision_as_published(ours.axes)
    differing = other_precision + (_is_synthetic(theirs) != _is_synthetic(ours)) + (apart > 0)
    other_hosts = any(hosts_of(one.place.machine, one.num_gpus) != 1 for one in curve) != (
        ours.hosts > 1
    )
    return differing, apart, other_hosts, theirs.strategy != ours.strategy, -len(curve)


def _is_synthetic(result: Result) -> bool:
    return str(result.axes["data"]).startswith("synthetic")
