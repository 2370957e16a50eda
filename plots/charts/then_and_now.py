"""Our throughput beside the closest figures that others published of the same model."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import count

from analysis.pivot import pivot
from analysis.published import precision_as_published, published
from analysis.reported_hosts import hosts_of
from analysis.results import Origin, Result
from analysis.tables.table import Table
from analysis.text.titles import headings, scaling
from plots.pictures.axes import Values
from plots.pictures.curves import Curve, draw_curves
from plots.pictures.drawing import NothingToShow, Picture
from plots.pictures.file_names import file_names
from plots.pictures.footer import doubts
from plots.pictures.points import failures, partly_failed, points
from plots.pictures.sheet import Sheet
from plots.pictures.theme import Palette
from plots.source import Source
from scalemark.host.own_code import typed
from scalemark.records.devices import DeviceKind

ABOUT = "our throughput against published figures of the same model"

MOST_OURS, MOST_THEIRS = 2, 4  # lines: more of them nobody can tell apart
_USUAL_PX = {
    "alexnet": 227,
    "vgg16": 224,
    "resnet50": 224,
    "resnet152": 224,
    "inception3": 299,
    "resnet18_cifar": 32,
}
"""The size of images in published figures, which few sources report."""
_USUAL_GPUS = 8  # published figures on more than that, and than ours, would press ours together
_FAR = 99.0  # where the source does not report the batch
Work = tuple[str, str]
"""Model and unit."""

_ON_CPU = "numbers of CPU devices say nothing beside published ones of GPUs"
_OTHER_WORLDS = (
    "published figures are of other hardware, software and years: they show what was reached, "
    "not who is faster"
)


def draw(source: Source, palette: Palette) -> Iterator[Picture]:
    """Yield a picture per model, setting and machine with GPUs whose model others published."""
    if source.selection.origin is Origin.SIMULATED:
        raise NothingToShow(
            f"published figures stand beside measured ones only; {typed('plots')} tables --origin "
            "simulated --against SOURCE compares simulated numbers with them"
        )
    tables = []
    for table in pivot(source.results):
        has_number = any(result.throughput is not None for result in table.results)
        if has_number and table.environment.origin is Origin.MEASURED:
            tables.append(table)
    on_cpu = [table for table in tables if _is_of_cpu_devices(table)]
    if tables and len(on_cpu) == len(tables):
        raise NothingToShow(_ON_CPU)
    tables = [table for table in tables if not _is_of_cpu_devices(table)]
    theirs = _by_model(published(source.references)) if tables else {}
    tables = [table for table in tables if _work(table) in theirs]
    if not tables:
        raise NothingToShow(
            "of no model there is both a number of ours and a published one; see python -m "
            "store reference list"
        )
    for table, name in zip(tables, file_names(tables), strict=True):
        yield _picture(table, name, theirs[_work(table)], source, palette)
    if on_cpu:
        raise NothingToShow(_ON_CPU, len(on_cpu), len(on_cpu) + len(tables))


def _is_of_cpu_devices(table: Table) -> bool:
    return table.environment.device_kind is DeviceKind.CPU_DEVICE


def _by_model(results: Sequence[Result]) -> dict[Work, list[list[Result]]]:
    """Return the curves of each model: figures of one source that differ in nothing but GPUs."""
    curves: dict[tuple[Work, str, str], list[Result]] = defaultdict(list)
    for result in results:
        curves[(_model(result), result.unit), result.environment.key, result.curve].append(result)
    found: dict[Work, list[list[Result]]] = defaultdict(list)
    for (work, *_), curve in curves.items():
        found[work].append(curve)
    return found


def _work(table: Table) -> Work:
    return _model(table.results[0]), table.unit


def _model(result: Result) -> str:
    """Return the model, also where its source leaves it in doubt."""
    return str(result.axes["model"]).casefold().rstrip("?")


def _picture(
    table: Table, name: str, theirs: Sequence[Sequence[Result]], source: Source, palette: Palette
) -> Picture:
    ours = _fastest(table)
    curves = [
        Curve(
            name=f"ours: {', '.join(filter(None, [strategy, scaling(table)]))}",
            points=points(results),
            failures=failures(results),
            look=source.looks[strategy],
        )
        for strategy, results in ours.items()
    ]
    first = next(iter(ours.values()))[0]
    most_gpus = max(_USUAL_GPUS, *(result.num_gpus for result in table.results))
    near = [[one for one in curve if one.num_gpus <= most_gpus] for curve in theirs]
    theirs = [curve for curve in near if curve]
    closest = sorted(theirs, key=lambda curve: _distance(curve, first))[:MOST_THEIRS]
    taken = {curve.look for curve in curves}
    free = (look for look in count() if look not in taken)
    curves += [_theirs(curve, look) for curve, look in zip(closest, free, strict=False)]
    sheet = Sheet(palette)
    sheet.heading(*headings(table, f"{table.unit} then and now"))
    for line in _other_size(table):
        sheet.text(line, bold=True)
    sheet.gap(0.04)
    marks = draw_curves(
        sheet,
        curves,
        None,
        Values.AMOUNT,
        "number of GPUs",
        is_log=source.is_log,
        with_names=False,
    )
    names = [curve.name for curve in curves]
    handles = [one for one in sheet.figure.axes[0].get_lines() if one.get_label() in names]
    for handle in handles[: len(ours)]:
        handle.set(linewidth=2.6, markersize=6.5)
    sheet.legend(handles, names)
    drawn = [result for curve in (*closest, *ours.values()) for result in curve]
    about = [_OTHER_WORLDS]
    if len(table.rows) > len(ours):
        about.append(
            f"ours: {len(ours)} of {len(table.rows)} strategies, the fastest; see another with "
            "strategy=NAME"
        )
    if len(theirs) > len(closest):
        about.append(
            f"published: {len(closest)} of {len(theirs)} curves on up to {most_gpus} GPUs, the "
            f"closest in precision, data and batch size; see all with {typed('store')} reference "
            f"list model={first.axes['model']}"
        )
    about += partly_failed(drawn)
    return Picture(
        name=name,
        figure=sheet.finished(),
        results=table.results,
        marks=[*marks, *doubts(drawn)],
        about=about,
    )


def _other_size(table: Table) -> list[str]:
    """Return a warning where our images are smaller: work per image goes with its area."""
    usual = _USUAL_PX.get(_model(table.results[0]))
    ours = sorted({result.axes["image_px"] for result in table.results} - {usual})
    if usual is None or not ours:
        return []
    sizes = " and ".join(map(str, ours))
    return [f"Ours at {sizes} px, where {usual} px are usual: another amount of work per image."]


def _fastest(table: Table) -> dict[str, list[Result]]:
    """Return the results of the strategies with the best numbers on the most GPUs."""
    able = [result for result in table.results if result.throughput is not None]
    able.sort(key=lambda result: (-result.num_gpus, -(result.throughput or 0.0)))
    found = list(dict.fromkeys(result.strategy for result in able))[:MOST_OURS]
    return {
        strategy: [result for result in table.results if result.strategy == strategy]
        for strategy in found
    }


def _theirs(curve: Sequence[Result], look: int) -> Curve:
    first = curve[0]
    batch_size, data = first.axes["batch_size"], first.axes["data"]
    words = [
        first.strategy.replace("_n/a", "").strip("_"),
        "batch unknown" if batch_size is None else f"batch {batch_size}",
        first.axes["precision"],
        f"{data} data" if data else "",
    ]
    setting = ", ".join(word for word in words if word)
    source = first.environment.versions.removeprefix("published: ")
    name = f"{source}, {first.environment.host}: {setting}"
    return Curve(name=name, points=points(curve), look=look)


def _distance(curve: Sequence[Result], ours: Result) -> tuple[int, float, bool, bool, int]:
    """Return how far a published curve is from what we ran: in precision, data and batch size, then
    in whether it is of several hosts, then in strategy; long ones first.
    """
    theirs = curve[0]
    batch_size = theirs.axes["batch_size"]
    apart = _FAR
    if batch_size:
        apart = abs(math.log2(batch_size / ours.axes["batch_size"]))
    other_precision = precision_as_published(theirs.axes) != precision_as_published(ours.axes)
    differing = other_precision + (_is_synthetic(theirs) != _is_synthetic(ours)) + (apart > 0)
    over_hosts = any(hosts_of(one.environment.machine, one.num_gpus) != 1 for one in curve)
    other_hosts = over_hosts != (ours.hosts > 1)
    return differing, apart, other_hosts, theirs.strategy != ours.strategy, -len(curve)


def _is_synthetic(result: Result) -> bool:
    return str(result.axes["data"]).startswith("synthetic")
