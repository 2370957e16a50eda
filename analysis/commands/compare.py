"""`python -m analysis compare`: two sides of trials that are equal but for what is compared, pair
by pair.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console

from analysis.comparison.compared import Compared, compared, fold, interval_told
from analysis.comparison.pairs import Paired, paired
from analysis.comparison.sides import Side, sides
from analysis.options import Filters, Sweep
from analysis.pivot import axes_of
from analysis.results import Origin, Result
from analysis.statistics.judgement import Answer
from analysis.statistics.sample import Sample
from analysis.text.numbers import number
from analysis.text.summary import failed_repeats
from analysis.text.titles import host_notes, named, place_notes
from scalemark.cli.terminal import for_people, make_console, print_columns, print_json
from scalemark.host.own_code import typed
from scalemark.records.overrides import command
from store.command_line import Db, Json

_MOST_LISTED = 5  # findings and missing counterparts, before they are counted
_NUMBERS = frozenset({"A images/s", "B images/s", "A / B", "95 % interval", "processes"})


def compare(
    a: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="As strategy=ps_cpu, 'host=box model=vgg16', sweep=night, a trial's id.",
        ),
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="What A is compared with.")],
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    origin: Annotated[
        Origin | None,
        typer.Option(
            "--origin",
            help="Measured or simulated numbers.",
            show_default="those that there are of both",
        ),
    ] = None,
    trust_steps: Annotated[
        bool,
        typer.Option(
            "--trust-steps",
            help="Of one repeat let its steps decide, as if no other process could differ.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Which side is faster, by how much, how sure that is, and how many more repeats would tell."""
    of_a, of_b = sides(db, a, b, filters or (), sweep, origin)
    found = paired(of_a, of_b)
    rows = list(compared(found.pairs, of_a, of_b, trust_steps=trust_steps))
    if as_json:
        return print_json(_as_json(of_a, of_b, found, rows))
    _print(make_console(), of_a, of_b, found, rows)


def _print(console: Console, a: Side, b: Side, found: Paired, rows: Sequence[Compared]) -> None:
    console.print(f"A: {for_people(a.told)}\nB: {for_people(b.told)}\n", markup=False)
    axes = list(rows[0].pair.setting)
    columns = [*axes, "A images/s", "B images/s", "A / B", "95 % interval", "processes", "answer"]
    print_columns(
        console,
        _with_names(columns, rows),
        (_cells(row, axes, rows) for row in rows),
        _NUMBERS | {"num_gpus"},
    )
    console.print()
    for line in _sentences(rows):
        console.print(for_people(line), markup=False, soft_wrap=True)
    for line in (
        *_shortened([text for row in rows for text in row.findings]),
        *_lonely(found),
        *_notes(rows),
    ):
        console.print(for_people(line), style="dim", markup=False, soft_wrap=True)


def _with_names(columns: Sequence[str], rows: Sequence[Compared]) -> list[str]:
    """What A and B are stands in the rows where it is not the same in all."""
    return [*(["A", "B"] if _vary(rows) else []), *columns]


def _vary(rows: Sequence[Compared]) -> bool:
    return len({(row.name_a, row.name_b) for row in rows}) > 1


def _cells(row: Compared, axes: Sequence[str], rows: Sequence[Compared]) -> list[str]:
    names = [row.name_a, row.name_b] if _vary(rows) else []
    setting = [str(row.pair.setting[axis]) for axis in axes]
    speeds = [_speed(row.sample_a, row.pair.a), _speed(row.sample_b, row.pair.b)]
    if row.judgement is None:
        return [*names, *setting, *speeds, "", "", "", "nothing to compare"]
    ratio = row.judgement.ratio
    processes = f"{ratio.num_a}, {ratio.num_b}"
    return [
        *names,
        *setting,
        *speeds,
        fold(ratio.ratio),
        interval_told(ratio),
        processes,
        _answer(row),
    ]


def _answer(row: Compared) -> str:
    if row.judgement is None:
        return "nothing to compare"
    told = str(row.judgement.answer)
    if row.judgement.answer is Answer.DIFFERENT:
        told = "A faster" if row.judgement.ratio.ratio > 1 else "B faster"
    is_open = row.judgement.answer is Answer.UNKNOWN or row.judgement.is_sure
    return told if is_open else f"{told}, by steps alone"


def _speed(side: Sample | None, result: Result) -> str:
    return result.outcome.replace("_", " ") if side is None else number(side.typical)


def _sentences(rows: Sequence[Compared]) -> Iterator[str]:
    for row in rows:
        planned = f"; {row.plan.words}" if row.plan is not None else ""
        yield f"{_setting(row)}{row.words}{planned}."
    if len(rows) > 1:
        counts = Counter(map(_answer, rows))
        yield (
            f"Of {len(rows)} pairs: "
            f"{', '.join(f'{answer} in {count}' for answer, count in counts.most_common())}."
        )
    commands = list(dict.fromkeys(text for row in rows for text in row.to_tell))
    if 0 < len(commands) <= 2:
        yield from ("To run them:", *commands)


def _setting(row: Compared) -> str:
    """As `vgg16, num_gpus 4: `."""
    told = ", ".join(named(axis, value) for axis, value in row.pair.setting.items())
    return f"{told}: " if told else ""


def _lonely(found: Paired) -> Iterator[str]:
    for label, other, results in (("A", "B", found.only_a), ("B", "A", found.only_b)):
        if results:
            named_ones = "; ".join(_shortened(_trials(results)))
            yield f"{len(results)} of {label} without a counterpart in {other}: {named_ones}"


def _trials(results: Sequence[Result]) -> list[str]:
    """Each with what tells it from others that are called the same, and what was planted in it."""
    called: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        called[_called(result)].append(result)
    return [_trial(result, called[_called(result)]) for result in results]


def _trial(result: Result, alike: Sequence[Result]) -> str:
    differing = (
        axis for axis in axes_of([result]) if len({str(one.axes.get(axis)) for one in alike}) > 1
    )
    axes = dict.fromkeys([*differing, *(["planted"] if result.axes.get("planted") else [])])
    told = ", ".join(named(axis, result.axes.get(axis)) for axis in axes)
    return f"{result.trial_id[:8]} {_called(result)}{f' ({told})' if told else ''}"


def _called(result: Result) -> str:
    return f"{result.axes['model']} {result.strategy} on {result.width}"


def _notes(rows: Sequence[Compared]) -> Iterator[str]:
    """Each once."""
    told = [note for row in rows for note in row.pair.notes]
    told += [
        note
        for row in rows
        for result in (row.pair.a, row.pair.b)
        for note in (*place_notes(result.place), *host_notes([result]))
    ]
    both = [result for row in rows for result in (row.pair.a, row.pair.b)]
    if suspect := [result for result in both if not result.is_valid]:
        told.append(
            f"suspect, see {typed('store')} show: {'; '.join(_shortened(_trials(suspect)))}"
        )
    if partly := [result for result in both if result.failed and result.throughput is not None]:
        named_ones = [
            f"{name} ({failed_repeats(one)})"
            for name, one in zip(_trials(partly), partly, strict=True)
        ]
        told.append(
            "repeats brought no number, and count for nothing here: "
            f"{'; '.join(_shortened(named_ones))}"
        )
    yield from dict.fromkeys(told)


def _shortened(told: Sequence[str]) -> list[str]:
    found = list(dict.fromkeys(told))
    if len(found) <= _MOST_LISTED:
        return found
    return [*found[: _MOST_LISTED - 1], f"and {len(found) - _MOST_LISTED + 1} more: see --json"]


def _as_json(a: Side, b: Side, found: Paired, rows: Sequence[Compared]) -> dict[str, Any]:
    return {
        "a": a.told,
        "b": b.told,
        "pairs": [_row_as_json(row) for row in rows],
        "only_a": [_missing(result) for result in found.only_a],
        "only_b": [_missing(result) for result in found.only_b],
        "notes": list(_notes(rows)),
    }


def _row_as_json(row: Compared) -> dict[str, Any]:
    return {
        "setting": dict(row.pair.setting),
        "compared": {
            axis: {"a": row.pair.a.axes[axis], "b": row.pair.b.axes[axis]}
            for axis in row.pair.compared
        },
        "a": _side_as_json(row.name_a, row.pair.a, row.sample_a),
        "b": _side_as_json(row.name_b, row.pair.b, row.sample_b),
        "judgement": asdict(row.judgement) if row.judgement else None,
        "answer": row.judgement.answer if row.judgement else None,
        "words": row.words,
        "plan": asdict(row.plan) if row.plan else None,
        "findings": row.findings,
        "notes": row.pair.notes,
        "to_tell": row.to_tell,
    }


def _side_as_json(name: str, result: Result, side: Sample | None) -> dict[str, Any]:
    return {
        "name": name,
        "trial": result.trial_id,
        "place": {
            "key": result.place.key,
            "machine": result.place.machine,
            "versions": result.place.versions,
        },
        "origin": result.place.origin,
        "outcome": result.outcome,
        "throughput": side.typical if side else None,
        "repeats": side.throughput if side else [],
        "failed": result.failed,
        "attempts": result.attempt_ids,
    }


def _missing(result: Result) -> dict[str, Any]:
    return {
        "trial": result.trial_id,
        "model": result.axes["model"],
        "strategy": result.strategy,
        "num_gpus": result.num_gpus,
        "hosts": result.hosts,
        "planted": result.axes.get("planted", ""),
    } | {"command": command(result.spec, result.place.hardware)}
