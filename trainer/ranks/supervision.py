"""Supervises the ranks of a distributed trial; a trainer without a rank of its own does this.

```
  trainer ── starts (trainer/rank_starts.py) ─►  worker-0  trains and writes, as any trainer does
     │                                          worker-1, ps-0, ...  hold devices and variables
     │◄── ends, and beat-RANK.txt ──────────────┘
     └── one ended, or missed a deadline: ends all, and says in result.json which one
```

It touches no device and runs no op.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from scalemark.abilities import jobs_of
from scalemark.host.memory import num_kernel_kills
from scalemark.host.processes import wait_readable
from scalemark.records.attempt import WORKER_0, Cluster, Rank, RankLimits
from scalemark.records.outcomes import Outcome
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder, with_gpu_errors
from trainer import rank_starts
from trainer.errors import UnsupportedTrialError
from trainer.rank_starts import RanksJob, StartedRanks
from trainer.ranks import ends, own_rank
from trainer.ranks.ends import LOOK_EVERY_S, SILENT_S, Pulses, RankEnds

# After worker 0 failed: a rank that took it along ended before, but may be seen later.
SETTLE_S = 2.0


def job(spec: TrialSpec, folder: RunFolder) -> RanksJob:
    """Describe what to start for a distributed trial: ranks of this program."""
    absolute = RunFolder(folder.path.absolute())
    return RanksJob(
        spec=spec,
        folder=absolute,
        jobs=jobs_of(spec),
        given=folder.read_placement(),
    )


def look_after(job: RanksJob) -> int:
    """Start the ranks, watch them to their end, and write result.json; return the exit code."""
    _clear(job.folder)
    if job.given is None:  # ranks read the run folder's trial, not any named by hand
        asked = own_rank.as_asked(job.spec)
        job.folder.write(job.folder.trial, asked.to_json())
    try:
        result, exit_code = ends.judge(job.folder, _watch(job, _limits(job.folder)))
    except UnsupportedTrialError as error:
        result, exit_code = ends.trial_end(Outcome.UNSUPPORTED, str(error))
    except _NotStartedError as error:
        problem = f"its ranks could not be started: {error}"
        result, exit_code = ends.trial_end(Outcome.FAILED, problem)
    except OSError as error:
        problem = f"its ranks could not be watched, and were ended: {error}"
        result, exit_code = ends.trial_end(Outcome.FAILED, problem)
    job.folder.write(job.folder.result, with_gpu_errors(result, job.folder).to_json())
    if result.message:
        print(f"{result.outcome}: {result.message}", file=sys.stderr)
    return exit_code


class _NotStartedError(Exception):
    """Nothing runs."""


def _watch(job: RanksJob, limits: RankLimits) -> RankEnds:
    """Watch until worker 0 has ended and `grace_s` is over, another rank has failed, or an
    interrupt; then end all.
    """
    exit_codes: dict[Rank, int | None] = {}
    ranks: tuple[Rank, ...] = ()
    missed, interrupted, num_kills = None, False, num_kernel_kills()
    try:
        with ExitStack() as running:
            started = _start(job, running)
            ranks = started.cluster.ranks
            _tell(job.folder, started.cluster)
            pulses = Pulses(job.folder, started.cluster, limits)
            while not missed and not ends.is_over(exit_codes):
                exit_codes |= _look(started, LOOK_EVERY_S)
                missed = pulses.missed(exit_codes)
            if ends.is_over(exit_codes):
                if exit_codes.get(WORKER_0) == 0 and job.grace_s is not None:
                    _finish(started, exit_codes, job.grace_s)
                _settle(started, exit_codes)
                missed = _stopped(started, pulses, exit_codes)
    except KeyboardInterrupt:
        interrupted = True
    return RankEnds(
        exit_codes=exit_codes,
        must_complete=() if job.grace_s is None else ranks,
        missed=missed,
        interrupted=interrupted,
        kernel_killed=num_kernel_kills() > num_kills,
        shares_host=job.given is not None and job.given.shares_host,
    )


def _start(job: RanksJob, running: ExitStack) -> StartedRanks:
    """Start the ranks until `running` is closed. Raises _NotStartedError, UnsupportedTrialError."""
    try:
        return running.enter_context(rank_starts.start_ranks(job))
    except OSError as error:
        raise _NotStartedError(error) from error


def _look(started: StartedRanks, timeout_s: float) -> Mapping[Rank, int | None]:
    wait_readable(started.descriptors, timeout_s)
    return started.look()


def _limits(folder: RunFolder) -> RankLimits:
    """Read the deadlines. Raises _NotStartedError."""
    try:
        return folder.read_rank_limits()
    except (OSError, ValueError) as error:
        raise _NotStartedError(error) from error


def _settle(started: StartedRanks, exit_codes: dict[Rank, int | None]) -> None:
    """Wait a little for the end of a rank that made worker 0 fail."""
    _wait_until(lambda: ends.is_settled(exit_codes), started, exit_codes, SETTLE_S)


def _finish(started: StartedRanks, exit_codes: dict[Rank, int | None], grace_s: float) -> None:
    """Wait for the others, up to `grace_s`, once worker 0 has completed, or until one fails."""
    ranks = started.cluster.ranks

    def is_done() -> bool:
        return len(exit_codes) == len(ranks) or any(code != 0 for code in exit_codes.values())

    _wait_until(is_done, started, exit_codes, grace_s)


def _wait_until(
    is_done: Callable[[], bool],
    started: StartedRanks,
    exit_codes: dict[Rank, int | None],
    timeout_s: float,
) -> None:
    until_s = time.monotonic() + timeout_s
    while not is_done() and (left_s := until_s - time.monotonic()) > 0:
        exit_codes |= _look(started, min(left_s, LOOK_EVERY_S))


def _stopped(
    started: StartedRanks, pulses: Pulses, exit_codes: dict[Rank, int | None]
) -> tuple[Rank, str] | None:
    """Find a silent rank for which a failed one may have waited: hear each once more."""
    failed = ends.first_failed(exit_codes)
    if failed is None:
        return None
    silences_s = pulses.silences_s(exit_codes)  # what is new in it may have been written long ago
    unheard = set(silences_s)
    while unheard := unheard & set(silences_s):
        rank = max(unheard, key=silences_s.__getitem__)
        if (silent_s := silences_s[rank]) >= SILENT_S:
            return rank, f"gave no sign of life for {silent_s:.0f} s, and {failed.name} failed"
        exit_codes |= _look(started, LOOK_EVERY_S)
        before, silences_s = silences_s, pulses.silences_s(exit_codes)
        # twice 0: heard at both looks
        unheard = {rank for rank in unheard if silences_s.get(rank, 0.0) > before[rank]}
    return None


def _clear(folder: RunFolder) -> None:
    """Remove an earlier trial's files from a folder named by hand: they would pass for ours."""
    # of a sweep the log is what this process writes into
    own = [os.fstat(descriptor) for descriptor in (1, 2)]
    signs = (folder.result, folder.doing, folder.steps, folder.log)
    of_gpus = (folder.telemetry, folder.gpu_errors)
    for pattern in (*(path.name for path in signs + of_gpus), "beat-*.txt", "log-*.txt"):
        for path in folder.path.glob(pattern):
            if not any(os.path.samestat(path.stat(), each) for each in own):
                path.unlink()


def _tell(folder: RunFolder, cluster: Cluster) -> None:
    hosts = {"worker": cluster.worker_hosts, "ps": cluster.ps_hosts}
    for rank in cluster.ranks:
        address = hosts[rank.job_name][rank.task_index]
        print(f"rank {rank.name}: {address}, {folder.rank_log(rank).name}", flush=True)
