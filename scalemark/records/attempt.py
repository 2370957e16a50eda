"""Records of a sweep and of an attempt: process, placement, ranks, begin, end, and packed steps.

Packs the steps of an attempt into one row of small whole numbers, half the size of a row per
step. Plain SQL reads them through the view `step_samples`.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from scalemark.records import validation
from scalemark.records.measurement import AttemptResult, Outcome, Phase, StepSample
from scalemark.records.trial import AXES, LARGEST_FLOAT32, TrialSpec, named
from scalemark.text.untrusted import quoted_lines

WORKDIR_VARIABLE = "SCALEMARK_WORKDIR"
"""Environment variable with the folder from which a sweep was started."""

BEHIND = "{}: {} behind {}"
"""The reason for which a race, or a search within a budget, stops a trial; the store finds such
trials by it.
"""

PYTHONPATH_VARIABLE = "SCALEMARK_PYTHONPATH"
"""Environment variable with the PYTHONPATH that a sweep was started with, for a user's program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement(validation.JsonRecord):
    """Says what an attempt runs on and how it is started: `placement.json`, which its trainer
    obeys."""

    start: str  # fork (of a server that has TensorFlow loaded) or spawn (a new process)
    # numbers of its slots: GPUs in the order of the inventory, or CPU devices
    devices: tuple[int, ...]
    visible_devices: str  # CUDA_VISIBLE_DEVICES; empty on CPU devices
    cores: tuple[int, ...] = ()  # CPU cores it may run on; empty = all that the orchestrator may
    # a core that no trial runs on, for watching them; None where there is none to spare
    spare_core: int | None = None
    shares_host: bool = False  # other trials of its sweep may run beside it
    # most memory for data on a host, of all its processes together; None = no limit
    host_memory_bytes: int | None = None
    # names of the hosts that its ranks run on, worker 0's first; empty = all on this one
    hosts: tuple[str, ...] = ()
    # prefix: commands start its ranks there; empty = its trainer itself, as processes of this host
    rank_start: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptBegin(validation.JsonRecord):
    """Says which attempt a run folder belongs to: `attempt.json`."""

    sweep_uid: str
    sweep: str  # its name
    trial_id: str
    repeat: int
    attempt: int
    started_at: datetime
    software_key: str  # of the software that its orchestrator wanted

    def __post_init__(self) -> None:
        validation.check_least("repeat", self.repeat, 1)
        validation.check_least("attempt", self.attempt, 1)
        check_year("started_at", self.started_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd(validation.JsonRecord):
    """Says how an attempt ended: `ended.json`, written before the row of the database."""

    exit_code: int | None  # as in FinishedAttempt
    duration_s: float | None
    ended_at: datetime
    placement: Placement  # with what was known at the end only
    outcome: str  # an Outcome
    message: str
    result: AttemptResult | None  # counts instead of result.json; None where that counts

    def __post_init__(self) -> None:
        validation.check_one_of("outcome", self.outcome, Outcome)
        check_year("ended_at", self.ended_at)
        if self.duration_s is not None:
            validation.check_least("duration_s", self.duration_s, 0)
            if self.duration_s > LONGEST_S:
                raise ValueError(f"duration_s={self.duration_s}: wanted {LONGEST_S} or less")
        object.__setattr__(self, "message", quoted_lines(self.message))
        result = self.result
        if result and (result.outcome, result.message) != (self.outcome, self.message):
            raise ValueError(
                f"outcome={self.outcome}, and its result says {result.outcome}: {result.message}"
            )


LONGEST_S, FIRST_YEAR, LAST_YEAR = 315_576_000, 1900, 9900
"""Limits beyond which dates and durations cannot be computed with."""


def check_year(name: str, at: datetime) -> None:
    """Raises ValueError."""
    if not FIRST_YEAR <= at.year <= LAST_YEAR:
        raise ValueError(f"{name}={at.isoformat()}: wanted a year from {FIRST_YEAR} to {LAST_YEAR}")


def environment_of(text: str) -> dict[str, Any]:
    """Read `environment.json`. Raises ValueError when no trainer wrote it."""
    environment = validation.parsed(text)
    validation.check_json(environment, "environment")
    if not isinstance(environment, Mapping):
        raise ValueError(f"environment: found {type(environment).__name__}, wanted an object")
    optional = dict.fromkeys(("diff", "cuda", "cudnn"), "")
    for name in ("python", "kernel", "commit", *optional):
        if not isinstance(environment.get(name, optional.get(name)), str):
            raise ValueError(f"environment.{name}: wanted text")
    for name in ("packages", "variables"):
        if not isinstance(environment.get(name), dict):
            raise ValueError(f"environment.{name}: wanted an object")
    for name, version in environment["packages"].items():
        if not isinstance(version, str):
            raise ValueError(f"environment.packages.{name}: wanted text")
    return dict(environment)


def spec_of(values: object) -> TrialSpec:
    """Return the trial of a spec in a file. Raises ValueError.

    Values stay as they are, whole numbers in place of floats, too: their digest is the identity.
    """
    validation.check_json(values, "spec")
    axes = named(values)
    for name, value in axes.items():
        if name in AXES:
            validation.check_type(AXES[name].type, value, f"spec.{name}")
    return TrialSpec.of(axes)


RANK_LOST = 7
"""Exit status of the supervisor of ranks when one of them crashed; another try may do better."""

RANK_CRASHED = 8
"""Exit status of a rank whose program a signal has ended: it took the others along."""


HOST_LOST = 9
"""Exit status of an attempt elsewhere whose host or connection was lost, or whose time was over:
its result.json says which."""

RANKS_VARIABLE = "SCALEMARK_RANKS"
"""Environment variable by which the supervisor of ranks knows how to reach their hosts."""

ADDRESSES_VARIABLE = "SCALEMARK_ADDRESSES"
"""Environment variable with the addresses of these hosts, where an engine chose them just now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One process of a distributed trial, in tf_cnn_benchmarks' words."""

    job_name: str  # worker or ps
    task_index: int

    @property
    def name(self) -> str:
        """Return its name for people and files, as worker-0."""
        return f"{self.job_name}-{self.task_index}"


WORKER_0 = Rank(job_name="worker", task_index=0)
"""The rank that writes the run folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankLimits(validation.JsonRecord):
    """Deadlines of the ranks of a distributed trial: `rank_limits.json`."""

    start_timeout_s: float = 300.0  # until each can be reached
    timeout_s: float = 30.0  # from one sign of life to the next


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The addresses of the ranks of a distributed trial, as HOST:PORT."""

    worker_hosts: tuple[str, ...]
    # one on each worker's host where the variable update has parameter servers; else none
    ps_hosts: tuple[str, ...] = ()

    @property
    def ranks(self) -> tuple[Rank, ...]:
        """Return them host by host: its worker, then its parameter server."""
        jobs = {"worker": self.worker_hosts, "ps": self.ps_hosts}
        return tuple(
            Rank(job_name=job, task_index=index)
            for index in range(len(self.worker_hosts))
            for job, hosts in jobs.items()
            if index < len(hosts)
        )


_DIGITS = 5


def pack_steps(steps: Sequence[StepSample]) -> dict[str, Any]:
    """Return the columns of `store.schema.StepArraysRow`, without attempt_id.

    Times are rounded to five digits of the shortest step, but no finer than microseconds, losses to
    five digits of the smallest. Raises ValueError for steps that no attempt can have.
    """
    first, num_steps = steps[0].step, steps[0].num_steps
    num_warm_up = sum(step.phase == Phase.WARM_UP for step in steps)
    for index, step in enumerate(steps):
        if step.step != first + index * num_steps or step.num_steps != num_steps:
            raise ValueError(
                f"step {step.step}: wanted step {first + index * num_steps}, in calls of "
                f"{num_steps} steps"
            )
        if step.phase != (Phase.WARM_UP if index < num_warm_up else Phase.MEASURE):
            raise ValueError(
                f"step {step.step}: {step.phase} is out of order; wanted warm_up before measure"
            )
    for name, (low, high) in _WITHIN.items():
        for step in steps:
            value = getattr(step, name)
            if value is not None and not low <= value <= high:
                raise ValueError(f"step {step.step}: {name}={value}: wanted {low:g} to {high:g}")
    shortest_us = round(min(step.duration_s for step in steps) * 1e6)
    time_unit_us = 10 ** max(len(str(shortest_us)) - _DIGITS, 0)
    seconds = time_unit_us / 1e6
    durations, gaps = [], []
    end = 0
    for step in steps:
        start, duration = round(step.start_s / seconds), round(step.duration_s / seconds)
        gaps.append(start - end)
        durations.append(duration)
        end = start + duration
    shortest = min(durations)
    waits = [round(step.data_wait_s / seconds) for step in steps]
    known = [step.loss for step in steps if step.loss is not None]
    unit, least = _loss_unit(known), min(known, default=None)
    losses: list[int | None] = []
    for step in steps:
        if step.loss is None or least is None:
            losses.append(None)
        else:
            losses.append(round((step.loss - least) / unit))
    return {
        "first_step": first,
        "num_steps": num_steps,
        "num_warm_up": num_warm_up,
        "time_unit_us": time_unit_us,
        "least_duration": shortest,
        "least_loss": least,
        "loss_unit": unit,
        "duration_over_least": [duration - shortest for duration in durations],
        "data_wait": waits if any(waits) else [],
        "gap_before": gaps,
        "loss_over_least": losses,
    }


_WITHIN = {
    "step": (0, validation.LARGEST_INTEGER),
    "num_steps": (1, validation.LARGEST_INTEGER),
    "start_s": (-LONGEST_S, LONGEST_S),
    "duration_s": (0, LONGEST_S),
    "data_wait_s": (0, LONGEST_S),
    "loss": (-LARGEST_FLOAT32, LARGEST_FLOAT32),
}
"""Values that the columns hold, and sums of them in SQL."""


def unpack_steps(row: Mapping[str, Any]) -> list[StepSample]:
    """Invert `pack`, except for its rounding."""
    steps = []
    end = 0
    unit_us = row["time_unit_us"]
    waits = row["data_wait"] or [0] * len(row["duration_over_least"])
    columns = zip(
        row["duration_over_least"], waits, row["gap_before"], row["loss_over_least"], strict=True
    )
    for index, (over_least, wait, gap, loss) in enumerate(columns):
        start, duration = end + gap, row["least_duration"] + over_least
        end = start + duration
        steps.append(
            StepSample(
                step=row["first_step"] + index * row["num_steps"],
                phase=Phase.WARM_UP if index < row["num_warm_up"] else Phase.MEASURE,
                start_s=start * unit_us / 1e6,
                duration_s=duration * unit_us / 1e6,
                data_wait_s=wait * unit_us / 1e6,
                loss=None if loss is None else row["least_loss"] + loss * row["loss_unit"],
                num_steps=row["num_steps"],
            )
        )
    return steps


def _loss_unit(losses: Sequence[float]) -> float:
    """Return the worth of the last digit that is kept of the smallest loss.

    Of the largest one, sixteen digits are kept at most: a float has no more.
    """
    exponents = [math.floor(math.log10(abs(loss))) + 1 for loss in losses if loss]
    if not exponents:
        return 1.0
    return 10.0 ** max(min(exponents) - _DIGITS, max(exponents) - 16, -300)


def sweep_uid(name: str, started_at: datetime, command: str) -> str:
    """Identify a sweep among those of the same name in other databases."""
    digest = hashlib.sha256(json.dumps([name, validation.utc_text(started_at), command]).encode())
    return digest.hexdigest()[:16]


_RENAMED = re.compile(r" \(\d+\)$")


def can_have_uid(uid: str, name: str, started_at: datetime, command: str) -> bool:
    """Return whether a sweep of this name can have this uid. A sweep whose name another one has
    already is renamed to NAME (2), and keeps the uid that its first name gave it.
    """
    later, earlier = "", name
    while earlier != later:
        if uid == sweep_uid(earlier, started_at, command):
            return True
        later, earlier = earlier, _RENAMED.sub("", earlier)
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedFor:
    """One trial of a sweep. A continued sweep may have two of the same position."""

    position: int
    spec: dict[str, Any]  # as the JSON of its TrialSpec has it


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRecord:
    """The name, reason and trials of a sweep."""

    uid: str  # as `sweep_uid` made it when the sweep began
    name: str  # other than then, where another sweep had the name already
    reason: str
    command: str  # of the first beginning, as the time
    started_at: datetime
    trials: tuple[AskedFor, ...]  # also those finished earlier
    left_out: tuple[tuple[str, str], ...]  # overrides of a refused cell, and why

    def to_json(self) -> str:
        """Return JSON with a line per trial."""
        head = {name: getattr(self, name) for name in ("uid", "name", "reason", "command")}
        head |= {"started_at": validation.utc_text(self.started_at), "left_out": self.left_out}
        trials = ",\n".join(map(validation.canonical, self.trials))
        return f'{json.dumps(head, indent=1)[:-2]},\n "trials": [\n{trials}\n ]\n}}\n'

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Invert `to_json`. Raises ValueError."""
        values = validation.parsed(text)
        record = validation.build(cls, values)
        for trial in record.trials:
            spec_of(trial.spec)
        if not can_have_uid(record.uid, record.name, record.started_at, record.command):
            made = sweep_uid(record.name, record.started_at, record.command)
            raise ValueError(f"uid {record.uid}, and its name, time and command make {made}")
        return record
