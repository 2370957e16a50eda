"""The article's tables: per model, strategies x GPU counts, images/s and speed-up; for terminal, Markdown, CSV, JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from analysis.scaling import ScalingTable, TableCell, scaling_tables
from store import queries
from store.database import open_for_reading
from store.records import STAND_INS_NOTE, DeviceKind, Outcome
from store.terminal import make_console, print_columns

MISSING = "–"  # not run
SUSPECT = "*"


def load(url: str, sweep: str | None = None) -> list[ScalingTable]:
    """All tables of a database, or of the trials one sweep asked for. Raises StoreError."""
    return scaling_tables(queries.measured(open_for_reading(url), sweep=sweep))


def title(table: ScalingTable) -> str:
    """Model and setting, as `resnet50 (batch_size 4, image_px 64, fp32, synthetic, weak scaling)`."""
    bare = {"precision": "{}", "data": "{} data", "scaling": "{} scaling"}
    parts = [bare.get(axis, f"{axis} {{}}").format(value) for axis, value in table.setting.items()]
    return f"{table.model} ({', '.join(parts)})"


def notes(table: ScalingTable) -> list[str]:
    """What a reader must know to read the numbers."""
    found = [f"speed-up against the same strategy on 1 of the {table.devices}; {table.machine}; {table.versions}"]
    all_cells = [cell for cells in table.cells.values() for cell in cells.values()]
    if not all(cell.is_valid for cell in all_cells):
        found.append(f"{SUSPECT} suspect; `python -m store show {_first_suspect(table)}` says why")
    if any(cell.num_repeats > 1 for cell in all_cells):
        found.append("median over all completed repeats on this machine, [slowest..fastest, how many]")
    if table.device_kind is DeviceKind.CPU_STAND_IN:
        found.append(STAND_INS_NOTE)
    return found


def _first_suspect(table: ScalingTable) -> str:
    return next(cell.trial_id[:8] for cells in table.cells.values() for cell in cells.values() if not cell.is_valid)


def rows(table: ScalingTable) -> Iterator[tuple[str, ...]]:
    """Per strategy: its name, then a cell per GPU count."""
    for strategy, cells in table.cells.items():
        yield (strategy, *(_text(cells.get(num_gpus)) for num_gpus in table.num_gpus))


def print_terminal(tables: Sequence[ScalingTable]) -> None:
    """On stdout, in columns; the notes once below the tables they hold for."""
    console = make_console()
    for table, notes_now in _with_notes(tables):
        columns = _columns(table)
        console.print(f"\n{title(table)}, images/s and speed-up", style="bold", markup=False)
        print_columns(console, columns, rows(table), right=frozenset(columns[1:]))
        for note in notes_now:
            console.print(note, style="dim", markup=False)


def to_markdown(tables: Sequence[ScalingTable]) -> str:
    """Markdown tables; the notes once below the tables they hold for."""
    blocks = []
    for table, notes_now in _with_notes(tables):
        lines = [
            f"### {title(table)}",
            "",
            _markdown_row(_columns(table)),
            _markdown_row(["---"] + ["---:"] * len(table.num_gpus)),
        ]
        lines += [_markdown_row(row) for row in rows(table)]
        blocks.append("\n".join([*lines, *([""] if notes_now else []), *notes_now]))
    return "\n\n".join(blocks) + "\n"


def _with_notes(tables: Sequence[ScalingTable]) -> Iterator[tuple[ScalingTable, list[str]]]:
    """Each table with its notes, or with none when the next table has the same."""
    for index, table in enumerate(tables):
        repeated = index + 1 < len(tables) and notes(tables[index + 1]) == notes(table)
        yield table, [] if repeated else notes(table)


def to_csv(tables: Sequence[ScalingTable]) -> str:
    """Long form: one line per trial."""
    text = io.StringIO()
    found = to_records(tables)
    writer = csv.DictWriter(text, list(found[0]) if found else ["model"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(record | {"setting": title_setting(record["setting"])} for record in found)
    return text.getvalue()


def to_records(tables: Sequence[ScalingTable]) -> list[dict[str, object]]:
    """One record per trial, for JSON and CSV."""
    return [
        {
            "model": table.model,
            "strategy": strategy,
            "num_gpus": num_gpus,
            "device_kind": str(table.device_kind),
            "images_per_second": cell.images_per_second,
            "speed_up": cell.speed_up,
            "num_repeats": cell.num_repeats,
            "lowest": cell.lowest,
            "highest": cell.highest,
            "is_valid": cell.is_valid,
            "outcome": str(cell.outcome),
            "trial": cell.trial_id,
            "host": table.host,
            "setting": dict(table.setting),
        }
        for table in tables
        for strategy, cells in table.cells.items()
        for num_gpus, cell in cells.items()
    ]


def title_setting(setting: object) -> str:
    return " ".join(f"{axis}={value}" for axis, value in setting.items()) if isinstance(setting, dict) else str(setting)


def _text(cell: TableCell | None) -> str:
    if cell is None:
        return MISSING
    if cell.outcome != Outcome.COMPLETED or cell.images_per_second is None:
        return cell.outcome.replace("_", " ")
    speed_up = f"{cell.speed_up:.2f}x" if cell.speed_up is not None else "no run on 1"
    images = f"{cell.images_per_second:.4g}{'' if cell.is_valid else SUSPECT}"
    if cell.num_repeats > 1:
        return f"{images} [{cell.lowest:.4g}..{cell.highest:.4g}, {cell.num_repeats} runs] ({speed_up})"
    return f"{images} ({speed_up})"


def _columns(table: ScalingTable) -> list[str]:
    return ["strategy", *(f"{num_gpus} {_devices(table, num_gpus)}" for num_gpus in table.num_gpus)]


def _devices(table: ScalingTable, num_gpus: int) -> str:
    return table.devices if num_gpus > 1 else table.devices.removesuffix("s")


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
