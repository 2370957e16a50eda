"""Refuses settings that the chosen launcher would not heed, and what a sweep that is shared with
other hosts cannot have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from conf.schema import Config, LauncherConfig
from scalemark.abilities import LAUNCHERS, LOCAL, starting_agents
from scalemark.records.axes import Engine
from store.database import file_of
from sweeper.errors import SweepRefusedError

LEAST_LEASE_S = 3.0  # with less an agent is thought dead because a disk was slow


def check_launcher_settings(config: Config) -> None:
    """Raises SweepRefusedError, naming the setting."""
    launcher = config.launcher
    for setting, value, heeded_by in _set_by_user(launcher):
        if launcher.name not in heeded_by:
            raise SweepRefusedError(
                f"launcher.{setting}={value}: launcher={launcher.name} does not heed it; leave it out, or choose "
                f"launcher={', '.join(heeded_by)}"
            )
    if launcher.name != LOCAL:
        _check_shared(config)


def doubts(config: Config) -> list[str]:
    """What may be meant so, and probably is not."""
    time_min, timeout_s = config.launcher.slurm.time_min, config.launcher.timeout_s
    if time_min is None or time_min * 60 >= timeout_s:
        return []
    return [
        f"launcher.slurm.time_min={time_min}: an attempt may take launcher.timeout_s={timeout_s:g}, longer than its job; what "
        "the job's end interrupts is run anew and interrupted again; raise time_min, or lower timeout_s to what a trial takes"
    ]


def _set_by_user(launcher: LauncherConfig) -> Iterator[tuple[str, object, tuple[str, ...]]]:
    """The settings of launchers that are not their defaults, and the launchers that heed each."""
    defaults = LauncherConfig()
    own = {name: (name,) for name, one in LAUNCHERS.items() if one.settings}
    for group, heeded_by in {"agents": tuple(LAUNCHERS), **own}.items():
        default = getattr(defaults, group)
        for field in fields(default):
            value = getattr(getattr(launcher, group), field.name)
            if value != getattr(default, field.name):
                setting = f"{group}.{field.name}"
                yield (
                    setting,
                    value,
                    starting_agents() if setting == "agents.num_hosts" else heeded_by,
                )


def _check_shared(config: Config) -> None:
    told = f"launcher={config.launcher.name}"
    here = "choose launcher=local"
    if config.engine is Engine.simulated:
        raise SweepRefusedError(
            f"engine=simulated: {told} has hosts run trials, and simulated ones need none; {here}"
        )
    if file_of(config.store.url):
        raise SweepRefusedError(
            f"{told}: hosts share a sweep by way of PostgreSQL, and store.url is a SQLite file, which one host alone can write "
            f"to; set store.url or SCALEMARK_DB to postgresql://USER@HOST/NAME, or {here}"
        )
    for setting in ("race", "skip_larger_after_oom"):
        if getattr(config.sweep, setting):
            raise SweepRefusedError(
                f"sweep.{setting}=true: one process decides then what the next trial is, and with {told} each agent takes "
                f"what is next; leave it out, or {here}"
            )
    lease_s = config.launcher.agents.lease_s
    if not LEAST_LEASE_S <= lease_s < float("inf"):
        raise SweepRefusedError(
            f"launcher.agents.lease_s={lease_s:g}: wanted seconds, {LEAST_LEASE_S:g} or more"
        )
    pool = config.launcher.agents.pool
    if pool is not None and not pool.strip():
        raise SweepRefusedError(
            "launcher.agents.pool is empty; wanted a name for hosts that are equal, or null"
        )
