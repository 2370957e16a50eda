"""Holds what the user chose for a sweep, as far as the loop heeds it."""

from __future__ import annotations

from dataclasses import dataclass

from conf.schema import LauncherConfig, RetryConfig, SweepConfig
from scalemark.host.process_identity import SILENT_FOR
from scalemark.records.cluster import RankLimits
from sweeper.running.attempt import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """Hosts on which the ranks of distributed trials run."""

    hosts: tuple[str, ...] = ()  # their names, this one's first; empty = all on this one
    start: str = ""  # as `scalemark.records.placement.Placement.rank_start`


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The user's settings."""

    sweep: SweepConfig
    launcher: LauncherConfig
    retry: RetryConfig
    # others take a process that is silent for so long for dead: the heartbeat timeout
    silent_for_s: float = SILENT_FOR.total_seconds()
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
