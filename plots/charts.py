"""PNG charts, one per table: images/s and speed-up against GPUs, with the ideal line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # before pyplot: no screen is needed

from matplotlib import pyplot
from matplotlib.axes import Axes

from analysis.scaling import ScalingTable
from plots.tables import title
from store.errors import StoreError
from store.records import STAND_INS_NOTE, DeviceKind

# Okabe and Ito's colors: told apart by the color-blind; markers tell them apart in grey.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def draw_all(tables: Sequence[ScalingTable], folder: Path) -> list[Path]:
    """One PNG per table that has a number in it; returns their paths. Raises StoreError when the folder cannot be written."""
    drawable = [
        table for table in tables if any(cell.images_per_second for cells in table.cells.values() for cell in cells.values())
    ]
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for table in drawable:
            path = folder / f"{_file_name(table, [other for other in drawable if other.model == table.model])}.png"
            _draw(table, path)
            paths.append(path)
    except OSError as error:
        raise StoreError(f"{error.filename or folder}: {error.strerror}; choose another folder") from error
    return paths


def _draw(table: ScalingTable, path: Path) -> None:
    figure, (throughput, speed_up) = pyplot.subplots(1, 2, figsize=(10, 4.8), layout="constrained")
    baselines = []
    for index, (strategy, cells) in enumerate(table.cells.items()):
        style = {"color": COLORS[index % len(COLORS)], "marker": MARKERS[index % len(MARKERS)], "label": strategy}
        points = [(n, cell.images_per_second, cell.speed_up) for n, cell in cells.items() if cell.images_per_second is not None]
        throughput.plot([n for n, _, _ in points], [images for _, images, _ in points], **style)
        scaled = [(n, ratio) for n, _, ratio in points if ratio is not None]
        speed_up.plot([n for n, _ in scaled], [ratio for _, ratio in scaled], **style)
        baselines += [images for n, images, _ in points if n == 1]
    if baselines and len(table.num_gpus) > 1:
        best = max(baselines)
        throughput.plot(table.num_gpus, [best * n for n in table.num_gpus], "--", color="grey", label="ideal: best on 1, times N")
        speed_up.plot(table.num_gpus, table.num_gpus, "--", color="grey", label="ideal")
    _finish(throughput, table, "images/s")
    _finish(speed_up, table, "speed-up over the same strategy on 1")
    throughput.legend(fontsize=8)
    if not baselines:
        speed_up.text(0.5, 0.5, "no run on 1 device to compare with", ha="center", transform=speed_up.transAxes)
    figure.suptitle(title(table), fontsize=11)
    figure.supxlabel(_footer(table), fontsize=7, color="dimgrey")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _finish(axes: Axes, table: ScalingTable, label: str) -> None:
    axes.set_xlabel(f"number of {table.devices}")
    axes.set_ylabel(label)
    axes.set_xticks(table.num_gpus)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)


def _footer(table: ScalingTable) -> str:
    line = f"{table.machine}; {table.versions}; one curve per strategy, medians over repeats"
    return f"{line}\n{STAND_INS_NOTE}" if table.device_kind is DeviceKind.CPU_STAND_IN else line


def _file_name(table: ScalingTable, all_of_model: Sequence[ScalingTable]) -> str:
    """The model's name, and what tells its charts apart where it has several."""
    parts = [table.model]
    parts += [
        f"{axis}={value}" for axis, value in table.setting.items() if len({other.setting[axis] for other in all_of_model}) > 1
    ]
    if len({other.made_on for other in all_of_model}) > 1:
        parts.append(f"{table.host}-{table.made_on}")
    return re.sub(r"[^A-Za-z0-9=._-]+", "_", "-".join(parts))
