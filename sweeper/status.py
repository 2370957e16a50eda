"""Turns what the database says of a sweep into a snapshot, for a second terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean

from store.records import DeviceKind, RunFolder, TrialSpec
from store.sweep_status import FinishedRepeat, OrchestratorStatus, Pace, RunningRepeat, SweepStatus
from sweeper.process_identity import is_alive
from sweeper.progress import doing_text
from sweeper.snapshot import Counts, EndedAttempt, RunningAttempt, SlotName, Snapshot


def snapshot_of(status: SweepStatus, now: datetime | None = None) -> Snapshot:
    """Of a sweep that runs, has ended, or was killed."""
    now = now or datetime.now(UTC)
    state = _state(status)
    running = [_running(repeat, now) for repeat in status.running] if state == "running" else []
    on_gpus = any(repeat.placement.visible_devices for repeat in status.running)
    kind = DeviceKind.GPU if on_gpus else DeviceKind.CPU_STAND_IN
    devices = sorted(device for attempt in running for device in attempt.slots)
    return Snapshot(
        sweep=status.name,
        state=state,
        machine=_where(status.orchestrator),
        kind=kind,
        slots=tuple(SlotName.of(kind, device) for device in devices),
        running=tuple(running),
        counts=Counts.of(status.counts, len(running)),
        recent=tuple(_ended(repeat) for repeat in reversed(status.last_finished)),
        eta_s=_eta_s(status.paces, len(running)) if state == "running" else None,
        notes=(_note(status, state),),
    )


def _state(status: SweepStatus) -> str:
    """As `Snapshot.state` has it."""
    if status.finished_at is not None:
        return "finished"
    orchestrator = status.orchestrator
    if orchestrator is None or orchestrator.ended_at is not None:
        return "ended"
    return "running" if is_alive(orchestrator.process, orchestrator.heartbeat_at) else "killed"


def _where(orchestrator: OrchestratorStatus | None) -> str:
    return f"{orchestrator.process.host}, process {orchestrator.process.pid}" if orchestrator else "a sweep of an earlier version"


def _note(status: SweepStatus, state: str) -> str:
    if state == "running":
        return f"running since {status.started_at:%Y-%m-%d %H:%M:%S} UTC"
    if status.finished_at is not None:
        return f"finished {status.finished_at:%Y-%m-%d %H:%M:%S} UTC"
    return f"{state}; what is left is run by: python {status.command}"


def _running(repeat: RunningRepeat, now: datetime) -> RunningAttempt:
    folder = RunFolder(Path(repeat.run_dir))
    return RunningAttempt(
        slots=repeat.placement.devices,
        label=_label(repeat),
        repeat=repeat.repeat,
        attempt=repeat.attempt,
        doing=doing_text(folder, TrialSpec.from_json(folder.trial.read_text())) if folder.trial.exists() else "unknown",
        elapsed_s=(now - repeat.started_at).total_seconds(),
        expected_s=None,
    )


def _ended(repeat: FinishedRepeat) -> EndedAttempt:
    return EndedAttempt(
        label=_label(repeat),
        outcome=repeat.outcome,
        message=repeat.message,
        duration_s=repeat.duration_s or 0.0,
        images_per_second=repeat.images_per_second,
        median_step_s=None,
        jitter_s=None,
        verdict=repeat.verdict,
        verdict_reasons=(),
    )


def _label(repeat: RunningRepeat | FinishedRepeat) -> str:
    return f"{repeat.model}-{repeat.strategy}-x{repeat.num_gpus} {repeat.trial_id[:8]}"


def _eta_s(paces: Sequence[Pace], num_running: int) -> float | None:
    """What is open takes what was completed took, as many at a time as run now; what was never completed, the mean."""
    known_s = [pace.mean_duration_s for pace in paces if pace.mean_duration_s is not None]
    if not known_s:
        return None
    left_s = sum(pace.num_open * (fmean(known_s) if pace.mean_duration_s is None else pace.mean_duration_s) for pace in paces)
    return left_s / max(1, num_running)
