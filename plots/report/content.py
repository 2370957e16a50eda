"""What the page says, before it is HTML: every number, sentence and command, and the results behind
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from importlib.metadata import version
from pathlib import PurePosixPath
from typing import Any

from analysis.advice.aims import Aim
from analysis.advice.answer import Answer, answers
from analysis.advice.next_trials import Next
from analysis.advice.text import heading, sentences
from analysis.pivot import Table, usual_tables
from analysis.results import Origin, Place, Result, is_quotable
from analysis.selection import Selection
from analysis.text.summary import Summary, summarize
from analysis.text.titles import made_with, place_notes, table_title, title
from plots.parts import Failed, attempted, in_words, stop
from plots.source import Source
from plots.tables.layout import Layout, lay_out
from scalemark.records.measurement import StepSample
from scalemark.records.outcomes import Outcome, Phase, Verdict
from scalemark.records.overrides import again
from scalemark.records.trial import unusual_axes
from scalemark.stats.counted_calls import counted_calls

MOST_STEPS = 60_000  # calls of training functions that one page holds

Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A line of the list: one result, with what tells whether it can be trusted and how to make it
    again.
    """

    key: str  # of its line, the same on every page
    trial_id: str
    place: int  # which of the page's places
    model: str
    strategy: str
    num_gpus: int
    width: str  # num_gpus, and over how many hosts they are where they are over several
    batch_size: int | None
    setting: str  # the other axes worth naming
    outcome: str
    throughput: float | None
    low: float | None
    high: float | None
    repeats: tuple[float, ...]  # images/s of each process
    failed: tuple[str, ...]  # how its repeats that brought no number ended
    speed_up: float | None
    efficiency: float | None
    baseline: str  # what the speed-up is against; empty without
    verdict: str  # a Verdict; empty without a number
    reasons: tuple[str, ...]
    command: str  # makes it again; empty of published figures
    source: str  # of published figures who says so


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Of one attempt, the calls of its training function."""

    trial: int
    attempt: int
    repeat: int
    num_warm_up: int
    num_counted: int  # the last ones: their times make the median
    ms: tuple[float, ...]  # of each call


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A table, what it says, and the lines that its charts draw."""

    key: str
    layout: Layout
    shortly: str  # its title as far as it differs from those of the same place
    summary: Summary
    trials: tuple[int, ...]  # which of the page's
    # of each of them the name of its line; empty when the table is not about GPUs
    series: tuple[str, ...]
    scaling: str  # weak or strong; empty where nobody knows

    @property
    def table(self) -> Table:
        return self.layout.table

    @property
    def is_of_strategies(self) -> bool:
        """Strategies down, perhaps with numbers of hosts, GPUs across."""
        return bool(self.series) and self.table.rows_by in (("strategy",), ("strategy", "hosts"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceSection:
    """One machine with one software: numbers of two places never stand together."""

    key: str
    title: str
    place: Place
    notes: tuple[str, ...]
    sections: tuple[Section, ...]

    @property
    def has_heat_map(self) -> bool:
        return any(section.is_of_strategies for section in self.sections)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An attempt that did not complete."""

    attempt: int
    trial: int
    outcome: str
    message: str
    log: str
    sweep: str
    is_made_up: bool  # the same repeat of the same sweep brought its number in another attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Advised:
    """What `python -m analysis advise` says for throughput, of one work in one place."""

    heading: str
    place: str
    sentences: tuple[str, ...]
    next_trials: tuple[Next, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Everything."""

    title: str
    made_at: datetime
    stored_in: str  # as `database results.db`
    command: str
    version: str  # of scalemark, which made the page
    missing: tuple[str, ...]  # parts that could not be made, and why
    answers: tuple[Advised, ...]
    places: tuple[PlaceSection, ...]
    trials: tuple[Trial, ...]
    steps: tuple[Steps, ...]
    num_without_steps: int  # trials whose steps were too many
    failures: tuple[Failure, ...]
    machines: tuple[Facts, ...]
    environments: tuple[Facts, ...]
    sweeps: tuple[Facts, ...]

    @property
    def loud(self) -> list[str]:
        """What must be read before any number."""
        notes = list(
            dict.fromkeys(note for place in self.places if (note := place.place.device_kind.note))
        )
        if self.is_published:
            notes.append("Published figures: measured by others, without repeats or intervals")
        notes += [f"This page lacks {part}" for part in self.missing]
        return notes

    @property
    def is_published(self) -> bool:
        return self.places[0].place.origin is Origin.PUBLISHED

    @property
    def devices(self) -> str:
        """What is counted as `num_gpus` on all of the page."""
        kinds = {place.place.devices for place in self.places}
        return kinds.pop() if len(kinds) == 1 else "devices"

    @property
    def overview(self) -> str:
        """One sentence about all."""
        models = len({trial.model for trial in self.trials})
        what = "published figure" if self.is_published else "trial"
        told = [f"{counted(len(self.trials), what)} of {counted(models, 'model')}"]
        if len(self.places) > 1:
            told.append(
                f"made in {len(self.places)} places (machine and software), which are never mixed"
            )
        if failed := sum(trial.throughput is None for trial in self.trials):
            told.append(f"{failed} without a number")
        if partly := sum(bool(trial.repeats and trial.failed) for trial in self.trials):
            told.append(f"{partly} with repeats that brought no number")
        if suspect := sum(trial.verdict == Verdict.SUSPECT for trial in self.trials):
            told.append(f"{suspect} suspect")
        return f"{'; '.join(told)}."

    @property
    def verdict_counts(self) -> str:
        counts = Counter(trial.verdict for trial in self.trials if trial.verdict)
        return f"{'; '.join(f'{count} {verdict}' for verdict, count in counts.most_common()) or 'No number to judge'}."

    @property
    def failures_by_message(self) -> dict[tuple[str, str], list[Failure]]:
        found: dict[tuple[str, str], list[Failure]] = {}
        for failure in self.failures:
            found.setdefault((failure.outcome, failure.message), []).append(failure)
        return found

    @property
    def left_out(self) -> dict[tuple[str, str], list[str]]:
        """Reason and sweep -> overrides of the cells."""
        found: dict[tuple[str, str], list[str]] = {}
        for sweep in self.sweeps:
            for cell in sweep["left_out"]:
                found.setdefault((cell["reason"], sweep["name"]), []).append(cell["overrides"])
        return found

    @property
    def doubtful(self) -> dict[str, list[Trial]]:
        """Reason -> trials that it stands against."""
        found: dict[str, list[Trial]] = {}
        for trial in self.trials:
            for reason in trial.reasons:
                found.setdefault(reason, []).append(trial)
        return found


def counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def compose(source: Source, now: datetime, failed: Failed = stop) -> Page:
    """Say everything but what `failed` is told. Raises StoreError when nothing is found."""
    missing: list[str] = []

    def lack(part: str, error: Exception) -> None:
        failed(part, error)
        missing.append(f"{part}: {in_words(error)}")

    results = source.results
    published = source.selection.origin is Origin.PUBLISHED
    tables = usual_tables(results)
    places = list({result.place.key: result.place for result in results}.values())
    numbers = {place.key: number for number, place in enumerate(places)}
    positions = {
        (result.place.key, result.trial_id): number for number, result in enumerate(results)
    }
    attempts = {} if published else source.attempts
    trials = tuple(_trial(result, numbers[result.place.key], attempts) for result in results)
    advised = attempted(
        "answers", lambda: [_advised(answer) for answer in answers(source, Aim())], lack
    )
    steps, num_without_steps = attempted("steps", lambda: _steps(source, results), lack) or ((), 0)
    failures = attempted("failures", lambda: _failures(results, attempts), lack)
    machines = None if published else attempted("machines", lambda: source.machines, lack)
    environments = attempted("software", lambda: _environments(attempts), lack)
    sweeps = None if published else attempted("sweeps", lambda: source.sweeps, lack)
    sections = tuple(_place(place, tables, positions, source.selection, lack) for place in places)
    return Page(
        title=_title(results, places),
        made_at=now,
        stored_in=source.stored_in,
        command=source.command,
        version=version("scalemark"),
        missing=tuple(missing),
        answers=tuple(advised or ()),
        places=sections,
        trials=trials,
        steps=steps,
        num_without_steps=num_without_steps,
        failures=tuple(failures or ()),
        machines=tuple(machines or ()),
        environments=tuple(environments or ()),
        sweeps=tuple(sweeps or ()),
    )


def _advised(answer: Answer) -> Advised:
    return Advised(
        heading=heading(answer),
        place=made_with(answer.question.place),
        sentences=tuple(sentences(answer)),
        next_trials=answer.next_trials,
    )


def _title(results: Sequence[Result], places: Sequence[Place]) -> str:
    models = _shortly(
        list(dict.fromkeys(str(result.axes["model"]) for result in results)), "models"
    )
    hosts = _shortly(list(dict.fromkeys(place.host for place in places)), "machines")
    kinds = " and ".join(dict.fromkeys(place.devices for place in places))
    return f"{models} on {hosts} ({kinds})"


def _shortly(names: Sequence[str], what: str) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{len(names)} {what}"


def _place(
    place: Place,
    tables: Sequence[Table],
    positions: Mapping[tuple[str, str], int],
    selection: Selection,
    lack: Failed,
) -> PlaceSection:
    own = [table for table in tables if table.place.key == place.key]
    sections = [
        attempted(
            f"table {table_title(table.place, table.setting)}",
            partial(_section, table, f"{place.key}-{number}", own, positions, selection),
            lack,
        )
        for number, table in enumerate(own)
    ]
    return PlaceSection(
        key=place.key,
        title=place.machine if place.origin.is_ours else made_with(place),
        place=place,
        notes=tuple(place_notes(place)),
        sections=tuple(section for section in sections if section),
    )


def _section(
    table: Table,
    key: str,
    of_place: Sequence[Table],
    positions: Mapping[tuple[str, str], int],
    selection: Selection,
) -> Section:
    cells = list(table.cells.items())
    told = {str(cell.result.axes.get("scaling") or "") for _, cell in cells}
    return Section(
        key=key,
        layout=lay_out(table, selection),
        shortly=title(
            {
                axis: value
                for axis, value in table.setting.items()
                if axis == "model" or _differs(axis, of_place)
            }
        ),
        summary=summarize(table),
        trials=tuple(positions[cell.result.place.key, cell.result.trial_id] for _, cell in cells),
        series=tuple(_series(table, row, column) for (row, column), _ in cells)
        if _is_about_gpus(table)
        else (),
        scaling=told.pop() if len(told) == 1 else "",
    )


def _differs(axis: str, tables: Sequence[Table]) -> bool:
    """Between tables of one model."""
    found: dict[object, set[object]] = {}
    for table in tables:
        found.setdefault(table.setting.get("model"), set()).add(table.setting.get(axis))
    return any(len(values) > 1 for values in found.values())


def _is_about_gpus(table: Table) -> bool:
    return ("num_gpus",) in (table.rows_by, table.columns_by)


def _series(table: Table, row: tuple[Any, ...], column: tuple[Any, ...]) -> str:
    if table.rows_by == ("strategy", "hosts"):
        return table.cells[row, column].result.line
    return ", ".join(str(value) for value in (column if table.rows_by == ("num_gpus",) else row))


# of the list: a setting need not repeat them
_IN_COLUMNS = ("model", "num_gpus", "hosts", "batch_size")


def _trial(result: Result, place: int, attempts: Mapping[int, Facts]) -> Trial:
    own = [attempts[attempt] for attempt in result.attempt_ids]
    published = result.place.origin is Origin.PUBLISHED
    return Trial(
        key=f"{result.place.key}-{result.trial_id}",
        trial_id=result.trial_id,
        place=place,
        model=str(result.axes["model"]),
        strategy=result.strategy,
        num_gpus=result.num_gpus,
        width=result.width,
        batch_size=result.axes["batch_size"],
        setting=title(
            {axis: result.axes[axis] for axis in _told(result) if axis not in _IN_COLUMNS}
        ),
        outcome=result.outcome,
        throughput=result.throughput,
        low=result.low,
        high=result.high,
        repeats=result.repeats,
        failed=result.failed,
        speed_up=result.speed_up,
        efficiency=result.efficiency,
        baseline=f"{result.baseline.strategy} on {result.baseline.width}"
        if result.baseline
        else "",
        verdict=_verdict(result),
        reasons=_reasons(own, result),
        command=""
        if published
        else again(
            result.spec,
            result.place.hardware,
            repeats=len(result.repeats),
            shares_host=result.place.shares_host,
        ),
        source=result.place.versions if published else "",
    )


def _told(result: Result) -> list[str]:
    usual = ("image_px", "precision", "data", "scaling")
    return [
        axis for axis in dict.fromkeys([*usual, *unusual_axes(result.axes)]) if axis in result.axes
    ]


def _verdict(result: Result) -> str:
    if result.throughput is None:
        return Verdict.INVALID if result.outcome == Outcome.INVALID else ""
    return Verdict.VALID if result.is_valid else Verdict.SUSPECT


def _reasons(attempts: Sequence[Facts], result: Result) -> tuple[str, ...]:
    """Against its number, or against that of a repeat which is therefore left out of it."""
    found: dict[str, None] = {}
    for attempt in attempts:
        if attempt["outcome"] != Outcome.COMPLETED:
            continue
        where = (
            f" (repeat {attempt['repeat']}, left out)"
            if result.repeats and not is_quotable(attempt)
            else ""
        )
        found |= dict.fromkeys(f"{reason}{where}" for reason in _against(attempt))
    return tuple(found)


def _against(attempt: Facts) -> list[str]:
    if attempt["verdict"] != Verdict.INVALID and not is_quotable(attempt):
        return [f"its images/s are stored as {attempt['throughput']}"]
    if attempt["verdict"] == Verdict.VALID:
        return []
    unsteady = (
        []
        if attempt["verdict"] or attempt["steady"]
        else ["warm-up had not ended when measuring began"]
    )
    return [*map(str, attempt["verdict_reasons"] or []), *unsteady]


def _steps(source: Source, results: Sequence[Result]) -> tuple[tuple[Steps, ...], int]:
    """Of every repeat while the page has room for all, else of the newest of each trial, as far as
    room goes.
    """
    if source.selection.origin is Origin.PUBLISHED:
        return (), 0
    attempts = source.attempts
    of_trials = [
        [one for one in result.attempt_ids if attempts[one]["outcome"] == Outcome.COMPLETED]
        for result in results
    ]
    calls = {one: _num_calls(attempts[one]) for of_trial in of_trials for one in of_trial}
    if sum(calls.values()) > MOST_STEPS:
        of_trials = [of_trial[-1:] for of_trial in of_trials]
    room = MOST_STEPS
    wanted: dict[int, int] = {}
    num_left_out = 0
    for number, of_trial in enumerate(of_trials):
        needed = sum(calls[one] for one in of_trial)
        if needed > room:
            num_left_out += 1
            continue
        room -= needed
        wanted |= dict.fromkeys(of_trial, number)
    found = source.steps(list(wanted))
    return tuple(
        _of_attempt(attempts[one], wanted[one], found[one]) for one in wanted if one in found
    ), num_left_out


def _num_calls(attempt: Facts) -> int:
    training_steps = (attempt["num_measured_steps"] or 0) + (attempt["num_warm_up_steps"] or 0)
    return int(training_steps // (attempt["steps_per_execution"] or 1))


def _of_attempt(attempt: Facts, trial: int, steps: Sequence[StepSample]) -> Steps:
    return Steps(
        trial=trial,
        attempt=attempt["attempt"],
        repeat=attempt["repeat"],
        num_warm_up=sum(step.phase == Phase.WARM_UP for step in steps),
        num_counted=len(counted_calls(steps)),
        ms=tuple(float(f"{1000 * step.duration_s:.4g}") for step in steps),
    )


def _failures(results: Sequence[Result], attempts: Mapping[int, Facts]) -> list[Failure]:
    return [
        Failure(
            attempt=one,
            trial=number,
            outcome=attempts[one]["outcome"],
            message=attempts[one]["message"],
            log=str(PurePosixPath(attempts[one]["run_dir"] or "") / "log.txt"),
            sweep=attempts[one]["sweep"],
            is_made_up=_repeat(attempts[one]) in made,
        )
        for number, result in enumerate(results)
        for made in [
            {_repeat(attempts[one]) for one in result.attempt_ids if is_quotable(attempts[one])}
        ]
        for one in result.attempt_ids
        if attempts[one]["outcome"] != Outcome.COMPLETED
    ]


def _repeat(attempt: Facts) -> tuple[str, int]:
    """Tells it from the other repeats of its trial."""
    return attempt["sweep"], attempt["repeat"]


_OF_AN_ENVIRONMENT = ("tensorflow", "keras", "python", "scalemark", "revision", "cuda", "cudnn")


def _environments(attempts: Mapping[int, Facts]) -> list[Facts]:
    """With how many attempts each; those that ended before they could tell have none."""
    counted = Counter(
        tuple(attempt[name] for name in _OF_AN_ENVIRONMENT)
        for attempt in attempts.values()
        if attempt["tensorflow"]
    )
    return [
        dict(zip(_OF_AN_ENVIRONMENT, told, strict=True)) | {"attempts": count}
        for told, count in counted.items()
    ]
