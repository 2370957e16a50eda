"""Turns what the database says of a sweep into a snapshot, for a second terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean

from scalemark.records.devices import DeviceKind
from scalemark.run_folder.folder import RunFolder
from store.sweeps.shared import SharedStatus
from store.sweeps.sweep_status import (
    FinishedRepeat,
    Pace,
    RunningRepeat,
    SweepState,
    SweepStatus,
)
from sweeper.live.doing import doing_text
from sweeper.live.snapshot import Counts, EndedAttempt, RunningAttempt, SlotName, Snapshot


def snapshot_of(status: SweepStatus, now: datetime | None = None) -> Snapshot:
    """Return what is drawn of a sweep that runs, has ended, or was killed."""
    now = now or datetime.now(UTC)
    state = status.state
    running = (
        [_running(repeat, now) for repeat in status.running] if state is SweepState.RUNNING else []
    )
    kinds = [repeat.device_kind for repeat in status.running] or [
        repeat.device_kind for repeat in status.last_finished
    ]
    kind = DeviceKind(kinds[0]) if kinds else DeviceKind.CPU_STAND_IN
    # Of a shared sweep each host numbers its own: its agents' lines tell what they run.
    devices = (
        [] if status.shared else sorted(device for attempt in running for device in attempt.slots)
    )
    return Snapshot(
        sweep=status.name,
        state=state,
        machine=_where(status),
        kind=kind,
        slots=tuple(SlotName.of(kind, device) for device in devices),
        running=tuple(running),
        counts=Counts.of(status.counts, len(running)),
        recent=tuple(_ended(repeat) for repeat in reversed(status.last_finished)),
        eta_s=_eta_s(status.paces, len(running)) if state is SweepState.RUNNING else None,
        notes=(_note(status, state), *agents_told(status.shared)),
    )


def agents_told(shared: SharedStatus | None) -> list[str]:
    """Return a line for each agent that runs, or has something to tell: where it is, what it runs,
    and since when it gave no sign.
    """
    told = []
    for agent in shared.agents if shared else ():
        who = (
            f"{'controller' if agent.is_controller else 'agent'} on {agent.process.host}, "
            f"process {agent.process.pid}"
        )
        note = f": {agent.note}" if agent.note else ""
        if agent.ended_at is None:
            running = ", ".join(agent.running) or "nothing"
            doing = "" if agent.is_controller else f", runs {running}"
            told.append(f"{who}{doing}, gave its last sign {agent.silent_s:.0f} s ago{note}")
        elif note:
            told.append(f"{who}, has ended{note}")
    return told


def _where(status: SweepStatus) -> str:
    if status.shared is not None:
        agents = [
            agent
            for agent in status.shared.agents
            if not agent.is_controller and status.shared.is_alive(agent)
        ]
        hosts = sorted({agent.process.host for agent in agents})
        if not agents:
            return "shared by agents, none of which runs now"
        told = "1 agent" if len(agents) == 1 else f"{len(agents)} agents"
        return f"shared by {told} on {', '.join(hosts)}"
    orchestrator = status.orchestrator
    return (
        f"{orchestrator.process.host}, process {orchestrator.process.pid}"
        if orchestrator
        else "imported, or rebuilt from run folders"
    )


def _note(status: SweepStatus, state: SweepState) -> str:
    if state is SweepState.RUNNING:
        return f"running since {status.started_at:%Y-%m-%d %H:%M:%S} UTC"
    if status.finished_at is not None:
        return f"finished {status.finished_at:%Y-%m-%d %H:%M:%S} UTC"
    # as it was typed: scalemark sweep ..., or sweep.py ... after python
    command = status.command
    resumed = command if command.startswith("scalemark ") else f"python {command}"
    return f"{state}; what is left is run by: {resumed}"


def _running(repeat: RunningRepeat, now: datetime) -> RunningAttempt:
    return RunningAttempt(
        slots=repeat.placement.devices,
        label=repeat.label,
        repeat=repeat.repeat,
        attempt=repeat.attempt,
        doing=_doing(RunFolder(Path(repeat.run_dir))),
        elapsed_s=(now - repeat.started_at).total_seconds(),
        expected_s=None,
    )


def _doing(folder: RunFolder) -> str:
    """Of another machine's attempts the folder may be out of reach."""
    try:
        spec = folder.read_trial()
    except (OSError, ValueError):
        return "unknown"
    return doing_text(folder, spec)


def _ended(repeat: FinishedRepeat) -> EndedAttempt:
    return EndedAttempt(
        label=repeat.label,
        outcome=repeat.outcome,
        message=repeat.message,
        duration_s=repeat.duration_s or 0.0,
        throughput=repeat.throughput,
        median_step_s=None,
        jitter_s=None,
        verdict=repeat.verdict,
        verdict_reasons=(),
    )


def _eta_s(paces: Sequence[Pace], num_running: int) -> float | None:
    """What is open takes what was completed took, as many at a time as run now; what was never
    completed, the mean.
    """
    known_s = [pace.mean_duration_s for pace in paces if pace.mean_duration_s is not None]
    if not known_s:
        return None
    left_s = sum(
        pace.num_open * (fmean(known_s) if pace.mean_duration_s is None else pace.mean_duration_s)
        for pace in paces
    )
    return left_s / max(1, num_running)
