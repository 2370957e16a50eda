"""Runs a rank other than worker 0: it trains along, or waits for what worker 0 sends."""

from __future__ import annotations

from scalemark.abilities import VARIABLE_UPDATES
from scalemark.records.measurement import Result
from scalemark.records.outcomes import Outcome
from scalemark.records.trial import TrialSpec
from scalemark.run_folder.folder import RunFolder
from trainer import registry, run
from trainer.process import parent
from trainer.ranks import beat, servers
from trainer.ranks.own_rank import OwnRank


def accompany(spec: TrialSpec, folder: RunFolder, own: OwnRank) -> Result:
    """Return once worker 0 says that all is done; a rank that serves never returns."""

    def on_ready() -> None:
        parent.end_at_signals()
        beat.start(folder, own.rank)

    if VARIABLE_UPDATES[spec.variable_update].every_worker_trains:
        on_ready()
        return _train_along(spec, folder, own)
    servers.serve(spec, own.cluster, own.rank, on_ready)


def _train_along(spec: TrialSpec, folder: RunFolder, own: OwnRank) -> Result:
    """Train as worker 0 does, for as many steps as it takes, and measure nothing."""
    trial_devices = run.join(spec, folder, own)
    run.prepare(spec)
    data = registry.load("data", spec.data).open_input(spec, trial_devices)
    training = run.build(spec, trial_devices, at=data.at)
    assert trial_devices.lockstep is not None  # it joined others
    num_calls = trial_devices.lockstep.follow(lambda: training.towers.step(data.next()))
    print(f"{own.rank.name} took {num_calls * spec.steps_per_execution} steps")
    return Result(outcome=Outcome.COMPLETED, message="", measurement=None, op_placement={})
