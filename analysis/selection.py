"""Chooses results, by default of the origin of the newest sweep, and loads them."""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import sqlalchemy as sa

from analysis.measured import belonging, in_order_asked, measured
from analysis.published import named, of_newest_night, of_others, of_source
from analysis.results import BaselineRule, Result, with_number
from analysis.titles import sweep_notes
from scalemark.host.own_code import typed
from scalemark.records.axes import WHEN, name_in_records
from scalemark.records.overrides import hydra_value
from scalemark.records.references import Origin
from scalemark.text.untrusted import command_line, masked
from scalemark.text.wording import counted
from store.database import (
    default_url,
    locate,
    open_existing,
    open_for_reading,
    own_command,
    reading,
)
from store.errors import StoreError
from store.filters import attempt_ids, is_of_trials, parsed
from store.reading import listing, queries, references, sweeps
from store.reading.earlier import raced_out
from store.reading.listing import full_names, newest_first
from store.reading.queries import Row
from store.schema import AttemptRow


@dataclass(frozen=True, kw_only=True)
class Selection:
    """A choice of results, as the command line makes it."""

    db: str  # file or URL
    sweep: str | None = None  # only the trials that it asked for
    filters: tuple[str, ...] = ()  # see store.filters
    origin: Origin = Origin.MEASURED
    # of figures of others: only this source, see analysis.published.of_source
    source: str | None = None
    baseline: BaselineRule = BaselineRule.SAME
    # where the origin was not named: the newest sweep that matches, and other origins that have
    # such numbers
    newest: str = ""
    others: tuple[Origin, ...] = ()

    def __post_init__(self) -> None:
        """Raise StoreError for options that would have no effect."""
        if not self.origin.is_ours and self.sweep is not None:
            what = "tables of others"
            if self.origin is Origin.PUBLISHED:
                what = "published figures"
            raise StoreError(
                f"--sweep {self.sweep}: {what} belong to no sweep; leave out one of the two"
            )
        if self.origin.is_ours and self.source is not None:
            _of_others(replace(self, origin=Origin.PUBLISHED, filters=()))  # it is one, or raises
            beside = f"{typed('compare')} SIDE {self.source} has them beside our own"
            raise StoreError(
                f"--source {self.source}: of published figures only; add --origin published; "
                f"{beside}"
            )

    @cached_property
    def trial_filters(self) -> list[str]:
        """Filters that choose what is shown, and leave medians and baselines alone."""
        return [text for text in self.filters if text not in self.attempt_filters]

    @cached_property
    def attempt_filters(self) -> list[str]:
        both = zip(self.filters, parsed(self.filters), strict=True)
        return [text for text, condition in both if not is_of_trials(condition)]

    @property
    def asked(self) -> str:
        """The sweep and the filters, as typed."""
        filters = " ".join(self.filters)
        if self.sweep:
            return f"--sweep {self.sweep} {filters}".rstrip()
        return filters

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Notes that belong to every number that is found."""
        if not self.origin.is_ours or not self.attempt_filters:
            return ()
        asked = " ".join(self.attempt_filters)
        return (f"only attempts with {asked}: medians and baselines are of these",)

    @cached_property
    def show_command(self) -> str:
        """The command, without a password, that shows an attempt whose number follows."""
        return f"{typed('show')} {command_line(self.named_db)}".rstrip()

    def analysis(self, name: str, *arguments: str, names_origin: bool = False) -> str:
        """Return a command of analysis about this database, without a password."""
        origin = ["--origin", str(self.origin)] if names_origin else []
        return f"{typed(name)} {command_line([*self.named_db, *origin, *arguments])}".rstrip()

    @property
    def found_by(self) -> tuple[str, ...]:
        """The setting by which a sweep finds the database."""
        if self.db == default_url():
            return ()
        return (f"store.url={hydra_value(masked(self.db))}",)

    @property
    def named_db(self) -> list[str]:
        if self.db == default_url():
            return []
        return ["--db", self.db]


def choose(
    db: str,
    filters: Sequence[str],
    sweep: str | None,
    origin: Origin | None,
    source: str | None = None,
    baseline: BaselineRule = BaselineRule.SAME,
) -> Selection:
    """Raise StoreError when the database cannot be read, for unknown filters, and as `Selection`
    does.

    A database that has tables of others alone is about these.
    """
    selection = Selection(
        db=db,
        sweep=sweep,
        filters=tuple(filters),
        origin=origin or Origin.MEASURED,
        source=source,
        baseline=baseline,
    )
    if not selection.origin.is_ours:
        return selection
    with reading(open_for_reading(db)) as connection:
        is_usual = origin is None and sweep is None
        has_tables = is_usual and references.has_any(connection)
        if has_tables and not queries.num_attempts(connection):
            return replace(selection, origin=Origin.ELSEWHERE)
        names = full_names(connection, filters)
        selection = replace(selection, filters=tuple(names))
        if origin is not None:
            return selection
        if sweep is not None:
            queries.check_sweep(connection, sweep)
        sweeps = newest_first(connection, names, sweep=sweep)
        if not sweeps:  # what reads beside the filters must see the database as it does without
            there = newest_first(connection, (), sweep=sweep)
            return replace(selection, origin=next(map(Origin, there), selection.origin))
        newest, *others = map(Origin, sweeps)
        if has_tables and not filters:
            others.append(Origin.ELSEWHERE)
    return replace(selection, origin=newest, newest=sweeps[newest], others=tuple(others))


class NothingFoundError(StoreError):
    """No attempt is like what was asked for."""


def load(selection: Selection) -> list[Result]:
    """Return at least one result.

    Raises StoreError when the database cannot be read, a filter is none, or nothing is there.
    """
    if selection.origin.is_ours:
        return _ours(selection)[0]
    return _of_others(selection)


def _of_others(selection: Selection) -> list[Result]:
    is_published = selection.origin is Origin.PUBLISHED
    engine = open_existing(selection.db) if is_published else open_for_reading(selection.db)
    if engine is None:
        rows = references.known_references(None)
    else:
        read = references.measured_elsewhere
        if is_published:
            read = references.known_references
        with reading(engine) as connection:
            rows = read(connection)
    if rows and selection.source is not None:
        rows = of_source(rows, selection.source)
    places = list(range(len(rows)))
    if selection.filters:
        places = references.chosen(named(rows), selection.filters)
    if not places:
        name, asked, see = locate(selection.db).name, " in it", ""
        if selection.filters:
            asked = f" like {' '.join(selection.filters)}"
            see = f"; see {typed('table')} --origin published"
        if is_published:
            raise StoreError(f"{name}: no published figure{asked}{see}")
        raise NothingFoundError(
            f"{name}: nothing that was measured elsewhere{asked}; {typed('db')} import TABLE takes "
            "numbers in"
        )
    if is_published:  # what is shown leaves baselines alone
        results = of_others(rows, selection.baseline)
        return [results[place] for place in places]
    rows = [rows[place] for place in places]
    filters = references.parsed([references.full_name(text) for text in selection.filters])
    names = {name_in_records(parsed.name) for parsed in filters}
    return of_others(of_newest_night(rows, names_night=WHEN in names), selection.baseline)


def _ours(selection: Selection) -> tuple[list[Result], list[Row]]:
    """Return results with the attempts that they, and others of their models, are made of."""
    with reading(open_for_reading(selection.db)) as connection:
        attempts = queries.measured(
            connection, selection.attempt_filters, like_sweep=selection.sweep
        )
        races = raced_out(connection)
        results = measured(attempts, selection.baseline, selection.found_by, races)
        if selection.sweep is None:
            results = in_order_asked(results, attempts)
        else:
            asked = queries.asked_for(connection, selection.sweep)
            results = belonging(results, attempts, asked)
        if selection.trial_filters:
            which = AttemptRow.id.in_(attempt_ids(selection.trial_filters))
            chosen = set(connection.scalars(sa.select(AttemptRow.trial_id).where(which)))
            results = [result for result in results if result.trial_id in chosen]
        wanted = [result for result in results if result.environment.origin is selection.origin]
        if not wanted:
            why = _why_none(connection, selection, results)
            raise NothingFoundError(f"{locate(selection.db).name}: {why}")
    # mark trials that ran on several simulated hardwares with the settings of theirs
    profiles: dict[str, set[str]] = defaultdict(set)
    for result in wanted:
        profiles[result.trial_id].add(result.environment.hardware_profile)
    for place, result in enumerate(wanted):
        if result.environment.is_simulated and len(profiles[result.trial_id]) > 1:
            # the engine is the trial's own
            found_by = result.found_by + result.environment.hardware[1:]
            wanted[place] = replace(result, found_by=found_by)
    return wanted, attempts


def _why_none(connection: sa.Connection, selection: Selection, of_others: Sequence[Result]) -> str:
    """Say why nothing was chosen, where there are results of other origins, or none."""
    if of_others:
        there = of_others[0].environment.origin
        like = f"are like {selection.asked}" if selection.asked else "in it"
        return f"only {there} numbers {like}; show them with --origin {there}"
    if selection.asked and queries.num_attempts(connection):
        known = listing.hint(connection, selection.filters)
        seen = own_command(selection.db, "list")
        return f"no attempt is like {selection.asked}; {known}see {seen}"
    return references.instead(connection) or "no attempt in it yet; run a sweep first"


@dataclass(frozen=True, kw_only=True)
class Source:
    """Reads what is asked for once."""

    selection: Selection
    read_already: Sequence[Result] = ()

    @cached_property
    def results(self) -> list[Result]:
        """At least one result; raises StoreError as `analysis.selection.load`."""
        if self.read_already:
            return list(self.read_already)
        if self.selection.origin.is_ours:
            return self._read[0]
        return load(self.selection)

    @cached_property
    def _read(self) -> tuple[list[Result], list[Row]]:
        return _ours(self.selection)

    def of_sweep(self, name: str) -> "Source":
        """Return those of our results that a sweep asked for, without reading them again."""
        results, attempts = self._read
        with reading(self.engine) as connection:
            asked = queries.asked_for(connection, name)
        own = belonging(results, attempts, asked)
        return Source(selection=replace(self.selection, sweep=name), read_already=own)

    @property
    def stored_in(self) -> str:
        """The place of the numbers; published figures come with scalemark and need no database."""
        if self.selection.origin.is_ours or open_existing(self.selection.db):
            return f"database {masked(self.selection.db)}"
        return "published figures that come with scalemark"

    @cached_property
    def attempts(self) -> dict[int, Row]:
        """Details of measured results by attempt's number; published figures have none."""
        ids = sorted({attempt_id for result in self.results for attempt_id in result.attempt_ids})
        if not ids:
            return {}
        return {row["attempt"]: row for row in listing.attempt_details(self.engine, ids)}

    @property
    def notes(self) -> list[str]:
        """Notes of all numbers: which were chosen, and how many other sweeps than the chosen made,
        which asked for the same trials.
        """
        return [*self.selection.notes, *sweep_notes(self.results)]

    @cached_property
    def sweeps(self) -> list[Row]:
        """The sweeps behind measured results, and the one that was selected."""
        names = {row["sweep"] for row in self.attempts.values()} | {self.selection.sweep or ""}
        return sweeps.sweeps(self.engine, sorted(names))

    @cached_property
    def engine(self) -> sa.Engine:
        return open_for_reading(self.selection.db)


_MOST_LOOKED_AT = 20  # sweeps without a number, before all of them are taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """A sweep with a number; where none has one, the newest of which a trial has ended."""

    name: str
    source: Source  # of its trials alone
    everything: Source  # of its origin: what the sweep repeats or completes counts
    # environment and trial of each that has a number; of all where none has one
    keys: frozenset[tuple[str, str]]
    has_numbers: bool
    others: tuple[Origin, ...]  # of other numbers in the database
    passed_over: int = 0  # newer ones, without a number
    has_rivals: bool = False  # of other sweeps, in the answer

    def has(self, result: Result) -> bool:
        return (result.environment.key, result.trial_id) in self.keys

    @property
    def line(self) -> str:
        which = f"Newest sweep: {self.name} ({self.source.selection.origin})"
        if self.passed_over:
            which += f", but for {counted(self.passed_over, 'newer one')} without a number"
        if self.has_rivals:
            which += ", with trials of other sweeps"
        if self.others:
            which += f"; there is --origin {' and '.join(self.others)}, too"
        return f"{which}."


def newest(db: str, baseline: BaselineRule = BaselineRule.SAME) -> Newest | None:
    """Return the sweep that an answer is about where nothing was chosen; None where no trial of a
    sweep has ended, or too many sweeps have no number.
    """
    of_all = choose(db, (), None, None)
    engine = open_for_reading(db)
    with reading(engine) as connection:
        newest_first = sweeps.newest_sweeps(connection, _MOST_LOOKED_AT)
    everything: dict[Origin, Source] = {}
    failed: Newest | None = None
    for place, name in enumerate(newest_first):
        origin = choose(db, (), name, None).origin
        if origin not in everything:
            selection = Selection(db=db, origin=origin, baseline=baseline)
            everything[origin] = Source(selection=selection)
        with suppress(NothingFoundError):
            source = everything[origin].of_sweep(name)
            if not source.read_already:
                continue
            numbers = with_number(source.results)
            keys = {(each.environment.key, each.trial_id) for each in numbers or source.results}
            origins = (of_all.origin, *of_all.others)
            sweep = Newest(
                name=name,
                source=source,
                everything=everything[origin],
                keys=frozenset(keys),
                has_numbers=bool(numbers),
                others=tuple(other for other in origins if other is not origin),
                passed_over=place if numbers else 0,
            )
            if numbers:
                return sweep
            failed = failed or sweep
    if len(newest_first) < _MOST_LOOKED_AT:
        return failed
    return None
