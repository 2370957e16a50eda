"""Draws the tables of a results database and what refers to what: `python -m docs.draw_schema`
writes docs/schema.png.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # before pyplot: no screen is needed

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Rectangle
from sqlalchemy import Table

from store.schema import Base

PICTURE = Path(__file__).parent / "schema.png"
COLUMNS = (
    ("gpus", "gpu_links", "machines", "environments", "placements"),
    ("measurements", "op_placements", "step_arrays", "database_info"),
    ("attempts", "tags", "notes"),
    ("trials", "sweep_trials", "repeats"),
    ("sweeps", "left_out", "orchestrators", "events", "reference_results"),
)
"""Where the tables stand: columns of the picture, from left to right, each from top to bottom."""

WIDTH, GAP_X, GAP_Y, LINE = 4.2, 1.8, 0.9, 0.3
MOST_FIELDS = 18  # of one table; the axes of a trial are too many to tell


def draw(path: Path = PICTURE) -> None:
    """Raises ValueError when a table has no place, or a place no table."""
    tables = dict(Base.metadata.tables)
    if missing := set(tables) ^ {name for column in COLUMNS for name in column}:
        raise ValueError(
            f"{', '.join(sorted(missing))}: no such table, or it has no place in COLUMNS"
        )
    figure, axes = pyplot.subplots(figsize=(22, 16))
    boxes = {}
    for number, column in enumerate(COLUMNS):
        x, y = number * (WIDTH + GAP_X), 0.0
        for name in column:
            height = LINE * (len(_fields(tables[name])) + 1.5)
            boxes[name] = (x, y)
            _draw_table(axes, tables[name], x, y, height)
            y -= height + GAP_Y
    for table in tables.values():
        names = [name for name, _ in _fields(table)]
        for key in table.foreign_keys:
            x, y = boxes[table.name]
            line = names.index(key.parent.name) if key.parent.name in names else len(names) - 1
            _draw_arrow(axes, (x, y - (line + 1.8) * LINE), boxes[key.column.table.name])
    axes.autoscale_view()
    axes.set_aspect("equal")
    axes.axis("off")
    axes.set_title(
        "Tables of a results database; arrows lead to the row that is referred to; keys are bold",
        fontsize=14,
    )
    figure.savefig(path, dpi=80, bbox_inches="tight", metadata={"Software": None})
    pyplot.close(figure)


def _fields(table: Table) -> list[tuple[str, bool]]:
    """Name, and whether it is part of the key."""
    found = [(column.name, column.primary_key) for column in table.columns]
    more = len(found) - MOST_FIELDS
    return found if more <= 1 else [*found[:MOST_FIELDS], (f"... {more} more", False)]


def _draw_table(axes: Axes, table: Table, x: float, y: float, height: float) -> None:
    axes.add_patch(
        Rectangle((x, y - height), WIDTH, height, facecolor="white", edgecolor="#333333", zorder=2)
    )
    axes.add_patch(
        Rectangle(
            (x, y - 1.2 * LINE),
            WIDTH,
            1.2 * LINE,
            facecolor="#0072B2",
            edgecolor="#333333",
            zorder=3,
        )
    )
    axes.text(
        x + 0.1,
        y - 0.6 * LINE,
        table.name,
        color="white",
        weight="bold",
        va="center",
        fontsize=11,
        zorder=4,
    )
    for index, (name, is_key) in enumerate(_fields(table)):
        weight = "bold" if is_key else "normal"
        axes.text(
            x + 0.1,
            y - (index + 1.8) * LINE,
            name,
            weight=weight,
            va="center",
            fontsize=9,
            zorder=4,
        )


def _draw_arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    """From a field to the head of a table."""
    to_right = end[0] > start[0]
    x_from = start[0] + (WIDTH if to_right else 0.0)
    x_to = end[0] + (0.0 if to_right else WIDTH)
    bend = 0.0
    if start[0] == end[0]:
        x_from, x_to, bend = start[0], end[0], -0.4 if end[1] > start[1] else 0.4
    points = ((x_from, start[1]), (x_to, end[1] - 0.6 * LINE))
    style = {
        "arrowstyle": "-|>",
        "mutation_scale": 12,
        "color": "#D55E00",
        "alpha": 0.8,
        "zorder": 1,
    }
    axes.add_patch(FancyArrowPatch(*points, connectionstyle=f"arc3,rad={bend}", **style))


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    draw()
