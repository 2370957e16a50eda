"""A process that does all an orchestrator does with a database, and runs nothing: its trials complete by leaving a file."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from scalemark.host.processes import is_alive, this_process
from scalemark.records.measurement import Outcome
from scalemark.records.trial import TrialSpec
from store.ledger import (
    ClaimResult,
    Ledger,
    OpenRepeat,
    abandoned,
    close_abandoned,
    end_abandoned,
    unended,
)
from store.reading import earlier
from store.writer import NewSweep, Writer
from tests.filled import MACHINE, PLACEMENT, SOFTWARE_KEY, attempt

MOST_IN_VAIN = 1000
Step = Callable[[], None]


def orchestrate(
    url: str, name: str, specs: list[TrialSpec], wanted_repeats: int, step: Step
) -> None:
    """Until nothing is left of the sweep; `step` is called wherever it may be killed."""
    by_id = {spec.trial_id: spec for spec in specs}
    writer = Writer(url)
    recover(writer.engine, by_id, step)
    completed = earlier.num_completed(writer.engine, MACHINE.key, SOFTWARE_KEY)
    sweep = NewSweep(
        name=name,
        reason="",
        command="",
        started_at=datetime.now(UTC),
        trials=specs,
        num_repeats={
            trial_id: max(0, wanted_repeats - completed.get(trial_id, 0)) for trial_id in by_id
        },
        left_out=[],
        wanted_repeats=wanted_repeats,
        rerun=False,
        machine=MACHINE,
        software_key=SOFTWARE_KEY,
        shares_host=False,
        process=this_process(),
    )
    ledger = writer.begin_sweep(sweep, is_alive)
    step()
    num_in_vain = 0
    while waiting := ledger.open_repeats():
        taken = [repeat for repeat in waiting if _run(ledger, repeat, by_id[repeat.trial_id], step)]
        num_in_vain = 0 if taken else num_in_vain + 1
        if num_in_vain > MOST_IN_VAIN:
            raise RuntimeError("nobody completes what is left")
        if not taken:  # others run what is left, or were killed when they did
            recover(writer.engine, by_id, step)
        ledger.beat(datetime.now(UTC))
        step()
    ledger.end(datetime.now(UTC), finished=True)
    writer.close()


def recover(engine: sa.Engine, by_id: dict[str, TrialSpec], step: Step) -> None:
    dead = [
        orchestrator_id
        for orchestrator_id, process, beat_at in unended(engine)
        if not is_alive(process, beat_at)
    ]
    for left in abandoned(engine, dead):
        step()
        finished = None
        if left.run_dir is not None:
            has_completed = Path(left.run_dir, "result").exists()
            finished = attempt(
                by_id[left.trial_id],
                1.0 if has_completed else None,
                repeat=left.repeat,
                number=left.attempt,
                outcome=Outcome.INTERRUPTED,
            )
        close_abandoned(engine, left, finished)
    end_abandoned(engine, dead, datetime.now(UTC))


def _run(ledger: Ledger, repeat: OpenRepeat, spec: TrialSpec, step: Step) -> bool:
    if ledger.claim(repeat) is not ClaimResult.TAKEN:
        return False
    step()
    folder = Path(
        "runs", f"{ledger.sweep_id}-{repeat.trial_id}-{repeat.repeat}-{repeat.num_attempts + 1}"
    )
    number = ledger.run(repeat, str(folder), PLACEMENT, datetime.now(UTC))
    step()
    folder.mkdir(parents=True)  # once only: nobody ran this before
    ledger.started(repeat.repeat_id, 1, 1)
    step()
    (folder / "result").touch()
    step()
    ledger.finish(repeat.repeat_id, attempt(spec, 1.0, repeat=repeat.repeat, number=number))
    step()
    return True
