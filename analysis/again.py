"""The command that runs a trial, as short as an earlier trial makes it: `from=TRIAL num_gpus=8`.

Every command that analysis and the report suggest for a sweep of ours is made here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis.results import Result
from scalemark.records.overrides import ID_DIGITS, SETTING, changes_to, overrides, sweep
from scalemark.records.trial import TrialSpec, free_names


def command(
    spec: TrialSpec, known: Sequence[Result], *settings: str, without: Sequence[str] = ()
) -> str:
    """Return the command that runs a trial unless that is done, on the hardware of `known`.

    `known` are results of one environment; the one that is most like the trial is named by its id.
    `settings` follow, and the overrides in `without` are left to the sweep.
    """
    axes = spec.axes
    like = min(known, key=lambda result: _num_differing(axes, result.axes))
    hardware = like.environment.hardware
    wanted = [
        override
        for override in overrides(spec, hardware)
        if override.partition("=")[0] not in without
    ]
    changes = changes_to(wanted, overrides(like.spec, hardware))
    if changes is not None and not without:
        wanted = [f"{SETTING}={like.trial_id[:ID_DIGITS]}", *like.found_by, *changes]
    else:
        wanted += [override for override in like.found_by if override not in wanted]
    return sweep([*wanted, *settings])


def _num_differing(axes: Mapping[str, object], others: Mapping[str, object]) -> int:
    """Count the axes in which they differ, with variables that one sets and the other inherits."""
    num = sum(others.get(name) != value for name, value in axes.items())
    further = {name: value for name, value in others.items() if name not in axes}
    return num + len(free_names(further))


def repeated(num_repeats: int) -> tuple[str, ...]:
    """Return the setting of so many repeats; one is usual."""
    return (f"sweep.repeats={num_repeats}",) if num_repeats > 1 else ()


def again(result: Result, num_repeats: int) -> str:
    """Return the command that runs a result's trial once more, though it is done."""
    return command(result.spec, [result], *_rerun(result, num_repeats))


def elsewhere(result: Result, num_repeats: int) -> str:
    """Return what `again` does with every axis, for a reader who has not the database."""
    axes = overrides(result.spec, result.environment.hardware)
    return sweep([*axes, *_rerun(result, num_repeats)])


def _rerun(result: Result, num_repeats: int) -> list[str]:
    shared = ["launcher.share_host=true"] if result.environment.shares_host else []
    return [*shared, *repeated(num_repeats), "sweep.rerun=true"]
