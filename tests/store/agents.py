"""A shared sweep of trials that complete by leaving a file, and processes that run it as agents do."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scalemark.host import software
from scalemark.host.processes import this_process
from scalemark.records.machine import Machine
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder
from store.errors import AwayError, LockedError
from store.sweeps.ledger import Claim, LostError
from store.sweeps.shared import SharedLedger, shared_status
from store.writer import NewSweep, Writer
from sweeper.running.recover import expire
from tests.filled import (
    ENVIRONMENT,
    MACHINE,
    NOON,
    PLACEMENT,
    PROCESS,
    SOFTWARE_KEY,
    STEPS,
    attempt,
)
from tests.specs import small

ONE = small()
SETTINGS: Mapping[str, Any] = {"lease_s": 60.0, "runs_dir": "/runs"}


def share(
    writer: Writer,
    num_repeats: Mapping[TrialSpec, int],
    *,
    name: str = "night",
    wanted_repeats: int | None = None,
    rerun: bool = False,
    machine: Machine = MACHINE,
    environment: dict[str, Any] = ENVIRONMENT,
    settings: Mapping[str, Any] = SETTINGS,
    **changes: Any,
) -> SharedLedger:
    """The ledger of its controller. `changes`: of NewSweep."""
    reported: dict[str, Any] = {
        "name": name,
        "reason": "",
        "command": "sweep.py launcher=agents",
        "started_at": NOON,
        "trials": list(num_repeats),
        "num_repeats": {spec.trial_id: num for spec, num in num_repeats.items()},
        "left_out": [],
        "wanted_repeats": wanted_repeats or max(num_repeats.values()),
        "rerun": rerun,
        "machine": machine,
        "software_key": software.key(environment),
        "shares_host": True,
        "process": PROCESS,
    }
    return writer.begin_shared_sweep(NewSweep(**reported | changes), settings)


def join(
    writer: Writer, *, name: str = "night", machine: Machine = MACHINE, **changes: Any
) -> SharedLedger:
    """One more agent. `changes`: of what it tells of itself."""
    reported: dict[str, Any] = {
        "process": PROCESS,
        "software_key": SOFTWARE_KEY,
        "shares_host": True,
    }
    return writer.join_sweep(name, machine=machine, **reported | changes)


def now() -> datetime:
    return datetime.now(UTC)


def work(url: str, host: str, step: Callable[[], None]) -> None:
    """As one agent after another on a host that nobody else can look at, until nothing is left of the sweep.

    Who loses its lease, or has no answer in time, because others take so long, goes on as a new one. `step` is called wherever
    it may be killed.
    """
    writer = Writer(url)
    process = replace(this_process(), host=host, boot_id=host)
    while True:
        with suppress(LostError, LockedError, AwayError):
            agent = join(writer, process=process)
            step()
            if _work_as(agent, step):
                break
    writer.close()


def _work_as(agent: SharedLedger, step: Callable[[], None]) -> bool:
    """Raises LostError, LockedError, AwayError."""
    while not shared_status(agent.engine, agent.sweep_id).is_settled:
        agent.beat(now())
        step()
        if (repeat := agent.take(8)) is None:
            expire(agent.engine, agent.sweep_id)
            continue
        step()
        assert agent.claim(repeat, now()) is Claim.TAKEN
        folder = RunFolder(Path("runs", f"{repeat.repeat_id}-{repeat.num_attempts + 1}"))
        number = agent.run(repeat, str(folder.path.resolve()), PLACEMENT, now())
        folder.path.mkdir(parents=True)  # once only: nobody ran this before
        step()
        agent.started(repeat.repeat_id, 2**22 + 1, 1)  # no process has this number
        result = attempt(ONE, 1.0).result
        folder.steps.write_text("".join(json.dumps(asdict(step)) + "\n" for step in STEPS))
        folder.write(folder.result, result.to_json())
        step()
        finished = replace(
            attempt(ONE, 1.0, repeat=repeat.repeat, number=number), trial_id=repeat.trial_id
        )
        agent.finish(repeat.repeat_id, replace(finished, run_dir=str(folder.path.resolve())), now())
        step()
    agent.end(now(), finished=True)
    return True
