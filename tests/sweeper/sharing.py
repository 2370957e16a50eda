"""Sweeps of tests.tiny_trainer that real agents share through a real PostgreSQL."""

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

from conf.schema import (
    AgentsConfig,
    HardwareConfig,
    LauncherConfig,
    OnFailure,
    RetryConfig,
    SweepConfig,
)
from scalemark.host import software
from scalemark.host.processes import this_process
from scalemark.records.axes import Engine
from scalemark.records.outcomes import State
from scalemark.records.trial import TrialSpec
from store.database import open_for_reading
from store.reading import queries
from store.sweeps.sweep_record import read_sweep
from store.writer import NewSweep, Writer
from sweeper.agents.same_code import Code
from sweeper.agents.shared_settings import SharedSettings
from sweeper.program_software import Words
from sweeper.running.run_folders import RunFolders
from tests.conftest import PROJECT
from tests.filled import MACHINE, NOON

AGENT = [sys.executable, str(PROJECT / "tests" / "tiny_agent.py")]
RUNS = Path("runs")


def begin(
    url: str,
    specs: list[TrialSpec],
    *,
    repeats: int = 1,
    lease_s: float = 60.0,
    key: str = "",
    on_failure: OnFailure = SweepConfig.on_failure,
    code: Code | None = None,
    engine: Engine = Engine.tensorflow,
    programs: Words = (),
    **launcher: object,
) -> None:
    """As a controller does, which is gone then, and leaves it to its agents."""
    key = key or software.key(software.describe())
    settings = SharedSettings(
        code=code or Code.here(),
        runs_dir=str(RUNS.resolve()),
        engine=engine,
        folder=str(Path.cwd()),
        programs=programs,
        hardware=HardwareConfig(device_kind="cpu_device", num_cpu_devices=4),
        num_devices=4,
        launcher=LauncherConfig(
            name="agents", grace_s=0.3, agents=AgentsConfig(lease_s=lease_s), **launcher
        ),
        retry=RetryConfig(),
        sweep=SweepConfig(on_failure=on_failure),
    )
    sweep = NewSweep(
        name="s",
        reason="",
        command="sweep.py",
        started_at=NOON,
        trials=specs,
        num_repeats={spec.trial_id: repeats for spec in specs},
        left_out=(),
        wanted_repeats=repeats,
        rerun=False,
        machine=MACHINE,
        software_key=key,
        shares_host=bool(launcher.get("share_host")),
        process=replace(this_process(), pid=os.getpid()),
    )
    writer = Writer(url)
    try:
        ledger = writer.begin_shared_sweep(sweep, settings.to_json())
        RunFolders(RUNS.resolve(), read_sweep(writer.engine, ledger.sweep_id), MACHINE, key)
    finally:
        writer.close()


def agent(
    url: str, *arguments: str, locks: str = "", sweep: str = "s", folder: Path = Path()
) -> subprocess.Popen[str]:
    """With `locks` of its own it is on another host, as far as devices are concerned."""
    environment = (
        os.environ | {"SCALEMARK_DB": url} | ({"SCALEMARK_LOCK_DIR": locks} if locks else {})
    )
    return subprocess.Popen(
        [*AGENT, "--sweep", sweep, "--wait", "600", *arguments],
        cwd=folder,
        env=environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def reported(process: subprocess.Popen[str]) -> str:
    """What it said on stderr, once it has ended."""
    return process.communicate()[1]


def rows(url: str, sql: str) -> list[tuple]:
    return [tuple(row.values()) for row in queries.rows(open_for_reading(url), sql)]


def states(url: str) -> Counter[State]:
    return Counter(State(state) for (state,) in rows(url, "SELECT state FROM repeats"))


def completed(url: str) -> list[tuple]:
    """Trial and repeat of each completed attempt."""
    return rows(url, "SELECT trial_id, repeat FROM attempts WHERE outcome = 'completed'")
