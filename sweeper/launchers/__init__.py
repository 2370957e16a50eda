"""Decides where attempts run: one file per launcher, named as launcher.name has it.

A launcher is a file here and a choice in `conf/launcher/`. The file begins with ABILITIES (see
scalemark/abilities.py) and has a class `Launcher`, made with the sweep's config and name. Making it
raises SweepRefusedError, with what there is, for what could never run; trials wider than the
inventory are refused by the plan. `start()` returns a `sweeper.starts.Start`, whose
`start(folder, environment)` reads trial.json and placement.json of the run folder, and returns a
`Process`: a local child, leader of its group, with `pid`, `descriptor` (a pidfd), `signal_group`
and `reap`. Deadlines, retries, recording and recovery look at that child and at the run folder
alone, so the child

- fills the run folder as the trainer does, result.json last, and ends with the trainer's status;
- heeds SIGINT and SIGTERM as the trainer does; after its SIGKILL the attempt must end, too;
- keeps a file `.token` in the folder while it waits for a host: deadlines begin when it is gone;
- ends with HOST_LOST, and a result.json that says why, where the host or the way to it was lost
  (the attempt is tried again) or the engine's time limit came (it is not).

Who has a command that runs its arguments elsewhere needs none of this: `prefix.Launcher` does it
all with that command, also for trials over several hosts, whose supervisor runs on this host.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from conf.schema import Config
from scalemark.abilities import LAUNCHERS
from scalemark.host import program_software, refs, software
from scalemark.program import template
from scalemark.records.attempt import PYTHONPATH_VARIABLE, WORKDIR_VARIABLE
from scalemark.records.machine import Machine
from scalemark.records.trial import TrialSpec
from scalemark.text.untrusted import quoted
from sweeper import SweepRefusedError
from sweeper.devices.host_lock import Lock
from sweeper.devices.machine import Inventory
from sweeper.devices.slots import Slots
from sweeper.starts import Start

Programs = Sequence[tuple[Sequence[str], bool, str]]
"""For each program of a sweep, the words that say which software runs, whether they begin with its
name (a shell knows more names, and some are known to the attempt alone), and its ref, or nothing.
"""


class Launcher(Protocol):
    """See above."""

    # of its hosts, looked up before the plan
    machine: Machine
    inventory: Inventory
    software: Mapping[str, Any]

    def software_of(self, programs: Programs) -> tuple[Mapping[str, Any], Sequence[str]]:
        """Return what its hosts have of a user's programs, and what is not known of that."""
        ...

    def slots(self) -> Slots: ...
    def host_lock(self) -> Lock: ...
    def start(self) -> Start: ...


def load(config: Config, name: str) -> Launcher:
    """Make the launcher of the sweep `name`. Raises SweepRefusedError."""
    chosen = config.launcher.name
    if chosen not in LAUNCHERS:
        there_are = ", ".join(LAUNCHERS)
        raise SweepRefusedError(f"launcher={chosen}: unknown launcher; choose one of {there_are}")
    module = import_module(f"{__name__}.{chosen}")
    return cast(Launcher, module.Launcher(config, name))


def programs_of(specs: Sequence[TrialSpec]) -> Programs:
    """Return each program once."""
    programs: dict[tuple[Sequence[str], bool, str], None] = {}
    for spec in specs:
        program = template.words(spec.command, shell=spec.shell)[0]
        axes = template.of_axes(spec.axes).keys()
        is_named = not spec.shell and set(template.names(program)) <= axes
        ref = refs.of_trial(spec.free)
        programs[tuple(template.software_words(spec)), is_named, ref] = None
    return list(programs)


def describe_programs(
    programs: Programs, variables: Mapping[str, str], *, mends: bool = True
) -> tuple[dict[str, Any], list[str]]:
    """Return what attempts at them will record of their software on this host, and what is not
    known of it, in a sentence each; nothing without any.

    `variables` are those of an attempt, `mends` as `refs.place_of` has it. Raises
    SweepRefusedError for a program or script that is not here, and for programs of several
    environments: a sweep has one.
    """
    folder = Path(variables[WORKDIR_VARIABLE])
    variables = dict(variables)
    variables.pop("PYTHONPATH", None)
    if own := variables.pop(PYTHONPATH_VARIABLE, ""):
        variables["PYTHONPATH"] = own
    kinds: dict[str, tuple[str, dict[str, Any]]] = {}  # key -> the first command with it
    doubts: dict[str, None] = {}
    for given, is_named, ref in programs:
        try:
            place = refs.place_of(ref, given, folder, variables, mends=mends)
        except refs.RefError as error:
            raise SweepRefusedError(str(error)) from None
        with closing(place):
            words = refs.with_program(given, folder, place)
            path = variables.get("PATH", os.defpath)
            if is_named and (problem := template.problem(words, path, place.folder)):
                raise SweepRefusedError(f"command.run: {problem}")
            described = refs.describe(words, place)
            command = quoted(" ".join(word for word in words if word and "{" not in word), 200)
            if doubt := program_software.doubt(words, described):
                doubts[f"`{command}`: {doubt}"] = None
            doubts.update(dict.fromkeys(refs.doubts(words, folder, place)))
            kinds.setdefault(software.key(described), (command, described))
    if len(kinds) > 1:
        first, second, *_ = (command for command, _ in kinds.values())
        raise SweepRefusedError(
            f"command.run: `{first}` and `{second}` have different interpreters, packages or code; "
            "their numbers are never mixed: make a sweep of each"
        )
    return next((described for _, described in kinds.values()), {}), list(doubts)
