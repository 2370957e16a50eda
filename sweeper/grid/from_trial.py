"""Takes the settings of an earlier trial, as `from=TRIAL batch_size=128`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from omegaconf import OmegaConf

from scalemark.host.own_code import ROOT, typed
from scalemark.records.measurement import INJECTED
from scalemark.records.overrides import ID_DIGITS, SETTING, key_of, overrides, with_changes
from scalemark.records.trial import TrialSpec
from scalemark.text import untrusted, wording
from simulator.costs.box import overrides_of
from store import database, filters
from store.schema import AttemptRow, MachineRow, TrialRow
from sweeper import SweepRefusedError

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a sweep took from an earlier trial."""

    trial: str  # its id
    arguments: tuple[str, ...]  # those of it that nothing on the command line replaced

    @property
    def line(self) -> str:
        return f"from trial {self.trial[:ID_DIGITS]}: {wording.joined(self.arguments)}"


def with_trial(arguments: Sequence[str]) -> tuple[Sequence[str], Taken | None]:
    """Return the arguments with those of an earlier trial in the place of `from=TRIAL`, and what
    was taken from it; None where no trial is named.

    The trial is in the database that the sweep writes to. Raises SweepRefusedError for anything
    but the beginning of one trial's id, and StoreError where there is no database.
    """
    named, others = [], []
    for argument in arguments:
        if key_of(argument) == SETTING and "=" in argument:
            named.append(argument.partition("=")[2])
        else:
            others.append(argument)
    if not named:
        return arguments, None
    url = database.default_url()
    for argument in others:
        if key_of(argument) == "store.url":
            url = argument.partition("=")[2]
    beginning = named[0].lower()
    if len(named) > 1 or not filters.begins_id(beginning):
        raise SweepRefusedError(
            f"{SETTING}={','.join(named)}: wanted the {filters.ID_BEGINNING}, of one trial; see "
            f"{_listing(url)}"
        )
    trial_id, known = _overrides(url, beginning)
    settings = [argument for argument in others if "=" in argument and not argument.startswith("-")]
    flags = [argument for argument in others if argument not in settings]
    _check_changes(beginning, known, settings)
    changed = with_changes(known, settings)
    kept = tuple(argument for argument in known if argument in changed)
    return [*flags, *changed], Taken(trial=trial_id, arguments=kept)


def _listing(url: str) -> str:
    """Return the command that lists the trials; `judge` makes any database the usual one."""
    named = [] if url == database.DEFAULT_FILE else ["--db", url]
    return f"{typed('list')} {untrusted.command_line(named)}".rstrip()


def _check_changes(beginning: str, trial: Sequence[str], changes: Sequence[str]) -> None:
    """Refuse what cannot change a trial, but is one of its own."""
    keys = {key_of(argument) for argument in trial}
    for change in changes:
        name, _, value = change.partition("=")
        path = ROOT / "conf" / "experiment" / f"{value}.yaml"
        params: Mapping[str, object] = {}
        if name == "experiment" and path.is_file():
            params = OmegaConf.select(OmegaConf.load(path), "hydra.sweeper.params") or {}
        # experiment=explain sets data for trials that read nothing
        if both := sorted(keys.intersection(params) - {"data"}):
            raise SweepRefusedError(
                f"{SETTING}={beginning} and {change} both choose {', '.join(both)}; leave one out"
            )
        if name in ("command", "command.run") and "model" in keys:
            raise SweepRefusedError(
                f"{SETTING}={beginning} is a trial of a model, and command= runs a program; leave "
                "one out"
            )


def _overrides(url: str, beginning: str) -> tuple[str, Sequence[str]]:
    """Return the id of the one trial that begins so, its overrides, and its last launcher."""
    engine = database.open_for_reading(url)
    with database.reading(engine) as connection:
        begins = sa.select(TrialRow.id, TrialRow.spec).where(filters.id_begins_with(beginning))
        rows = connection.execute(begins.order_by(TrialRow.id)).all()
        if len(rows) != 1:
            what = "not just one trial" if rows else "no such trial"
            alike = ""
            if rows:
                digits = max(ID_DIGITS, len(beginning) + 1)
                ids = [row.id[:digits] for row in rows[:_MOST_NAMED]]
                alike = f"so begin {', '.join(ids)}, and "
            raise SweepRefusedError(
                f"{SETTING}={beginning}: {what} in {database.locate(url).name}; "
                f"{alike}{_listing(url)} shows all"
            )
        trial_id, spec = rows[0]
        newest = (
            sa.select(MachineRow.hardware_profile, MachineRow.pool)
            .join(AttemptRow, AttemptRow.machine_id == MachineRow.id)
            .where(AttemptRow.trial_id == trial_id)
            .order_by(AttemptRow.id.desc())
        )
        machine = connection.execute(newest.limit(1)).first()
    profile, launcher = machine or ("", "")
    try:
        known = TrialSpec.from_json(spec)
        if not known.injected_values.keys() <= INJECTED.keys():
            raise ValueError("it was measured by an earlier version, which could inject more")
        arguments = overrides(known, overrides_of(profile) if profile else ())
    except ValueError as error:
        raise SweepRefusedError(f"{SETTING}={beginning}: {error}; name another trial") from None
    if launcher:  # here it would be measured on another machine
        arguments.append(f"launcher={launcher}")
    return trial_id, arguments
