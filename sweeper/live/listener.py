"""What an orchestrator tells while it runs: attempts that start and end, and how the sweep stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from scalemark.records.measurement import Result
from scalemark.records.outcomes import State
from scalemark.run_folder.folder import RunFolder
from sweeper.planning.plan import PlannedTrial


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """An attempt that runs."""

    trial: PlannedTrial
    repeat: int
    attempt: int
    devices: tuple[int, ...]
    folder: RunFolder
    started_s: float
    expected_s: float | None


class Listener(Protocol):
    """Hears from an orchestrator how its sweep goes."""

    @property
    def is_live(self) -> bool:
        """Whether `show` draws anything."""

    def note(self, text: str) -> None:
        """Something people should know, once."""

    def show(
        self, running: Sequence[Started], now_s: float, eta_s: float | None, note: str = ""
    ) -> None:
        """Draw the sweep as it is; `note` is what it waits for."""

    def attempt_started(self, started: Started) -> None:
        """Its process runs."""

    def attempt_ended(
        self,
        trial: PlannedTrial,
        result: Result,
        duration_s: float,
        *,
        again: str | None,
        eta_s: float | None,
    ) -> None:
        """`again`: why the repeat is tried again, or None."""

    def settled(self, state: State) -> None:
        """A repeat needs no more attempts."""
