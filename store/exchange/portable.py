"""The records that travel between databases. One record is one line of JSON.

An attempt travels with all around it: one line says all that is known of a number. Every record is
checked when it is made. No record holds the id of a row.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from scalemark.records import step_arrays
from scalemark.records.attempt import check_duration, check_environment, check_year, spec_of
from scalemark.records.devices import DeviceKind
from scalemark.records.machine import Machine, check_kind_of_machine
from scalemark.records.measurement import Measurement, StepSample, check_measurement
from scalemark.records.outcomes import Outcome, State, Verdict
from scalemark.records.placement import Placement
from scalemark.records.references import Reference
from scalemark.records.trial import TrialSpec
from scalemark.records.validation import build, canonical, check_least, check_one_of, parsed
from scalemark.text.untrusted import quoted_lines
from store.rows import digest

VERSION = 1  # of the JSON: a record says `"scalemark": 1`


_DIGEST = re.compile("[0-9a-f]{16}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepHead:
    """The sweep that a record is of."""

    uid: str  # scalemark.records.sweep.sweep_uid: the same sweep in every database
    name: str
    reason: str
    command: str
    started_at: datetime
    finished_at: datetime | None
    run_dir: str | None
    origin: str  # the database it comes from; empty: not known

    def __post_init__(self) -> None:
        if not _DIGEST.fullmatch(self.uid):
            raise ValueError(f"sweep.uid={self.uid[:40]}: wanted 16 hexadecimal digits")
        if not self.name:
            raise ValueError("sweep.name is empty")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of a repeat's state, as a row of `events`."""

    at: datetime
    attempt: int
    state: str  # a State
    detail: str

    def __post_init__(self) -> None:
        check_one_of("state", self.state, State)
        check_least("attempt", self.attempt, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PortableRepeat:
    """A repeat with its state. One that somebody runs somewhere is pending for everybody else."""

    number: int  # counted from 1 within the sweep
    state: str  # a State, never claimed or running
    reason: str  # why it was skipped; else empty
    num_attempts: int
    changes: tuple[Change, ...] = ()  # in their order; none where they are not known

    def __post_init__(self) -> None:
        check_least("repeat.number", self.number, 1)
        check_least("repeat.num_attempts", self.num_attempts, 0)
        check_one_of("repeat.state", self.state, State)
        if self.state in (State.CLAIMED, State.RUNNING):
            raise ValueError(f"repeat.state={self.state}: wanted pending for what runs elsewhere")


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """A tag or a note."""

    text: str
    added_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The measurement of an attempt, and what was seen beside it."""

    # the fields of scalemark.records.measurement.Measurement
    measurement: dict[str, Any]
    op_placement: dict[str, dict[str, int]]
    verdict: str | None  # a Verdict
    verdict_reasons: tuple[str, ...] | None
    gpu_telemetry: tuple[dict[str, Any], ...] | None
    profile: dict[str, Any] | None
    replica_times: dict[str, Any] | None = None
    truth: dict[str, float] | None = None  # of a simulated attempt
    metrics: dict[str, float] | None = None  # of a user's program

    def __post_init__(self) -> None:
        if self.verdict is not None:
            check_one_of("verdict", self.verdict, Verdict)
        check_measurement(self.measurement)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedSteps:
    """The steps of one attempt as `scalemark.records.step_arrays` packs them: the columns of
    `store.schema.StepArraysRow`.
    """

    first_step: int
    num_steps: int
    num_warm_up: int
    time_unit_us: int
    least_duration: int
    least_loss: float | None
    loss_unit: float
    duration_over_least: tuple[int, ...]
    data_wait: tuple[int, ...]
    gap_before: tuple[int, ...]
    loss_over_least: tuple[int | None, ...]

    def __post_init__(self) -> None:
        num_calls = len(self.duration_over_least)
        lengths = {num_calls, len(self.gap_before), len(self.loss_over_least)}
        lengths.add(len(self.data_wait) or num_calls)
        if len(lengths) != 1 or not num_calls:
            raise ValueError(
                f"steps: lists of {sorted(lengths)} calls; wanted all of one length, 1 or more"
            )
        for name in ("first_step", "num_warm_up", "least_duration"):
            check_least(f"steps.{name}", getattr(self, name), 0)
        for name in ("num_steps", "time_unit_us"):
            check_least(f"steps.{name}", getattr(self, name), 1)
        if self.num_warm_up > num_calls:
            raise ValueError(f"steps.num_warm_up={self.num_warm_up}: there are {num_calls} calls")
        if min(self.duration_over_least) != 0:
            raise ValueError("steps.duration_over_least: wanted a least of 0")
        check_least("steps.data_wait", min(self.data_wait, default=0), 0)
        if not 0 < self.loss_unit < math.inf:
            raise ValueError(f"steps.loss_unit={self.loss_unit}: wanted a number greater than 0")
        if self.least_loss is None and any(loss is not None for loss in self.loss_over_least):
            raise ValueError("steps.least_loss is null, and there are losses")

    def columns(self) -> dict[str, Any]:
        """Return the row, as `scalemark.records.step_arrays.unpack` takes it."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, value in columns.items():
            if isinstance(value, tuple):
                columns[name] = list(value)
        return columns


OF_AN_ATTEMPT = (
    "trial_id",
    "attempt",
    "outcome",
    "message",
    "exit_code",
    "run_dir",
    "started_at",
    "duration_s",
    "deleted_at",
)
"""Fields of PortableAttempt that are columns of an attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortableAttempt:
    """One attempt with its sweep, its trial and all that it ran on."""

    sweep: SweepHead
    position: int  # of its trial in the sweep
    trial_id: str
    spec: TrialSpec
    machine: Machine
    environment: dict[str, Any] | None  # environment.json; none when it ended before it was known
    placement: Placement
    repeat: PortableRepeat
    attempt: int  # counted from 1 within the repeat
    outcome: str  # an Outcome
    message: str
    exit_code: int | None
    run_dir: str  # within sweep.run_dir; whole when it is elsewhere
    started_at: datetime
    duration_s: float | None
    measured: Measured | None
    steps: PackedSteps | None
    deleted_at: datetime | None = None
    tags: tuple[Annotation, ...] = ()
    notes: tuple[Annotation, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", quoted_lines(self.message))
        _check_spec(self.trial_id, self.spec)
        check_one_of("outcome", self.outcome, Outcome)
        check_least("attempt", self.attempt, 1)
        check_least("position", self.position, 0)
        if self.attempt > self.repeat.num_attempts:
            raise ValueError(
                f"attempt={self.attempt}: wanted no more than the {self.repeat.num_attempts} of "
                "repeat.num_attempts"
            )
        if self.duration_s is not None:
            check_duration("duration_s", self.duration_s)
        check_year("started_at", self.started_at)
        if self.outcome == Outcome.COMPLETED and self.measured is None:
            raise ValueError("outcome=completed: wanted a measurement, or another outcome")
        check_kind_of_machine(self.spec.device_kind, self.machine)
        uuids = [one.uuid for gpu in self.machine.gpus for one in (gpu, *gpu.mig_devices)]
        pairs = [link.between for link in self.machine.links]
        if len(set(uuids)) < len(uuids) or len(set(pairs)) < len(pairs):
            raise ValueError("machine: a GPU, or a link between two, is in it twice")
        if self.environment is not None:
            check_environment(self.environment)

    @property
    def identity(self) -> tuple[str, str, int, int]:
        """Return what is the same for one attempt in every database."""
        return self.sweep.uid, self.trial_id, self.repeat.number, self.attempt

    def content(self) -> str:
        """Return a digest of what was measured, which never changes.

        Left out is what may become more: tags, notes and deletion, the steps, where its folder is,
        and what is known of its sweep and its repeat.
        """
        values = {name: getattr(self, name) for name in CONTENT}
        return digest(json.loads(canonical(values | {"machine": self.machine.key})))


CONTENT = (
    "environment",
    "placement",
    "outcome",
    "message",
    "exit_code",
    "started_at",
    "duration_s",
    "measured",
)
"""What never changes of an attempt, beside its machine's key and its steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortableTrial:
    """A trial that a sweep asked for, with its repeats that have no attempt."""

    sweep: SweepHead
    position: int
    trial_id: str
    spec: TrialSpec
    repeats: tuple[PortableRepeat, ...] = ()
    tags: tuple[Annotation, ...] = ()  # of the trial, whichever sweep asked for it
    notes: tuple[Annotation, ...] = ()

    def __post_init__(self) -> None:
        _check_spec(self.trial_id, self.spec)
        check_least("position", self.position, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PortableSweep:
    """A sweep with the cells that it left out, its tags and its notes."""

    sweep: SweepHead
    left_out: tuple[tuple[str, str], ...] = ()  # overrides of a refused cell, and why
    tags: tuple[Annotation, ...] = ()
    notes: tuple[Annotation, ...] = ()


Portable = PortableAttempt | PortableTrial | PortableSweep | Reference

KINDS: dict[str, type[Any]] = {
    "attempt": PortableAttempt,
    "trial": PortableTrial,
    "sweep": PortableSweep,
    "reference": Reference,
}


def to_json(record: Portable) -> str:
    """Return canonical JSON on one line: equal records give equal text."""
    (kind,) = (kind for kind, of_kind in KINDS.items() if isinstance(record, of_kind))
    values = {field.name: getattr(record, field.name) for field in fields(record)}
    if isinstance(record, PortableAttempt | PortableTrial):
        values["spec"] = json.loads(record.spec.to_json())
    return canonical(values | {"scalemark": VERSION, "kind": kind})


def from_json(text: str) -> Portable:
    """Read what `to_json` wrote. Raises ValueError, with the reason, for whatever no record can
    be.
    """
    found = parsed(text)
    if not isinstance(found, dict) or "scalemark" not in found:
        raise ValueError('no record of scalemark: wanted an object with "scalemark": 1')
    version, kind = found.pop("scalemark"), found.pop("kind", None)
    if version != VERSION:
        raise ValueError(
            f'"scalemark": {str(version)[:60]}: this version reads {VERSION}; upgrade scalemark'
        )
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"kind={str(kind)[:60]!r}: wanted one of {', '.join(KINDS)}")
    if kind in ("attempt", "trial"):
        found["spec"] = spec_of(found.get("spec"))
    # what is not read by its type alone
    if kind == "attempt" and isinstance(measured := found.get("measured"), dict):
        measurement = build(Measurement, measured.get("measurement"), "measurement")
        values = measured | {"measurement": asdict(measurement)}
        found["measured"] = build(Measured, values, "measured")
    if kind == "attempt" and isinstance(steps := found.get("steps"), list):
        samples = [build(StepSample, step, f"steps[{index}]") for index, step in enumerate(steps)]
        found["steps"] = pack(samples)
    record: Portable = build(KINDS[kind], found)
    return record


def pack(steps: Sequence[StepSample]) -> PackedSteps | None:
    """Return None without steps. Raises ValueError for what no attempt's steps can be."""
    return build(PackedSteps, step_arrays.pack(steps), "steps") if steps else None


def _check_spec(trial_id: str, spec: TrialSpec) -> None:
    check_one_of("spec.device_kind", spec.device_kind, DeviceKind)
    if trial_id != spec.trial_id:
        raise ValueError(f"trial_id={trial_id[:40]}: the digest of its spec is {spec.trial_id}")
