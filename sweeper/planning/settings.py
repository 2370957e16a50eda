"""Checks the settings of a sweep before anything runs."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from datetime import datetime
from pathlib import Path

from conf.schema import Config, LauncherConfig, PlanFormat, StoreConfig
from scalemark.abilities import LAUNCHERS, LOCAL
from scalemark.host.own_code import lack_of_tensorflow
from scalemark.records.axes import Engine
from sweeper.errors import SweepRefusedError
from sweeper.running import judgement

LEAST_FREE_BYTES = 64 * 2**20  # less room than this is no place to start a sweep
MOST_REPEATS = 1000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# setting of the launcher -> the least value, and its unit
_LEAST = {
    "timeout_s": (0.001, "seconds"),
    "start_timeout_s": (0.001, "seconds"),
    "step_timeout_s": (0.001, "seconds"),
    "grace_s": (0.001, "seconds"),
    "rank_start_timeout_s": (0.001, "seconds"),
    "orphan_timeout_s": (10.0, "seconds"),  # a sign of life comes every two
    "rank_timeout_s": (5.0, "seconds"),  # a rank that is well gives a sign of life every two
    "host_memory_gib": (0.001, "GiB"),
    "max_parallel": (1, "trials"),
}
_MAY_BE_NULL = ("host_memory_gib", "max_parallel")


def check(config: Config) -> str:
    """Return the name of the sweep. Raises SweepRefusedError for settings that cannot be."""
    # without importing TensorFlow, which takes seconds
    lack = lack_of_tensorflow() if config.engine is Engine.tensorflow else None
    if lack:
        raise SweepRefusedError(f"engine=tensorflow: {lack}, or choose engine=simulated")
    _check_hardware(config)
    if not 1 <= config.sweep.repeats <= MOST_REPEATS:
        raise SweepRefusedError(f"sweep.repeats={config.sweep.repeats}: wanted 1 to {MOST_REPEATS}")
    if config.sweep.plan_format is PlanFormat.json and not config.sweep.dry_run:
        raise SweepRefusedError(
            "sweep.plan_format=json: goes with a plan that is only printed; add sweep.dry_run=true"
        )
    _check_launcher(config.launcher)
    _check_heeded(config.launcher)
    if config.sweep.race and config.sweep.repeats < 2:
        raise SweepRefusedError(
            "sweep.race=true: with sweep.repeats=1 each trial runs once, and there is nothing to "
            "save; say how often each may run at most, as sweep.repeats=5, or leave it out"
        )
    judgement.check(config.retry)
    name = config.sweep.name
    if name is None:
        return f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    if not _NAME.fullmatch(name):
        raise SweepRefusedError(
            f"sweep.name={name[:40]}: wanted letters, digits, '.', '_' and '-', 100 at most"
        )
    return name


def check_folders(store: StoreConfig) -> None:
    """Raise SweepRefusedError for folders that a sweep cannot write to."""
    for setting in ("runs_dir", "figures_dir"):
        _check_folder(setting, Path(getattr(store, setting)).expanduser().resolve())


def _check_hardware(config: Config) -> None:
    """Refuse a profile to whatever is no simulation, wherever it would run."""
    if config.hardware.profile is None or config.engine is Engine.simulated:
        return
    setting = f"hardware={config.hardware.profile.name}: a profile is not a machine"
    if config.engine is Engine.command:
        raise SweepRefusedError(
            f"{setting}, and the cost model knows nothing of programs of your own; leave it out, "
            "or choose hardware=gpu or cpu, to run yours on real devices"
        )
    raise SweepRefusedError(
        f"{setting}; add engine=simulated, or choose hardware=auto, gpu or cpu to measure on real "
        "devices"
    )


def _check_launcher(launcher: LauncherConfig) -> None:
    for setting, (least, unit) in _LEAST.items():
        value = getattr(launcher, setting)
        if value is None or least <= value < float("inf"):
            continue
        or_null = ", or null for no limit" if setting in _MAY_BE_NULL else ""
        raise SweepRefusedError(
            f"launcher.{setting}={value:g}: wanted {least:.3g} {unit} or more{or_null}"
        )
    if launcher.max_parallel is not None and not launcher.share_host:
        raise SweepRefusedError(
            f"launcher.max_parallel={launcher.max_parallel}: trials run one at a time unless "
            "launcher.share_host=true; set that, or leave it out"
        )


def _check_heeded(launcher: LauncherConfig) -> None:
    """Refuse settings that the chosen launcher ignores."""
    defaults = LauncherConfig()
    heeded_by: dict[str, tuple[str, ...]] = {
        name: (name,) for name, one in LAUNCHERS.items() if one.settings
    }
    heeded_by |= {"hosts": ("prefix", "ssh"), "python": tuple(sorted({*LAUNCHERS} - {LOCAL}))}
    for setting, launchers in heeded_by.items():
        is_set = getattr(launcher, setting) != getattr(defaults, setting)
        if is_set and launcher.name not in launchers:
            raise SweepRefusedError(
                f"launcher.{setting}: launcher={launcher.name} ignores it; leave it out, or choose "
                f"launcher={' or '.join(launchers)}"
            )


def _check_folder(setting: str, folder: Path) -> None:
    """Refuse a folder that cannot be written to: better now than after hours of trials."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free_bytes = shutil.disk_usage(existing).free
    if not existing.is_dir():
        problem = f"{existing} is not a folder"
    elif not os.access(existing, os.W_OK):
        problem = f"{existing} is read-only; choose another folder"
    elif free_bytes < LEAST_FREE_BYTES:
        problem = (
            f"only {free_bytes // 2**20} MiB free, a sweep wants {LEAST_FREE_BYTES // 2**20}; make "
            "room or choose another folder"
        )
    else:
        return
    raise SweepRefusedError(f"store.{setting}={folder}: {problem}")
