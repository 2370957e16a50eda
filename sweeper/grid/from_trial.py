"""Lets the command line name an earlier trial: `from=TRIAL batch_size=128`, `--from TRIAL`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from omegaconf import OmegaConf

from scalemark.host.own_code import ROOT, typed
from scalemark.records.overrides import ID_DIGITS, SETTING, key_of, overrides, with_changes
from scalemark.records.trial import TrialSpec
from scalemark.text.untrusted import command_line
from scalemark.text.wording import joined
from simulator.costs.box import overrides_of
from store.database import DEFAULT_FILE, default_url, locate, open_for_reading, reading
from store.filters import ID_BEGINNING, begins_id, id_begins_with
from store.schema import AttemptRow, MachineRow, TrialRow
from sweeper.errors import SweepRefusedError

_MOST_NAMED = 3
_FLAG = f"--{SETTING}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a sweep took from an earlier trial."""

    trial: str  # its id
    arguments: tuple[str, ...]  # those of it that nothing on the command line replaced

    @property
    def line(self) -> str:
        return f"from trial {self.trial[:ID_DIGITS]}: {joined(self.arguments)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FromTrial:
    """The arguments of a sweep, with those of the trial that they name."""

    arguments: Sequence[str]
    taken: Taken | None = None  # None where none is named


def with_trial(arguments: Sequence[str]) -> FromTrial:
    """Return the arguments with those of an earlier trial in the place of `from=TRIAL`.

    The trial is in the database that the sweep writes to. Raises SweepRefusedError for anything
    but the beginning of one trial's id, and StoreError where there is no database.
    """
    named, others = _named(arguments)
    if not named:
        return FromTrial(arguments=arguments)
    url = default_url()
    for argument in others:
        if key_of(argument) == "store.url":
            url = argument.partition("=")[2]
    beginning = named[0].lower()
    if len(named) > 1 or not begins_id(beginning):
        raise SweepRefusedError(
            f"{SETTING}={','.join(named)}: wanted the {ID_BEGINNING}, of one trial; see "
            f"{_listing(url)}"
        )
    trial_id, known = _overrides(url, beginning)
    settings = [argument for argument in others if "=" in argument and not argument.startswith("-")]
    flags = [argument for argument in others if argument not in settings]
    _check_changes(beginning, known, settings)
    changed = with_changes(known, settings)
    kept = tuple(argument for argument in known if argument in changed)
    taken = Taken(trial=trial_id, arguments=kept)
    return FromTrial(arguments=[*flags, *changed], taken=taken)


def _listing(url: str) -> str:
    """Return the command that lists the trials; `judge` makes any database the usual one."""
    named = [] if url == DEFAULT_FILE else ["--db", url]
    return f"{typed('store')} {command_line(['list', *named])}"


def _check_changes(beginning: str, trial: Sequence[str], changes: Sequence[str]) -> None:
    """Refuse what cannot change a trial, but is one of its own."""
    keys = {key_of(argument) for argument in trial}
    for change in changes:
        name, _, value = change.partition("=")
        if name == "experiment" and (both := sorted(_chosen_by(value) & keys)):
            raise SweepRefusedError(
                f"{SETTING}={beginning} and {change} both choose {', '.join(both)}; leave one out"
            )
        if name in ("command", "command.run") and "model" in keys:
            raise SweepRefusedError(
                f"{SETTING}={beginning} is a trial of a model, and command= runs a program; leave "
                "one out"
            )


def _chosen_by(experiment: str) -> set[str]:
    """Return the axes that an experiment sets; none of one that is not there."""
    path = ROOT / "conf" / "experiment" / f"{experiment}.yaml"
    if not path.is_file():
        return set()
    params = OmegaConf.select(OmegaConf.load(path), "hydra.sweeper.params") or {}
    return set(params) - {"data"}  # which experiment=explain sets for trials that read nothing


def _named(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return what `from` names, and the other arguments."""
    named, others = [], []
    waiting = iter(arguments)
    for argument in waiting:
        key, equals, value = argument.partition("=")
        if key == _FLAG and not equals:
            named.append(next(waiting, ""))
        elif key in (SETTING, _FLAG) and equals:
            named.append(value)
        else:
            others.append(argument)
    return named, others


def _overrides(url: str, beginning: str) -> tuple[str, Sequence[str]]:
    """Return the id of the one trial that begins so, and its overrides."""
    engine = open_for_reading(url)
    with reading(engine) as connection:
        begins = sa.select(TrialRow.id, TrialRow.spec).where(id_begins_with(beginning))
        rows = connection.execute(begins.order_by(TrialRow.id)).all()
        if len(rows) != 1:
            near = list(_near(connection, beginning, [row.id for row in rows]))
            what = "not just one trial" if rows else "no such trial"
            alike = f"near it are {', '.join(near)}, and " if near else ""
            raise SweepRefusedError(
                f"{SETTING}={beginning}: {what} in {locate(url).name}; {alike}{_listing(url)} "
                "shows all"
            )
        trial_id, spec = rows[0]
        newest = (
            sa.select(MachineRow.hardware_profile)
            .join(AttemptRow, AttemptRow.machine_id == MachineRow.id)
            .where(AttemptRow.trial_id == trial_id)
            .order_by(AttemptRow.id.desc())
        )
        profile = connection.scalar(newest.limit(1))
    try:
        arguments = overrides(TrialSpec.from_json(spec), overrides_of(profile) if profile else ())
    except ValueError as error:
        raise SweepRefusedError(f"{SETTING}={beginning}: {error}; name another trial") from None
    return trial_id, arguments


def _near(connection: sa.Connection, beginning: str, ambiguous: Sequence[str]) -> Iterator[str]:
    """Yield trials whose ids begin alike, with as much as tells them apart."""
    ids = list(ambiguous)
    for length in range(len(beginning) - 1, 1, -1):
        if not ids:
            alike = sa.select(TrialRow.id).where(TrialRow.id.startswith(beginning[:length]))
            ids = list(connection.scalars(alike.order_by(TrialRow.id).limit(_MOST_NAMED)))
    for trial_id in ids[:_MOST_NAMED]:
        yield trial_id[: max(ID_DIGITS, len(beginning) + bool(ambiguous))]
