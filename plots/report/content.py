"""Collects every number, sentence and command of the page, before it is HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from analysis.advice.aims import Aim
from analysis.advice.answer import Answer, answers
from analysis.advice.next_trials import Next
from analysis.advice.one_screen import screen
from analysis.advice.text import heading, sentences
from analysis.again import elsewhere
from analysis.explanation.ablations import AblationFinder
from analysis.explanation.observed import observed
from analysis.explanation.replicas import slow_replica_text
from analysis.explanation.replicas.slow_replica import slow_replicas
from analysis.newest import what_is_left
from analysis.pivot import usual_tables
from analysis.results import Environment, Origin, Result, is_quotable
from analysis.selection import Selection
from analysis.tables.labels import Label
from analysis.tables.table import Table
from analysis.text import badges
from analysis.text.one_screen import Screen
from analysis.text.summary import Summary, summarize
from analysis.text.titles import (
    environment_notes,
    made_with,
    table_title,
    title,
)
from plots.parts import Failed, attempted, in_words, stop
from plots.source import Source
from plots.tables.layout import Layout, lay_out
from scalemark.host.own_version import own_version
from scalemark.records.devices import DeviceKind
from scalemark.records.measurement import StepSample
from scalemark.records.outcomes import Outcome, Phase, Verdict
from scalemark.records.trial import strategy_axes, unusual_axes
from scalemark.stats.counted_calls import counted_calls
from scalemark.text.wording import as_typed

MOST_STEPS = 60_000  # calls of training functions that one page holds

Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One result, whether it can be trusted, and how to make it again: a line of the list."""

    key: str  # of its line, the same on every page
    trial_id: str
    environment: int  # which of the page's environments
    model: str
    strategy: str
    num_gpus: int
    width: str  # num_gpus, and over how many hosts they are where they are over several
    batch_size: int | None
    axes: Mapping[str, Any]  # all others that it has
    outcome: str
    throughput: float | None
    unit: str  # of its throughput, as images/s
    low: float | None
    high: float | None
    repeats: tuple[float, ...]  # throughput of each process
    failed: tuple[str, ...]  # how its repeats that brought no number ended
    badges: tuple[str, ...]  # doubts about its number
    speed_up: float | None
    efficiency: float | None
    mfu: float | None
    baseline: str  # what the speed-up is against; empty without
    verdict: str  # a Verdict; empty without a number
    reasons: tuple[str, ...]
    replicas: tuple[str, ...]  # which of them is slow; empty where they were not timed
    timed_by: str  # the key of another trial that timed the replicas of the same work; else empty
    command: str  # makes it again; empty of published figures
    source: str  # of published figures who says so


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The calls of the training function of one attempt."""

    trial: int
    attempt: int
    repeat: int
    num_warm_up: int
    num_counted: int  # the last ones: their times make the median
    ms: tuple[float, ...]  # of each call


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A table, its summary, and the lines that its charts draw."""

    key: str
    layout: Layout
    shortly: str  # its title as far as it differs from those of the same environment
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
        """Return whether it has strategies down, perhaps with numbers of hosts, and GPUs across."""
        return bool(self.series) and self.table.rows_by in (("strategy",), ("strategy", "hosts"))


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSection:
    """One machine with one software: numbers of two environments never stand together."""

    key: str
    title: str
    environment: Environment
    notes: tuple[str, ...]
    sections: tuple[Section, ...]


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
    """The answer of `python -m analysis advise` for one work in one environment."""

    heading: str
    environment: str
    trial: int | None  # the one that is taken; None without any
    sentences: tuple[str, ...]
    next_trials: tuple[Next, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """All that the templates need."""

    title: str
    made_at: datetime
    stored_in: str  # as `database results.db`
    command: str
    sweep: str  # that it is of; empty where it is of several
    version: str  # of scalemark, which made the page
    missing: tuple[str, ...]  # parts that could not be made, and why
    screen: Screen | None  # the answer as `advise` prints it; None where it could not be made
    answers: tuple[Advised, ...]
    environments: tuple[EnvironmentSection, ...]
    trials: tuple[Trial, ...]
    steps: tuple[Steps, ...]
    num_without_steps: int  # trials whose steps were too many
    failures: tuple[Failure, ...]
    machines: tuple[Facts, ...]
    software: tuple[Facts, ...]
    sweeps: tuple[Facts, ...]

    @property
    def badges(self) -> list[str]:
        """Return what must be known of every number, before any of them."""
        of_all = [badges.of_environment(one.environment) for one in self.environments]
        return list(dict.fromkeys(badge for found in of_all for badge in found))

    @property
    def meanings(self) -> str:
        """Explain each badge that occurs on the page."""
        used = {*self.badges, *(badge for trial in self.trials for badge in trial.badges)}
        return badges.foot(used | (self.screen.badges if self.screen else set()))

    @property
    def same_in_all(self) -> str:
        """Name the axes worth naming that have one value in all trials."""
        same = {}
        for axis in ("batch_size", *_USUAL, *unusual_axes(self.trials[0].axes)):
            values = {_value(trial, axis) for trial in self.trials}
            if len(values) == 1 and not values & {None, ""}:
                same[axis] = values.pop()
        return title(same)

    @property
    def differing(self) -> list[str]:
        """Return the axes that trials of one model differ in, but for those in columns anyway."""
        found: dict[str, None] = {}
        for axis in {axis: None for trial in self.trials for axis in trial.axes}:
            values = {(trial.model, _value(trial, axis)) for trial in self.trials}
            if len(values) > len({model for model, _ in values}):
                found[axis] = None
        of_strategies = {axis for trial in self.trials for axis in strategy_axes(trial.axes)}
        return [axis for axis in found if axis not in of_strategies]

    @property
    def table_of(self) -> dict[int, str]:
        """Return the key of the first table that each trial stands in."""
        found: dict[int, str] = {}
        for environment in self.environments:
            for section in environment.sections:
                for trial in section.trials:
                    found.setdefault(trial, section.key)
        return found

    @property
    def is_published(self) -> bool:
        return self.environments[0].environment.origin is Origin.PUBLISHED

    @property
    def devices(self) -> str:
        """Return what is counted as `num_gpus` on all of the page."""
        kinds = {environment.environment.devices for environment in self.environments}
        return kinds.pop() if len(kinds) == 1 else "devices"

    @property
    def unit(self) -> str:
        """Return the unit of all throughputs, as `images/s`; `throughput` where they differ."""
        able = [trial for trial in self.trials if trial.throughput is not None]
        units = {trial.unit for trial in able or self.trials}
        return units.pop() if len(units) == 1 else "throughput"

    @property
    def overview(self) -> str:
        """Return one sentence about all."""
        models = len({trial.model for trial in self.trials})
        what = "published figure" if self.is_published else "trial"
        parts = [f"{counted(len(self.trials), what)} of {counted(models, 'model')}"]
        if len(self.environments) > 1:
            count = len(self.environments)
            parts.append(
                f"made in {count} environments (machine and software), which are never mixed"
            )
        counts = {
            "without a number": sum(trial.throughput is None for trial in self.trials),
            "with repeats that brought no number": sum(
                bool(trial.repeats and trial.failed) for trial in self.trials
            ),
            "suspect": sum(trial.verdict == Verdict.SUSPECT for trial in self.trials),
        }
        parts += [f"{count} {text}" for text, count in counts.items() if count]
        return f"{'; '.join(parts)}."

    @property
    def verdict_counts(self) -> str:
        counts = Counter(trial.verdict for trial in self.trials if trial.verdict)
        parts = [f"{count} {verdict}" for verdict, count in counts.most_common()]
        return f"{'; '.join(parts) or 'No number to judge'}."

    @property
    def failures_by_message(self) -> dict[tuple[str, str], list[Failure]]:
        found: dict[tuple[str, str], list[Failure]] = {}
        for failure in self.failures:
            found.setdefault((failure.outcome, failure.message), []).append(failure)
        return found

    @property
    def left_out(self) -> dict[tuple[str, str], list[str]]:
        """Return the overrides of cells that were left out, by reason and sweep."""
        found: dict[tuple[str, str], list[str]] = {}
        for sweep in self.sweeps:
            for cell in sweep["left_out"]:
                found.setdefault((cell["reason"], sweep["name"]), []).append(cell["overrides"])
        return found

    @property
    def doubtful(self) -> dict[str, list[Trial]]:
        """Return the trials that each reason is against."""
        found: dict[str, list[Trial]] = {}
        for trial in self.trials:
            for reason in trial.reasons:
                found.setdefault(reason, []).append(trial)
        return found


def counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def compose(source: Source, now: datetime, failed: Failed = stop) -> Page:
    """Say everything that can be made; `failed` is called for each part that cannot. Raises
    StoreError when nothing is found.
    """
    missing: list[str] = []

    def lack(part: str, error: Exception) -> None:
        failed(part, error)
        missing.append(f"{part}: {in_words(error)}")

    results = source.results
    is_ours = source.selection.origin.is_ours
    environments = list({result.environment.key: result.environment for result in results}.values())
    numbers = {environment.key: number for number, environment in enumerate(environments)}
    attempts = source.attempts if is_ours else {}
    trials = tuple(_trial(result, numbers[result.environment.key], attempts) for result in results)
    positions = {
        (result.environment.key, result.trial_id): number for number, result in enumerate(results)
    }
    trials = _with_timed_by(trials, results, positions)
    sections = _environments(source, environments, positions, lack)
    found = attempted("answers", lambda: answers(source, Aim()), lack) or []
    shown = None
    if found:
        left = attempted("what is left", lambda: what_is_left(source.selection, None), lack)
        shown = attempted("the answer", lambda: screen(found, left), lack)
    steps, num_without_steps = attempted("steps", lambda: _steps(source), lack) or ((), 0)
    failures = attempted("failures", lambda: _failures(results, attempts), lack)
    software = attempted("software", lambda: _software(attempts), lack)
    machines = sweeps = None
    if is_ours:
        machines = attempted("machines", lambda: source.machines, lack)
        sweeps = attempted("sweeps", lambda: source.sweeps, lack)
    return Page(
        title=_title(results, environments),
        made_at=now,
        stored_in=source.stored_in,
        command=source.command,
        sweep=source.selection.sweep or "",
        version=own_version(),
        missing=tuple(missing),
        screen=shown,
        answers=tuple(_advised(answer, positions) for answer in found),
        environments=sections,
        trials=trials,
        steps=steps,
        num_without_steps=num_without_steps,
        failures=tuple(failures or ()),
        machines=tuple(machines or ()),
        software=tuple(software or ()),
        sweeps=tuple(sweeps or ()),
    )


def _advised(answer: Answer, positions: Mapping[tuple[str, str], int]) -> Advised:
    environment, ranking = answer.question.environment, answer.ranking
    return Advised(
        heading=heading(answer),
        environment=made_with(environment),
        trial=positions[environment.key, ranking.pick.result.trial_id] if ranking else None,
        sentences=tuple(sentences(answer)),
        next_trials=answer.next_trials,
    )


def _title(results: Sequence[Result], environments: Sequence[Environment]) -> str:
    models = _shortly([str(result.axes["model"]) for result in results], "models")
    hosts = _shortly([environment.host for environment in environments], "machines")
    kinds = " and ".join(dict.fromkeys(environment.devices for environment in environments))
    return f"{models} on {hosts} ({kinds})"


def _shortly(names: Sequence[str], what: str) -> str:
    different = list(dict.fromkeys(names))
    return ", ".join(different) if len(different) <= 4 else f"{len(different)} {what}"


def _environments(
    source: Source,
    environments: Sequence[Environment],
    positions: Mapping[tuple[str, str], int],
    lack: Failed,
) -> tuple[EnvironmentSection, ...]:
    tables = usual_tables(source.results)
    found = []
    for environment in environments:
        own = [table for table in tables if table.environment.key == environment.key]
        sections = []
        for number, table in enumerate(own):
            make = partial(
                _section, table, f"{environment.key}-{number}", own, positions, source.selection
            )
            part = f"table {table_title(table.environment, table.setting)}"
            sections.append(attempted(part, make, lack))
        section = EnvironmentSection(
            key=environment.key,
            title=environment.machine if environment.origin.is_ours else made_with(environment),
            environment=environment,
            notes=tuple(environment_notes(environment)),
            sections=tuple(section for section in sections if section),
        )
        found.append(section)
    return tuple(found)


def _section(
    table: Table,
    key: str,
    of_environment: Sequence[Table],
    positions: Mapping[tuple[str, str], int],
    selection: Selection,
) -> Section:
    shortly = {}
    for axis, value in table.setting.items():
        if axis == "model" or _differs(axis, of_environment):
            shortly[axis] = value
    is_about_gpus = ("num_gpus",) in (table.rows_by, table.columns_by)
    scalings = {str(result.axes.get("scaling") or "") for result in table.results}
    return Section(
        key=key,
        layout=lay_out(table, selection),
        shortly=title(shortly),
        summary=summarize(table),
        trials=tuple(
            positions[result.environment.key, result.trial_id] for result in table.results
        ),
        series=tuple(_series(table, *where) for where in table.cells) if is_about_gpus else (),
        scaling=scalings.pop() if len(scalings) == 1 else "",
    )


def _differs(axis: str, tables: Sequence[Table]) -> bool:
    """Return whether tables of one model differ in this axis."""
    values = {(table.setting.get("model"), table.setting.get(axis)) for table in tables}
    return len(values) > len({model for model, _ in values})


def _series(table: Table, row: Label, column: Label) -> str:
    """Return the name of the line that a cell is part of."""
    if table.rows_by == ("strategy", "hosts"):
        return table.cells[row, column].result.line
    return ", ".join(map(as_typed, column if table.rows_by == ("num_gpus",) else row))


_IN_COLUMNS = ("id", "curve", "model", "strategy", "num_gpus", "batch_size")  # no axes besides
_USUAL = ("image_px", "precision", "data", "scaling")


def _value(trial: Trial, axis: str) -> Any:
    return trial.batch_size if axis == "batch_size" else trial.axes.get(axis)


def _trial(result: Result, environment: int, attempts: Mapping[int, Facts]) -> Trial:
    is_ours = result.environment.origin.is_ours
    axes = {
        axis: value
        for axis, value in result.axes.items()
        if value not in (None, "") and axis not in _IN_COLUMNS
    }
    baseline = command = ""
    own = [attempts[attempt] for attempt in result.attempt_ids]
    if result.baseline:
        baseline = f"{result.baseline.strategy} on {result.baseline.width}"
    if is_ours:
        command = elsewhere(result, len(result.repeats))
    return Trial(
        key=f"{result.environment.key}-{result.trial_id}",
        trial_id=result.trial_id,
        environment=environment,
        model=str(result.axes["model"]),
        strategy=result.strategy,
        num_gpus=result.num_gpus,
        width=result.width,
        batch_size=result.axes["batch_size"],
        axes=axes,
        outcome=result.outcome,
        throughput=result.throughput,
        unit=result.unit,
        low=result.low,
        high=result.high,
        repeats=result.repeats,
        failed=result.failed,
        badges=tuple(badges.of_result(result)) if result.throughput is not None else (),
        speed_up=result.speed_up,
        efficiency=result.efficiency,
        mfu=result.usage.mfu,
        baseline=baseline,
        verdict=_verdict(result),
        reasons=_reasons(own, result),
        replicas=_replicas(own, result.environment.device_kind),
        timed_by="",
        command=command,
        source="" if is_ours else result.environment.versions,
    )


def _verdict(result: Result) -> str:
    if result.throughput is None:
        return Verdict.INVALID if result.outcome == Outcome.INVALID else ""
    return Verdict.VALID if result.is_valid else Verdict.SUSPECT


def _reasons(attempts: Sequence[Facts], result: Result) -> tuple[str, ...]:
    """Return what is against its number, or against a repeat that is therefore left out of it."""
    found: dict[str, None] = {}
    for attempt in attempts:
        if attempt["outcome"] != Outcome.COMPLETED:
            continue
        where = ""
        if result.repeats and not is_quotable(attempt):
            where = f" (repeat {attempt['repeat']}, left out)"
        found |= dict.fromkeys(f"{reason}{where}" for reason in _against(attempt))
    return tuple(found)


def _replicas(attempts: Sequence[Facts], kind: DeviceKind) -> tuple[str, ...]:
    """Return sentences about which replica is slow, where their own compute was timed."""
    seen = observed([attempt for attempt in attempts if is_quotable(attempt)])
    if not seen.replica_times:
        return ()
    found = slow_replicas(seen.replica_times)
    return tuple(slow_replica_text.sentences(found, seen.gpus, kind, ""))


def _with_timed_by(
    trials: tuple[Trial, ...],
    results: Sequence[Result],
    positions: Mapping[tuple[str, str], int],
) -> tuple[Trial, ...]:
    """Point trials that timed no replicas to one that did, if any."""
    if not any(trial.replicas for trial in trials):
        return trials
    finder = AblationFinder(results)
    found = []
    for trial, result in zip(trials, results, strict=True):
        others = [] if trial.replicas else finder.timing_replicas(result)
        timed = [trials[positions[one.environment.key, one.trial_id]] for one in others]
        timed_by = next((one.key for one in timed if one.replicas), "")
        found.append(replace(trial, timed_by=timed_by))
    return tuple(found)


def _against(attempt: Facts) -> list[str]:
    if attempt["verdict"] != Verdict.INVALID and not is_quotable(attempt):
        return [f"its throughput is stored as {attempt['throughput']}"]
    if attempt["verdict"] == Verdict.VALID:
        return []
    reasons = [str(reason) for reason in attempt["verdict_reasons"] or ()]
    if not attempt["verdict"] and not attempt["steady"]:
        reasons.append("warm-up had not ended when measuring began")
    return reasons


def _steps(source: Source) -> tuple[tuple[Steps, ...], int]:
    """Return the steps of every repeat while the page has room for all, else of the newest of each
    trial as far as room goes; and how many trials there was no room for.
    """
    attempts = source.attempts if source.selection.origin.is_ours else {}
    calls = {
        number: _num_calls(attempt)
        for number, attempt in attempts.items()
        if attempt["outcome"] == Outcome.COMPLETED
    }
    has_room_for_all = sum(calls.values()) <= MOST_STEPS
    room = MOST_STEPS
    wanted: dict[int, int] = {}
    num_left_out = 0
    for number, result in enumerate(source.results):
        of_trial = [attempt for attempt in result.attempt_ids if attempt in calls]
        if not has_room_for_all:
            of_trial = of_trial[-1:]
        needed = sum(calls[attempt] for attempt in of_trial)
        if needed > room:
            num_left_out += 1
            continue
        room -= needed
        wanted |= dict.fromkeys(of_trial, number)
    found = source.steps(list(wanted))
    steps = [
        _of_attempt(attempts[attempt], trial, found[attempt])
        for attempt, trial in wanted.items()
        if attempt in found
    ]
    return tuple(steps), num_left_out


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
    found = []
    for number, result in enumerate(results):
        of_trial = [attempts[attempt] for attempt in result.attempt_ids]
        brought = {(one["sweep"], one["repeat"]) for one in of_trial if is_quotable(one)}
        for attempt in of_trial:
            if attempt["outcome"] == Outcome.COMPLETED:
                continue
            failure = Failure(
                attempt=attempt["attempt"],
                trial=number,
                outcome=attempt["outcome"],
                message=attempt["message"],
                log=str(PurePosixPath(attempt["run_dir"] or "") / "log.txt"),
                sweep=attempt["sweep"],
                is_made_up=(attempt["sweep"], attempt["repeat"]) in brought,
            )
            found.append(failure)
    return found


_OF_AN_ENVIRONMENT = ("tensorflow", "keras", "python", "scalemark", "revision", "cuda", "cudnn")


def _software(attempts: Mapping[int, Facts]) -> list[Facts]:
    """Return each environment with its number of attempts; an attempt that ended before it could
    report its environment has none.
    """
    counts = Counter(
        tuple(attempt[name] for name in _OF_AN_ENVIRONMENT)
        for attempt in attempts.values()
        if attempt["tensorflow"]
    )
    return [
        dict(zip(_OF_AN_ENVIRONMENT, values, strict=True)) | {"attempts": count}
        for values, count in counts.items()
    ]
