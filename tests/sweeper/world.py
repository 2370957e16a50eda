"""A sweep of tests.tiny_trainer in this process: real processes, a real database."""

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from conf.schema import LauncherConfig, Start, SweepConfig
from scalemark.host import software
from scalemark.host.processes import is_alive, this_process
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import State
from scalemark.records.trial import TrialSpec
from store.database import open_for_reading
from store.reading import earlier, queries
from store.writer import NewSweep, Writer, read_sweep
from sweeper.devices.host_lock import HostLock
from sweeper.devices.machine import Inventory
from sweeper.devices.slots import DeviceSlots
from sweeper.early_stopping.contests import make_races, results_in
from sweeper.grid.plan import make_plan
from sweeper.live.progress import Progress
from sweeper.loop.orchestrator import Orchestrator
from sweeper.loop.run_folders import RunFolders, recover
from sweeper.loop.supervision import Policy, Stop, Tools
from sweeper.starts import Fork
from tests.filled import MACHINE, NOON

EIGHT = Inventory(kind=DeviceKind.CPU_DEVICE, gpus=(), num_devices=8)


class World:
    """A sweep of tests.tiny_trainer in this process. `expected_s`: seed -> seconds."""

    def __init__(
        self,
        stack: ExitStack,
        specs: list[TrialSpec],
        *,
        name: str = "s",
        repeats: int = 1,
        clock=time.monotonic,
        left_out: Sequence[tuple[str, str]] = (),
        **settings,
    ) -> None:
        sweep = SweepConfig(repeats=repeats, **settings.pop("sweep", {}))
        own = {"grace_s": 0.3, **settings.pop("launcher", {})}
        launcher = LauncherConfig(name="local", start=Start.fork, **own)
        writer = Writer("results.db")
        stack.callback(writer.close)
        key = software.key(software.describe())
        done = earlier.num_completed(
            writer.engine, MACHINE.key, key, shares_host=launcher.share_host
        )
        plan = make_plan(specs, [], sweep, done)
        begun = NewSweep(
            name=name,
            reason="",
            command="sweep.py",
            started_at=NOON,
            trials=specs,
            num_repeats={trial.spec.trial_id: trial.num_repeats for trial in plan.trials},
            left_out=left_out,
            wanted_repeats=repeats,
            rerun=sweep.rerun,
            machine=MACHINE,
            software_key=key,
            shares_host=launcher.share_host,
            process=this_process(),
        )
        ledger = writer.begin_sweep(begun, is_alive)
        folders = RunFolders(
            Path("runs").resolve(), read_sweep(writer.engine, ledger.sweep_id), MACHINE, key
        )
        start = Fork(module="tests.tiny_trainer")
        stack.callback(start.close)
        self.stop = Stop()
        self.tools = Tools(
            ledger=ledger,
            recover=partial(recover, ledger.engine),
            slots=DeviceSlots(EIGHT, share_host=launcher.share_host),
            host_lock=HostLock(),
            start=start,
            folders=folders,
            progress=stack.enter_context(Progress(name, "here", EIGHT, plan)),
            stop=self.stop,
            clock=clock,
        )
        races = []
        if sweep.budget:
            read = results_in(
                writer.engine, MACHINE.key, key, shares_host=launcher.share_host, rerun=sweep.rerun
            )
            races = make_races(specs, repeats, read)
        policy = Policy(launcher=launcher)
        self.orchestrator = Orchestrator(
            self.tools, policy, EIGHT, plan.trials, lambda spec: None, races
        )
        assert not settings

    def run(self) -> Counter[State]:
        self.orchestrator.run()
        return self.orchestrator.ran.states


def rows(sql: str) -> list[tuple]:
    return [tuple(row.values()) for row in queries.rows(open_for_reading("results.db"), sql)]
