"""`compare`: which of two sides is faster, by pairs of trials that are otherwise equal."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.console import Console

from analysis import again, badges, options, screen, titles
from analysis.judgement import Decision, Ratio
from analysis.pairs import ComparedSide, Comparison, PairRow, comparison, sides
from analysis.results import Result
from scalemark.cli.terminal import make_console, print_columns, print_json
from scalemark.host.own_code import typed
from scalemark.records.axes import INHERITED, bare_name, is_env_variable
from scalemark.records.measurement import Outcome
from scalemark.text.wording import counted, shortened, without_numbers
from store.command_line import Db, Filters, Json, OriginOption, Sweep
from store.errors import StoreError

_MOST_COMMANDS = 2
_MOST_LISTED = 5  # trials, before they are counted
_WIDEST_CELL = 32  # of how a program is read
_NUMBERS = frozenset({"processes", "repeats", "num_gpus"})


def compare(
    a: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="As strategy=ps_cpu, 'host=box model=vgg16', sweep=night, a trial's id.",
        ),
    ],
    b: Annotated[
        str,
        typer.Argument(metavar="B", help="What A is compared with."),
    ],
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    origin: OriginOption = None,
    show: Annotated[
        str | None, typer.Option(help="Also numbers that programs printed, as loss,accuracy.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say which side is faster, by how much, how sure that is, and how many repeats would tell."""
    of_a, of_b = sides(db, a, b, filters or (), sweep, origin)
    options.tell(of_a.note)
    compared = comparison(of_a, of_b)
    if not any(side.is_by_name or side.names_an_environment for side in (of_a, of_b)):
        options.tell_all_sweeps(replace(of_a.selection, filters=tuple(filters or ())))
    metrics = [name.strip() for name in (show or "").split(",") if name.strip()]
    known: set[str] = set()
    for row in compared.rows:
        known.update(row.a.metrics, row.b.metrics)
    for name in metrics:
        if name not in known:
            there = ", ".join(sorted(known)) or "throughput alone"
            raise StoreError(f"--show {name}: the trials compared lack it; they have {there}")
    if as_json:
        return print_json(
            {
                "a": of_a.text,
                "b": of_b.text,
                "pairs": [_row_answer(row) for row in compared.rows],
                "only_a": [_missing(result) for result in compared.only_a],
                "only_b": [_missing(result) for result in compared.only_b],
                "compared_by": compared.by,
                "notes": notes(compared),
            }
        )
    return _print(of_a, of_b, compared, metrics)


def _print(
    of_a: ComparedSide, of_b: ComparedSide, compared: Comparison, metrics: Sequence[str]
) -> None:
    rows, console = compared.rows, make_console()
    screen.say(console, f"A: {_title(of_a, [row.name_a for row in rows])}")
    screen.say(console, f"B: {_title(of_b, [row.name_b for row in rows])}")
    if compared.by:
        screen.say(console, f"The sweeps differ in {compared.by}, and are compared by it.")
    screen.say(console, headline(rows), "bold")
    console.print()
    _print_table(console, rows, metrics)
    console.print()
    commands: dict[str, None] = {}
    used = set(map(answer, rows))
    for row in rows:
        commands.update(dict.fromkeys(row.to_run))
        for result in (row.a, row.b):
            used.update(badges.of_environment(result.environment))
    if commands:
        screen.say(console, "To tell them apart:")
        for text in list(commands)[:_MOST_COMMANDS]:
            screen.say_command(console, text, "")
    if len(commands) > _MOST_COMMANDS:
        more = counted(len(commands) - _MOST_COMMANDS, "more command")
        screen.say(console, f"and {more}: --json has them", "dim")
    if metrics:
        screen.say(console, f"{', '.join(metrics)}: {titles.METRICS_ABOUT}", "dim")
        if any("read" in row.compared for row in rows):
            names = " and ".join(metrics)
            text = f"A and B are read in different ways: check that {names} means the same in both"
            screen.say(console, text, "dim")
    for line in notes(compared, has_badges=True):
        screen.say(console, line, "dim")
    meanings = badges.foot(used)
    if meanings:
        screen.say(console, meanings, "dim")


def _title(side: ComparedSide, names: Sequence[str]) -> str:
    """Return how the user called a side, with the software or axes that tell it from the other."""
    if len(set(names)) != 1 or all(word in side.text for word in names[0].split()):
        return side.text
    if names[0].startswith(side.text):
        return names[0]
    return f"{side.text} ({names[0]})"


def _print_table(console: Console, rows: Sequence[PairRow], metrics: Sequence[str]) -> None:
    """Name A and B in the rows where they are not the same in all."""
    axes: dict[str, None] = {}
    for row in rows:
        axes |= dict.fromkeys(row.setting)
    if "strategy" in axes:  # it says the axes by which a program's trials are named
        for axis in rows[0].a.strategy_axes:
            axes.pop(axis, None)
    repeats = "repeats"
    if rows[0].a.environment.origin.is_ours:
        repeats = "processes"
    ratio = "A / B [95 % CI]"
    printed = [f"{name} {side}" for name in metrics for side in "AB"]
    columns = [*map(bare_name, axes), "A", "B", *printed, ratio, repeats, "answer"]
    has_names = len({(row.name_a, row.name_b) for row in rows}) > 1
    if has_names:
        columns = ["A is", "B is", *columns]
    lines = []
    for row in rows:
        cells = [row.name_a, row.name_b] if has_names else []
        cells += [_value(row, axis) for axis in axes]
        cells += [_speed(row.a), _speed(row.b)]
        for name in metrics:
            cells += [titles.printed(row.a, name), titles.printed(row.b, name)]
        if row.judgement is None:
            cells += ["", ""]
        else:
            ratio_of_row = row.judgement.ratio
            processes = f"{ratio_of_row.num_a}, {ratio_of_row.num_b}"
            cells += [fold_with_interval(ratio_of_row), processes]
        lines.append([*cells, answer(row)])
    print_columns(console, columns, lines, _NUMBERS.union(["A", "B", ratio]), spare=[repeats])


def _value(row: PairRow, axis: str) -> str:
    value = row.setting.get(axis)
    if value is None:
        if is_env_variable(axis):
            return INHERITED
        return ""
    text = str(value)
    if axis == "command":
        return titles.program_name(text)  # a note has the command
    if axis == "read" and len(text) > _WIDEST_CELL:  # --json has all of it
        half = _WIDEST_CELL // 2
        return f"{text[:half]}…{text[-half:]}"
    return text


def _speed(result: Result) -> str:
    if result.throughput is None:
        return result.ended
    return f"{titles.number(result.throughput)} {result.unit}"


def _row_answer(row: PairRow) -> dict[str, Any]:
    compared = {}
    for axis in row.compared:
        compared[axis] = {"a": row.a.axes.get(axis), "b": row.b.axes.get(axis)}
    return {
        "setting": dict(row.setting),
        "compared": compared,
        "a": row.a.facts() | {"name": row.name_a},
        "b": row.b.facts() | {"name": row.name_b},
        "judgement": row.judgement,
        "answer": row.judgement and row.judgement.answer,
        "words": sentence(row),
        "more_repeats": row.more_repeats,
        "doubts": contradictions(row),
        "notes": row.notes,
        "to_run": row.to_run,
    }


def _missing(result: Result) -> dict[str, Any]:
    text = ""
    if result.environment.origin.is_ours:
        text = again.command(result.spec, [result])
    injected = result.axes.get("injected", "")
    return result.facts() | {"injected": injected, "command": text}


def answer(row: PairRow) -> str:
    """Return `A faster`, `tie`, `single run`, `noisy` or another answer of a row."""
    judgement = row.judgement
    if judgement is None:
        return "nothing to compare"
    if row.is_turned:
        return "B faster"
    if judgement.answer is Decision.DIFFERENT:
        return "A faster"
    if judgement.answer is Decision.TIE:
        return "tie"
    if _is_single(judgement.ratio):
        return "single run"
    return "noisy"


def headline(rows: Sequence[PairRow]) -> str:
    """Return the answer: the sentences of one pair, or how many pairs have which answer."""
    if len(rows) > 1:
        counts = Counter(answer(row) for row in rows).most_common()
        return f"Of {len(rows)} pairs: {', '.join(f'{word} in {count}' for word, count in counts)}."
    (row,) = rows
    text = f"{_start(row)}{sentence(row)}."
    if row.more_repeats and row.judgement is not None:
        if row.judgement.answer is Decision.TIE:
            size = abs(row.judgement.ratio.ratio - 1)
            more = counted(row.more_repeats, "more repeat")
            text += f" {more} of each would show a difference of {size:.1%}."
        elif _is_single(row.judgement.ratio):
            text += " Repeat both before deciding."
    return text


def sentence(row: PairRow) -> str:
    """Return `ps_gpu is 1.31x [1.28, 1.34] as fast as ps_cpu, over 3 repeats each`."""
    judgement, a, b = row.judgement, row.name_a, row.name_b
    if judgement is None:
        return f"nothing to compare: {' and '.join(_without_number(row))}"
    ratio = judgement.ratio
    if judgement.answer is Decision.TIE:
        return f"{a} and {b} tie: {_times(ratio)} over {_basis(ratio)}"
    first, second, shown = (b, a, ratio.turned) if row.is_turned else (a, b, ratio)
    words = f"{first} is {_times(shown)} as fast as {second}"
    # a step may hold more work on more GPUs
    if row.a.counts_steps and "num_gpus" in row.compared:
        words = f"{first} does {_times(shown)} the steps/s of {second}"
    if judgement.answer is Decision.DIFFERENT:
        return f"{words}, over {_basis(ratio)}"
    if _is_single(ratio):
        return f"{words} in a single run"
    return f"{words}, but noisy: {'; '.join(contradictions(row))}"


def contradictions(row: PairRow) -> list[str]:
    """Return how the repeats of its sides contradict each other."""
    texts = []
    for side, camps in row.judgement.contradictions if row.judgement else ():
        texts.append(f"the repeats of {side} contradict each other: {camps.words(row.a.unit)}")
    return texts


def fold_with_interval(ratio: Ratio) -> str:
    """Return `0.980 [0.971, 1.043]`; of single runs the ratio alone."""
    if ratio.low is None or ratio.high is None:
        return _fold(ratio.ratio)
    return f"{_fold(ratio.ratio)} [{_fold(ratio.low)}, {_fold(ratio.high)}]"


def notes(compared: Comparison, *, has_badges: bool = False) -> list[str]:
    """Return what must be known of machines, software and trials, each once."""
    texts: list[str] = []
    rows = compared.rows
    if len(rows) > 1:
        for row in rows:
            texts += [f"{_start(row)}{text}" for text in contradictions(row)]
    for label, other, lonely in (("A", "B", compared.only_a), ("B", "A", compared.only_b)):
        if lonely:
            names = _shortened(map(_trial, lonely))
            texts.append(f"{len(lonely)} of {label} without a counterpart in {other}: {names}")
    results: list[Result] = []
    for row in rows:
        texts += row.notes
        if row.parity:
            texts.append(f"{_start(row)}{row.parity}")
        results += (row.a, row.b)
    doubted: dict[str, tuple[str, list[str]]] = {}  # trials by a reason without its numbers
    partly = []
    for result in results:
        where = result.environment
        texts += [titles.made_with(where)] if has_badges else titles.environment_notes(where)
        if not result.is_valid:
            reason, _, _ = next(iter(result.doubts), "in doubt").partition(";")
            doubted.setdefault(without_numbers(reason), (reason, []))[1].append(_trial(result))
        if result.failed and result.throughput is not None:
            ways = dict.fromkeys(outcome.replace("_", " ") for outcome in result.failed)
            num_failed, num = len(result.failed), len(result.failed) + len(result.repeats)
            partly.append(f"{_trial(result)} ({num_failed} of {num}: {', '.join(ways)})")
    texts += titles.result_notes(results)
    for reason, trials in doubted.values():
        texts.append(f"{reason}, see {typed('show')}: {_shortened(trials)}")
    if partly:
        texts.append(f"repeats without a number, which are left out: {_shortened(partly)}")
    return list(dict.fromkeys(texts))


def _fold(value: float) -> str:
    """Return `1.31`; near 1, where the side matters, `1.003`; below 1 as many digits, `0.763`."""
    if 0.1 <= value < 1.1:
        return f"{value:.3f}"
    return titles.number(value)


def _start(row: PairRow) -> str:
    setting = ", ".join(titles.named(axis, value) for axis, value in row.setting.items())
    return f"{setting}: " if setting else ""


def _is_single(ratio: Ratio) -> bool:
    return min(ratio.num_a, ratio.num_b) < 2


def _times(ratio: Ratio) -> str:
    text, space, interval = fold_with_interval(ratio).partition(" ")
    return f"{text}x{space}{interval}"


def _basis(ratio: Ratio) -> str:
    if ratio.num_a == ratio.num_b:
        return f"{counted(ratio.num_a, 'repeat')} each"
    return f"{ratio.num_a} and {ratio.num_b} repeats"


def _without_number(row: PairRow) -> Iterator[str]:
    for name, result in ((row.name_a, row.a), (row.name_b, row.b)):
        if result.outcome == Outcome.INVALID:
            yield f"{name} has no usable number"
        elif result.throughput is None:
            yield f"{name} has no number ({result.ended})"


def _trial(result: Result) -> str:
    # a program without axes of its own has one name
    words = dict.fromkeys((str(result.axes["model"]), result.strategy))
    return f"{result.trial_id[:8]} {' '.join(words)} on {result.width}"


def _shortened(texts: Iterable[str]) -> str:
    return "; ".join(shortened(list(texts), _MOST_LISTED))
