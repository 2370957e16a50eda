"""Reports how a sweep ended: what its command prints in the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from scalemark.records.outcomes import State
from sweeper.failures import Failure
from sweeper.race.races import Saved


@dataclass(slots=True, kw_only=True)
class Ran:
    """Counts of what came of running a sweep, so far or in the end."""

    states: Counter[State] = field(default_factory=Counter)  # of repeats, the last of each
    num_retries: int = 0  # attempts beyond the first of a repeat
    num_not_started: int = 0  # repeats that a stop left over
    num_cut_off: int = 0  # repeats whose end could not be written
    was_interrupted: bool = False
    failures: list[Failure] = field(default_factory=list)
    # why results could no longer be written; what ran then is in its run folders
    failure: str | None = None
    num_finished_elsewhere: int = 0  # repeats that another sweep completed meanwhile
    num_running: int = 0  # repeats that agents go on with
    saved: Saved = field(default_factory=Saved)  # by racing


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that is printed when a sweep has ended."""

    name: str
    store_url: str
    figures_dir: Path
    notify: str | None  # what to run in the end
    is_simulated: bool
    num_finished_earlier: int  # trials that needed no attempt
    ran: Ran

    @property
    def num_finished_otherwise(self) -> int:
        """Count trials and repeats that others had completed, before or meanwhile."""
        return self.num_finished_earlier + self.ran.num_finished_elsewhere

    @property
    def summary(self) -> str:
        """Say in one line what came of the repeats."""
        ran = self.ran
        parts = [f"{count} {state}" for state, count in sorted(ran.states.items())]
        others = {
            "tried again": ran.num_retries,
            "not started": ran.num_not_started,
            "cut off": ran.num_cut_off,
            "still running": ran.num_running,
            "finished earlier": self.num_finished_otherwise,
        }
        parts += [f"{count} {what}" for what, count in others.items() if count]
        text = ", ".join(parts) or "nothing to run"
        return text if ran.saved == Saved() else f"{text}; racing {ran.saved}"

    @property
    def all_completed(self) -> bool:
        """Say whether all completed, apart from what racing made not worth running."""
        ran = self.ran
        num_left = ran.num_not_started + ran.num_running
        return (
            ran.states[State.COMPLETED] + ran.saved.num_spared == ran.states.total()
            and not num_left
        )
