"""Predictions as people read them: a table of each place, what each step is made of, and each cause
of a refusal once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.prediction.predictions import Prediction
from costs.step import Costs
from scalemark.text.untrusted import visible

_MOST_NAMED = 6  # refused cells of one cause that are named


def order(one: Prediction) -> tuple[object, ...]:
    """Of rows: by place, model, strategy, batch, GPUs."""
    return one.place.key, one.work.network.name, _way(one), one.work.batch_size, one.work.num_gpus


def show(console: Console, found: Sequence[Prediction], notes: Sequence[str]) -> None:
    """`found`: in order."""
    for place in dict.fromkeys(one.place.key for one in found):
        of_place = [one for one in found if one.place.key == place]
        console.print(visible(_heading(of_place)), markup=False, soft_wrap=True)
        _print_table(console, of_place)
        for line in (*(line for one in of_place for line in _said(one)), *_refused(of_place)):
            console.print(visible(line), markup=False, soft_wrap=True)
    for note in notes:
        console.print(visible(note), markup=False, soft_wrap=True)


def _heading(found: Sequence[Prediction]) -> str:
    nums = sorted({len(one.rests_on) for one in found}, reverse=True)
    beside = f", what is among them from the {nums[-1]} others" if len(nums) > 1 else ""
    return (
        f"Predicted, not measured: {found[0].place.machine}, from {nums[0]} "
        f"row{'s' * (nums[0] != 1)}{beside}"
    )


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"


_LEFT = ("model", "strategy", "")
# first to last, where a terminal is too narrow: the lines below tell them, too
_DROPPED = ("", "model", "batch")


def _print_table(console: Console, found: Sequence[Prediction]) -> None:
    """No name is cut: columns are left out, and if that does not do, the terminal breaks the
    lines.
    """
    origin = str(found[0].place.origin)
    rows = [_cells(one) for one in found]
    names = [name for name in rows[0] if name != "figure" or any(one.figure for one in found)]
    for dropped in _DROPPED:
        if _width(names, rows, origin) > console.width and dropped in names:
            names.remove(dropped)
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))
    for name in names:
        table.add_column(
            Text(_header(name, origin)), justify="left" if name in _LEFT else "right", no_wrap=True
        )
    for row in rows:
        table.add_row(*(Text(visible(row[name])) for name in names))
    there = console.width
    console.width = max(there, _width(names, rows, origin))
    console.print(table, soft_wrap=True)
    console.width = there


def _header(name: str, origin: str) -> str:
    return origin if name == "figure" else name


def _width(names: Sequence[str], rows: Sequence[dict[str, str]], origin: str) -> int:
    return sum(
        max(cell_len(_header(name, origin)), *(cell_len(row[name]) for row in rows)) + 1
        for name in names
    )


def _cells(one: Prediction) -> dict[str, str]:
    """By column."""
    found = one.predictive
    error = "" if one.error is None else f" {one.error:+.1%}"
    return {
        "model": one.work.network.name,
        "batch": _batch(one),
        "GPUs": str(one.work.num_gpus),
        "strategy": _way(one),
        "images/s": "refused" if found is None else number(found.throughput),
        "95 %": "" if found is None else f"{number(found.low)}..{number(found.high)}",
        "figure": "" if one.figure is None else f"{number(one.figure)}{error}",
        "": "uncertain" if found is not None and found.uncertain else "",
    }


def _batch(one: Prediction) -> str:
    return "-" if one.is_undivided else f"{one.work.batch_size}{'' if one.is_batch_told else '?'}"


def _way(one: Prediction) -> str:
    work = one.work
    extra = [f"repacking {work.gradient_repacking}"] if work.gradient_repacking else []
    extra += ["compact"] if work.compact_gradients else []
    extra += [work.precision] if work.precision != "fp32" else []
    extra += ["XLA"] if work.xla else []
    extra += ["real data"] if work.real_data else []
    extra += [f"{axis}={value}" for axis, value in one.apart]
    return ", ".join([f"{one.strategy}{'' if one.is_told else '?'}", *extra])


def _name(one: Prediction) -> str:
    num = one.work.num_gpus
    return f"{one.work.network.name}, batch {_batch(one)}, {num} GPU{'s' * (num != 1)}, {_way(one)}"


def _said(one: Prediction) -> list[str]:
    if one.predictive is None:
        return []
    return [
        f"{_name(one)}: {_parts(one.predictive.parts)}",
        *(f"  uncertain: {reason}" for reason in one.predictive.uncertain),
    ]


def _refused(found: Sequence[Prediction]) -> list[str]:
    """Each cause once. One measurement is enough for all cells of a cause."""
    causes: dict[str, list[Prediction]] = defaultdict(list)
    for one in found:
        if one.refusal is not None:
            causes[one.refusal.reason].append(one)
    return [line for reason, of in causes.items() for line in _cause(reason, of)]


def _cause(reason: str, of: Sequence[Prediction]) -> list[str]:
    named = "; ".join(_name(one) for one in of[:_MOST_NAMED])
    more = f" and {len(of) - _MOST_NAMED} more" if len(of) > _MOST_NAMED else ""
    measure = next((one.measure_first for one in of if one.measure_first), "")
    cells = f"{len(of)} cell{'s' * (len(of) != 1)}"
    return [
        f"refused, {cells}: {reason}",
        f"  of {named}{more}",
        *([f"  first measure: {measure}"] if measure else []),
    ]


def _parts(parts: Costs) -> str:
    """At the most probable rates, milliseconds."""
    told = {
        "compute": parts.compute_s,
        "launches": parts.launch_s,
        (
            f"communication that nothing hides (of {1e3 * parts.communication_s:.3g}, "
            f"{parts.bottleneck})"
        ): parts.exposed_s,
        "update": parts.update_s,
        "host": parts.host_s,
        "slowest replica": parts.sync_s,
    }
    summed = ", ".join(
        f"{1e3 * seconds:.3g} {name}" for name, seconds in told.items() if seconds >= 1e-4
    )
    made = f"; batches take {1e3 * parts.input_s:.3g} to make" if parts.input_s else ""
    return f"a step of {1e3 * parts.step_s:.4g} ms is {summed}{made}"
