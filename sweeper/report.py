"""How a sweep ended: what its command tells in the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from scalemark.records.outcomes import State
from sweeper.race.tally import Saved


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How a sweep ended."""

    name: str
    store_url: str
    figures_dir: Path
    is_simulated: bool
    states: Counter[State]  # of repeats, the last of each
    num_retries: int  # attempts beyond the first of a repeat
    # trials that needed no attempt, and repeats that another sweep completed meanwhile
    num_finished_earlier: int
    num_not_started: int  # repeats that a stop left over
    num_running: int  # repeats that agents go on with
    interrupted: bool
    saved: Saved  # by racing
    device: str  # name of one device
    # a line for each repeat that did not complete: what it was, why, and where its log is
    failures: list[str]
    # why results could no longer be written; what ran then is in its run folders
    failure: str | None
    notify: str | None  # what to run in the end

    @property
    def summary(self) -> str:
        """One line."""
        parts = [f"{count} {state}" for state, count in sorted(self.states.items())]
        told = {
            "tried again": self.num_retries,
            "not started": self.num_not_started,
            "still running": self.num_running,
            "finished earlier": self.num_finished_earlier,
        }
        text = (
            ", ".join([*parts, *(f"{count} {what}" for what, count in told.items() if count)])
            or "nothing to run"
        )
        return f"{text}; racing {self.saved.told(self.device)}" if self.saved != Saved() else text

    @property
    def all_completed(self) -> bool:
        """Apart from what racing made not worth running."""
        num_left = self.num_not_started + self.num_running
        return (
            self.states[State.COMPLETED] + self.saved.num_spared == self.states.total()
            and not num_left
        )
