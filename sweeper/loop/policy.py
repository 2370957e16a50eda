"""Holds what the user chose of a sweep, as far as the loop heeds it."""

from __future__ import annotations

from dataclasses import dataclass

from conf.schema import LauncherConfig, RetryConfig, SweepConfig
from scalemark.host.process_identity import SILENT_FOR
from scalemark.records.cluster import RankLimits
from sweeper.running.attempt import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """Where the ranks of distributed trials run."""

    hosts: tuple[str, ...] = ()  # their names, this one's first; empty = all on this one
    start: str = ""  # as `scalemark.records.placement.Placement.rank_start`


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the user chose."""

    sweep: SweepConfig
    launcher: LauncherConfig
    retry: RetryConfig
    # HEARTBEAT_TIMEOUT: others take one that is silent for so long for dead
    silent_for_s: float = SILENT_FOR.total_seconds()
    # the loop ends when its source gave nothing for so long; none: when nothing is left
    idle_timeout_s: float | None = None
    ranks: Ranks = Ranks()

    @property
    def limits(self) -> Limits:
        launcher = self.launcher
        return Limits(
            timeout_s=launcher.timeout_s,
            start_timeout_s=launcher.start_timeout_s,
            step_timeout_s=launcher.step_timeout_s,
            grace_s=launcher.grace_s,
        )

    @property
    def rank_limits(self) -> RankLimits:
        return RankLimits(
            start_timeout_s=self.launcher.rank_start_timeout_s,
            timeout_s=self.launcher.rank_timeout_s,
        )
