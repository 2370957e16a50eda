"""Trials to run next: neighbors of a trial, and the commands that run them."""

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from analysis.results import Result
from scalemark.abilities import VARIABLE_UPDATES
from scalemark.host import program_software, refs
from scalemark.host.software import CODE, COMMIT, DIRTY, checkout_of, facts
from scalemark.program import template
from scalemark.records.axes import REF, AxisValue, Engine, env_variables, is_free
from scalemark.records.machine import DeviceKind
from scalemark.records.overrides import ID_DIGITS, SETTING, changes_to, overrides, sweep
from scalemark.records.trial import AXES, TrialSpec, free_names
from scalemark.stats.within_process import FEWEST_STEPS

_LONGER = 4  # times: halves an interval
_WIDE = 0.1  # half of the 95 % interval, as a share: more makes a verdict suspect
_USUAL_PORT = 29500  # torchrun's own, since nobody knows which is free where it is pasted


def command(spec: TrialSpec, known: Sequence[Result], *settings: str) -> str:
    """Return the command that runs a trial unless that is done, on the hardware of `known`.

    `known` are results of one environment; the one that is most like the trial is named by its id.
    `settings` follow.
    """

    def num_differing(result: Result) -> int:
        """Count axes that differ, with variables that one sets and the other inherits."""
        num: int = sum(result.axes.get(name) != value for name, value in spec.axes.items())
        return num + len(set(free_names(result.axes)).difference(spec.axes))

    like = min(known, key=num_differing)
    hardware = like.environment.hardware
    comment, of_its_code = _with_its_code(spec, like)
    wanted = overrides(spec, hardware)
    changes = changes_to(wanted, overrides(like.spec, hardware))
    if changes is not None:
        wanted = [f"{SETTING}={like.trial_id[:ID_DIGITS]}", *like.found_by, *changes]
    else:
        wanted = list(dict.fromkeys([*wanted, *like.found_by]))
    return f"{comment}{sweep([*wanted, *of_its_code, *settings])}"


def _with_its_code(spec: TrialSpec, like: Result) -> tuple[str, Sequence[str]]:
    """Return what a command needs to run the code that was measured, and not another that is here:
    a comment before it, or the commit behind it.
    """
    comment = "" if REF in dict(spec.free) else _where_other_code_is(spec, like)
    if comment:
        commit = like.environment.software.get(COMMIT, "")
        with suppress(refs.RefError):  # none with changes is one, and none that is not here
            refs.resolved(commit, Path.cwd())
            return "", (f"+{REF}={commit[:8]}",)
    return comment, ()


def _where_other_code_is(spec: TrialSpec, like: Result) -> str:
    """Return a comment that names the code that was measured, where other code is here."""
    software, ref = like.environment.software, refs.of_trial(spec.free)
    if not software.get(CODE) and not ref:
        return ""
    here = facts(program_software.describe(template.software_words(spec), Path.cwd(), os.environ))
    commit = ref.rpartition("@")[2] or software.get(COMMIT, "")
    shown = here.get(COMMIT, "")
    is_at_commit = shown.startswith(commit) and not shown.endswith(DIRTY)
    if is_at_commit if ref else here.get(CODE) == software[CODE]:
        return ""
    if commit:
        commit = f" (commit {commit.replace(DIRTY, ', with changes')})"
    if commit and checkout_of(Path.cwd()):
        return f"# first check out the code that was measured{commit}: "
    return f"# with the code that was measured{commit}, which is not the one here: "


def repeated(num_repeats: int) -> tuple[str, ...]:
    """Return the setting of so many repeats; one is usual."""
    return (f"sweep.repeats={num_repeats}",) if num_repeats > 1 else ()


def rerun_command(result: Result, num_repeats: int) -> str:
    """Return the command that runs a result's trial once more, though it is done: longer where its
    one run was too short, as its verdict asks for.
    """
    spec, low, high = result.spec, result.low, result.high
    if result.is_suspect and len(result.repeats) < 2 and not result.is_reported:
        if not result.is_settled and not result.is_of_program:
            spec = replace(spec, min_warm_up_steps=max(_LONGER * spec.min_warm_up_steps, 1))
        most = _WIDE * (result.throughput or 0.0)
        is_wide = low is None or high is None or (high - low) / 2 > most
        if is_wide and not spec.lacks(AXES["num_steps"]):
            fewest = (FEWEST_STEPS + 1) * spec.steps_per_execution
            spec = replace(spec, num_steps=max(_LONGER * spec.num_steps, fewest))
    return command(spec, [result], *_rerun(result, num_repeats))


def portable_command(result: Result, num_repeats: int) -> str:
    """Return what `again` does with every axis, for a reader who has not the database."""
    comment, of_its_code = _with_its_code(result.spec, result)
    axes = overrides(result.spec, result.environment.hardware)
    return f"{comment}{sweep([*axes, *of_its_code, *_rerun(result, num_repeats)])}"


def filled_command(result: Result) -> str:
    """Return the command line of a program's trial, ready to paste into a shell.

    It is empty of all other trials, and over several hosts, where each host has its own.
    """
    if not result.is_of_program or result.hosts > 1:
        return ""
    spec = result.spec
    place = template.Place(
        run_dir=Path(),
        free_port=_USUAL_PORT,
        gpus_per_host=spec.num_gpus,
        sees_gpus=result.environment.device_kind is DeviceKind.GPU,
    )
    values = template.of_axes(spec.axes) | place.values()
    words = [f"{name}={shlex.quote(value)}" for name, value in env_variables(spec.free).items()]
    try:
        arguments = template.filled(spec.command, values, shell=spec.shell)
    except template.TemplateError:  # the database lacks an axis that the command line uses
        return ""
    return _where_other_code_is(spec, result) + " ".join([*words, shlex.join(arguments)])


def _rerun(result: Result, num_repeats: int) -> list[str]:
    shared = ["launcher.share_host=true"] if result.environment.shares_host else []
    return [*shared, *repeated(num_repeats), "sweep.rerun=true"]


def with_num_gpus(spec: TrialSpec, num_gpus: int) -> TrialSpec:
    """Return the trial on so many GPUs, over as many hosts where these can share them, else on one.

    Strong scaling keeps the batch of all GPUs, which `divides_batch` says they can share.
    """
    hosts = spec.hosts if num_gpus % spec.hosts == 0 else 1
    batch_size = spec.batch_size
    if spec.scaling == "strong":
        batch_size = batch_size * spec.num_gpus // num_gpus
    return replace(spec, hosts=hosts, num_gpus=num_gpus, batch_size=batch_size)


def divides_batch(spec: TrialSpec, num_gpus: int) -> bool:
    """Return whether so many GPUs can share the batch evenly, as strong scaling wants."""
    return spec.scaling != "strong" or spec.batch_size * spec.num_gpus % num_gpus == 0


def with_way(spec: TrialSpec, axes: Mapping[str, AxisValue | None]) -> TrialSpec:
    """Return the trial with other values of the axes that its strategy stands for; None is without
    the free axis. Variables are staged only where the variable update can.
    """
    own: dict[str, Any] = {axis: value for axis, value in axes.items() if not is_free(axis)}
    if spec.engine != Engine.command:
        update = VARIABLE_UPDATES.get(own["variable_update"])
        is_staged = spec.staged_vars and update is not None and update.stages
        return replace(spec, **own, staged_vars=is_staged)
    free = dict(spec.free) | {axis: value for axis, value in axes.items() if axis not in own}
    there = {axis: value for axis, value in free.items() if value is not None}
    return replace(spec, **own, free=tuple(there.items()))


def is_worth_again(result: Result, known: Iterable[Result]) -> bool:
    """Return whether it is one suspect run, and no trial of `known` in its environment stayed
    suspect over several: then the machine is busy, and one more run would be suspect, too.
    """
    for other in known:
        is_there = other.environment.key == result.environment.key
        if is_there and other.is_suspect and len(other.repeats) > 1:
            return False
    return result.is_suspect and len(result.repeats) == 1
