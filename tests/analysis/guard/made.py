"""Histories without a database."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta

import numpy as np

from analysis.guard.histories import HistoryCell, Night, Record
from analysis.guard.noise import Floats

FIRST = date(2026, 1, 1)
AXES = [{"model": model, "num_gpus": num} for model in ("resnet50", "vgg16") for num in (1, 2, 4)]


def noisy(num_cells: int, num_nights: int, noise: float = 0.01, seed: int = 1) -> Floats:
    """Return log throughput of cells at levels of their own."""
    random = np.random.default_rng(seed)
    return random.uniform(3, 8, size=(num_cells, 1)) + noise * random.normal(
        size=(num_cells, num_nights)
    )


def record(
    logs: Floats,
    *,
    axes: Sequence[Mapping[str, object]] = AXES,
    software: Sequence[Mapping[str, str]] = ({},),
    machine: str = "box: 8 cores",
    accepted: Mapping[int, str] = {},
) -> Record:
    """Make a record, a night a day; the last software stays."""
    nights = [
        Night(
            day=FIRST + timedelta(days=night),
            software=software[min(night, len(software) - 1)],
            trials={f"night-{night}": frozenset()},
            accepted=accepted.get(night, ""),
        )
        for night in range(logs.shape[1])
    ]
    cells = [
        HistoryCell(
            trial_id=f"{number}",
            name=" ".join(map(str, of_cell.values())),
            axes=of_cell,
        )
        for number, of_cell in enumerate(axes[: len(logs)])
    ]
    return Record(
        machine=machine,
        host=machine.partition(":")[0],
        is_simulated=False,
        cells=tuple(cells),
        nights=tuple(nights),
        logs=logs,
    )


def day(night: int) -> date:
    return FIRST + timedelta(days=night)
