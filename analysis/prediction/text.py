"""Predictions as people read them: a table, what each step is made of, and what was refused."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from rich.console import Console

from analysis.options import say_ending
from analysis.prediction.predictions import Prediction
from analysis.text import badges
from costs.step import Costs
from scalemark.cli.terminal import print_columns
from scalemark.text.natural import natural
from scalemark.text.untrusted import visible
from scalemark.text.wording import as_typed, counted

_UNCERTAIN = "uncertain"  # the badge
_MOST_NAMED = 6  # refused cells of one cause that are named
_MOST_LISTED = 5  # causes, and notes, where nothing was predicted


def order(one: Prediction) -> tuple[object, ...]:
    """Return the key to sort by: environment, item, free axes, model, strategy, batch, GPUs."""
    return (
        one.environment.key,
        one.item,
        natural(_free(one)),
        one.work.network.name,
        _way(one),
        one.work.batch_size,
        one.work.num_gpus,
    )


def show(
    console: Console, found: Sequence[Prediction], notes: Sequence[str], target: str = ""
) -> None:
    """Print predictions, which are in order. `target` names the box that they are for, where it is
    not the rows' own.
    """
    if all(one.refusal is not None for one in found):
        _show_refused(console, found, notes)
        return
    machines = {one.environment.key: one.environment.machine for one in found}
    alike = Counter(machines.values())
    for kind in dict.fromkeys(one.kind for one in found):
        of_kind = [one for one in found if one.kind == kind]
        where = of_kind[0].environment
        environment = (
            f"{where.machine} ({where.versions})" if alike[where.machine] > 1 else where.machine
        )
        _say(console, [_heading(of_kind, environment, target)])
        fastest_first = sorted(of_kind, key=_speed)
        _print_table(console, fastest_first)
        lines = []
        if (fastest := fastest_first[0]).predictive is not None:
            lines.append(f"{_name(fastest)}: {_parts(fastest.predictive.parts)}")
        if sum(one.predictive is not None for one in of_kind) > 1:
            lines.append("--json says what each step is made of")
        _say(console, [*lines, *_uncertain(of_kind), *_refused(of_kind)])
    _say(console, notes)
    used = {_UNCERTAIN for one in found if one.predictive and one.predictive.uncertain}
    for one in found:
        used.update(badges.of_environment(one.environment))
    if meanings := badges.foot(used):
        console.print(visible(meanings), style="dim", markup=False, soft_wrap=True)


def _speed(one: Prediction) -> tuple[object, ...]:
    """Return the key to sort a table by: the fastest of each model first, what is refused last."""
    throughput = one.predictive.throughput if one.predictive else 0.0
    return one.predictive is None, one.work.network.name, -throughput


def _show_refused(console: Console, found: Sequence[Prediction], notes: Sequence[str]) -> None:
    """Print the first causes, those of most cells first, and the first notes: a table of nothing
    but refusals says no more.
    """
    causes = sorted(_causes(found).items(), key=lambda cause: -len(cause[1]))
    for reason, of in causes[:_MOST_LISTED]:
        _say(console, _cause(reason, of))
    if others := causes[_MOST_LISTED:]:
        cells = counted(sum(len(of) for _, of in others), "cell")
        _say(console, [f"and {counted(len(others), 'more reason')}, of {cells}: --json has them"])
    _say(console, notes[:_MOST_LISTED])
    if more := len(notes[_MOST_LISTED:]):
        _say(console, [f"and {counted(more, 'more note')}: --json has them"])


def _say(console: Console, lines: Sequence[str]) -> None:
    for line in lines:
        say_ending(console, line)


def _heading(found: Sequence[Prediction], machine: str, target: str) -> str:
    nums = sorted({len(one.rests_on) for one in found}, reverse=True)
    beside = f", what is among them from the {nums[-1]} others" if len(nums) > 1 else ""
    rows = counted(nums[0], "row") if nums[0] else "no row, by its profile and the physics alone"
    free = _free(found[0])
    of_free = f" with {free}" if free else ""
    if target:
        return f"Predicted for {target}, not measured{of_free}: from {rows}{beside} of {machine}"
    return f"Predicted, not measured: {machine}{of_free}, from {rows}{beside}"


def _free(one: Prediction) -> str:
    """Return its free axes, as `axes.zero=0`."""
    return " ".join(f"{name}={value}" for name, value in one.free.items())


def number(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _print_table(console: Console, found: Sequence[Prediction]) -> None:
    origin, unit = str(found[0].environment.origin), found[0].unit
    heading = f"{unit} [95 %]"
    columns = ["model", "batch", "GPUs", "strategy", heading]
    has_figures = any(one.figure is not None for one in found)
    if has_figures:
        columns.append(origin)
    rows = []
    names_fp32 = len({one.work.precision for one in found}) > 1
    for one in found:
        way = _way(one, names_fp32=names_fp32)
        row = [one.work.network.name, _batch(one), str(one.work.num_gpus), way]
        throughput, doubt = "refused", ""
        if one.predictive is not None:
            low, high = number(one.predictive.low), number(one.predictive.high)
            throughput = f"{number(one.predictive.throughput)} [{low}, {high}]"
            doubt = _UNCERTAIN if one.predictive.uncertain else ""
        row.append(throughput)
        if has_figures:
            row.append(_figure(one))
        rows.append([*row, doubt])
    right = frozenset(("batch", "GPUs", heading, origin))
    has_doubts = any(row[-1] for row in rows)
    print_columns(console, [*columns, "doubts" if has_doubts else ""], rows, right=right)


def _figure(one: Prediction) -> str:
    if one.figure is None:
        return ""
    error = "" if one.error is None else f" {one.error:+.1%}"
    return f"{number(one.figure)}{error}"


def _batch(one: Prediction) -> str:
    if one.is_undivided:
        return "-"
    return str(one.work.batch_size) if one.is_batch_known else f"{one.work.batch_size}?"


def _way(one: Prediction, *, names_fp32: bool = False) -> str:
    work = one.work
    said = [one.strategy if one.is_known else f"{one.strategy}?"]
    if work.gradient_repacking:
        said.append(f"repacking {work.gradient_repacking}")
    if work.compact_gradients:
        said.append("compact")
    if work.precision != "fp32" or names_fp32:
        said.append(work.precision)
    if work.xla:
        said.append("XLA")
    if work.network.seq_len:
        said.append(f"seq_len {work.network.seq_len}")
    if work.gradient_accumulation > 1:
        said.append(f"accumulation {work.gradient_accumulation}")
    if work.optimizer != "momentum":
        said.append(work.optimizer)
    if work.recompute:
        said.append("recompute")
    if work.real_data:
        said.append("real data")
    said += [f"{axis}={as_typed(value)}" for axis, value in one.apart]
    return ", ".join(said)


def _name(one: Prediction) -> str:
    gpus = counted(one.work.num_gpus, "GPU")
    return f"{one.work.network.name}, batch {_batch(one)}, {gpus}, {_way(one)}"


def _uncertain(found: Sequence[Prediction]) -> list[str]:
    """Say each reason once, with what it is of."""
    of_reason: dict[str, list[str]] = defaultdict(list)
    predicted = [one for one in found if one.predictive is not None]
    for one in predicted:
        for reason in one.predictive.uncertain if one.predictive is not None else ():
            of_reason[reason].append(_name(one))
    lines = []
    for reason, names in of_reason.items():
        if len(names) == len(predicted) > 1:  # the table has named them
            lines.append(f"{_UNCERTAIN}, all {len(names)}: {reason}")
            continue
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        lines += [f"{_UNCERTAIN}: {reason}", f"  of {'; '.join(names[:_MOST_NAMED])}{more}"]
    return lines


def _refused(found: Sequence[Prediction]) -> list[str]:
    lines = []
    for reason, of in _causes(found).items():
        lines += _cause(reason, of)
    return lines


def _causes(found: Sequence[Prediction]) -> dict[str, list[Prediction]]:
    """Return the refused cells by their reasons."""
    causes: dict[str, list[Prediction]] = defaultdict(list)
    for one in found:
        if one.refusal is not None:
            causes[one.refusal.reason].append(one)
    return causes


def _cause(reason: str, of: Sequence[Prediction]) -> list[str]:
    """Say it once, with one measurement, which is enough for all cells of a cause."""
    names = list(dict.fromkeys(_name(one) for one in of))  # boxes have cells of one name
    named = "; ".join(names[:_MOST_NAMED])
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    lines = [f"refused, {counted(len(of), 'cell')}: {reason}", f"  of {named}{more}"]
    measure = [one.measure_first for one in of if one.measure_first]
    if measure:
        lines.append(f"  first measure: {measure[0]}")
    return lines


def _parts(parts: Costs) -> str:
    """Say what a step is made of by the cost model alone, at the most probable rates, in ms."""
    hidden_of = f"{1e3 * parts.communication_s:.3g} in all, limited by {parts.bottleneck}"
    named = {
        "compute": parts.compute_s,
        "launches": parts.launch_s,
        f"communication that computing does not hide ({hidden_of})": parts.exposed_s,
        "update": parts.update_s,
        "host": parts.host_s,
        "slowest replica": parts.sync_s,
    }
    shown = [f"{1e3 * one:.3g} {name}" for name, one in named.items() if one >= 1e-4]
    made = f"; batches take {1e3 * parts.input_s:.3g} to make" if parts.input_s else ""
    return f"by the cost model a step of {1e3 * parts.step_s:.4g} ms is {', '.join(shown)}{made}"
