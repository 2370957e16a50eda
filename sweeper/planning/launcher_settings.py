"""Refuses settings that the chosen launcher ignores, and what a shared sweep cannot have."""

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
    """Raise SweepRefusedError, naming the setting."""
    launcher = config.launcher
    for setting, value, heeded_by in _set_by_user(launcher):
        if launcher.name not in heeded_by:
            raise SweepRefusedError(
                f"launcher.{setting}={value}: launcher={launcher.name} ignores it; leave it out, "
                f"or choose launcher={', '.join(heeded_by)}"
            )
    if launcher.name != LOCAL:
        _check_shared(config)


def doubts(config: Config) -> list[str]:
    """Return warnings about settings that are allowed, and probably slips."""
    time_min, timeout_s = config.launcher.slurm.time_min, config.launcher.timeout_s
    if time_min is None or time_min * 60 >= timeout_s:
        return []
    return [
        f"launcher.slurm.time_min={time_min}: an attempt may take "
        f"launcher.timeout_s={timeout_s:g}, longer than its job, whose end interrupts it each "
        "time; raise time_min, or lower timeout_s"
    ]


def _set_by_user(launcher: LauncherConfig) -> Iterator[tuple[str, object, tuple[str, ...]]]:
    """Yield launchers' settings that are not their defaults, and the launchers that heed each."""
    defaults = LauncherConfig()
    own = {name: (name,) for name, one in LAUNCHERS.items() if one.settings}
    for group, heeded_by in {"agents": tuple(LAUNCHERS), **own}.items():
        default = getattr(defaults, group)
        for field in fields(default):
            value = getattr(getattr(launcher, group), field.name)
            if value == getattr(default, field.name):
                continue
            setting = f"{group}.{field.name}"
            starts_agents = setting == "agents.num_hosts"
            yield setting, value, starting_agents() if starts_agents else heeded_by


def _check_shared(config: Config) -> None:
    launcher = f"launcher={config.launcher.name}"
    here = "choose launcher=local"
    if config.engine is Engine.simulated:
        raise SweepRefusedError(
            f"engine=simulated: {launcher} has hosts run trials, and simulated ones need none; "
            f"{here}"
        )
    if file_of(config.store.url):
        raise SweepRefusedError(
            f"{launcher}: hosts share a sweep through PostgreSQL, and store.url is a SQLite file, "
            "which one host alone can write to; set store.url or SCALEMARK_DB to "
            f"postgresql://USER@HOST/NAME, or {here}"
        )
    for setting in ("race", "skip_larger_after_oom"):
        if getattr(config.sweep, setting):
            raise SweepRefusedError(
                f"sweep.{setting}=true: one process decides then what the next trial is, and with "
                f"{launcher} each agent takes what is next; leave it out, or {here}"
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
