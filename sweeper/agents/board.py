"""Draws what the agents of a shared sweep run now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from scalemark.run_folder.folder import RunFolder
from store.sweeps.agents import RunningRow
from sweeper.live.doing import doing_text
from sweeper.live.progress import Progress
from sweeper.live.snapshot import RunningAttempt
from sweeper.planning.plan import PlannedTrial


class Board:
    """Numbers the devices of each agent on from those of the one before."""

    def __init__(
        self,
        progress: Progress,
        trials: Mapping[str, PlannedTrial],
        label: Callable[[str], str],
        num_devices: int,
    ) -> None:
        self._progress, self._trials, self._label = progress, trials, label
        self._num_devices = num_devices  # of each host
        self._slots: dict[int, int] = {}  # agent -> its place among those that ran something

    def draw(self, rows: Sequence[RunningRow], eta_s: float | None, note: str) -> None:
        views = tuple(self._view(row) for row in rows)
        self._progress.draw(views, eta_s, note, num_slots=len(self._slots) * self._num_devices)

    def _view(self, row: RunningRow) -> RunningAttempt:
        first = self._slots.setdefault(row.orchestrator_id, len(self._slots)) * self._num_devices
        planned = self._trials.get(row.trial_id)
        return RunningAttempt(
            slots=tuple(first + device for device in row.placement.devices),
            label=f"{row.host}: {self._label(row.trial_id)}",
            repeat=row.repeat,
            attempt=row.attempt,
            doing=doing_text(RunFolder(Path(row.run_dir)), planned.spec) if planned else "unknown",
            elapsed_s=(datetime.now(UTC) - row.started_at).total_seconds(),
            expected_s=None,
        )
