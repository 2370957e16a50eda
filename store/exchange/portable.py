"""What travels between databases: one attempt with all around it, and what belongs to no attempt.
One record is one line of JSON.

Every record is checked when it is made: what no attempt can be is refused with its reason. Nothing
in it is a number of a row.
"""

from __future__ import annotations

import json
import math
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
from scalemark.records.validation import (
    build,
    canonical,
    check_least,
    check_one_of,
    parsed,
)
from scalemark.text.untrusted import quoted_lines
from store.rows import digest

VERSION = 1
"""Of the JSON: a record says `"scalemark": 1`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepHead:
    """The sweep that a record is of."""

    uid: str  # scalemark.records.sweep.sweep_uid of how it first began: the same sweep in every database
    name: str
    reason: str
    command: str
    started_at: datetime
    finished_at: datetime | None
    run_dir: str | None
    origin: str  # the database it comes from; empty: not told

    def __post_init__(self) -> None:
        _check_digest("uid", self.uid)
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
    """Where a repeat stands. One that somebody runs somewhere is pending for everybody else."""

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
            raise ValueError(
                f"repeat.state={self.state}: whoever runs it runs it elsewhere; wanted pending"
            )


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
    truth: dict[str, float] | None = None  # of a simulated attempt

    def __post_init__(self) -> None:
        if self.verdict is not None:
            check_one_of("verdict", self.verdict, Verdict)
        check_measurement(self.measurement)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedSteps:
    """The columns of `store.schema.StepArraysRow`: the steps of one attempt as `scalemark.records.step_arrays`
    packs them.
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
        lengths = {
            len(self.data_wait) or num_calls,
            len(self.gap_before),
            len(self.loss_over_least),
            num_calls,
        }
        if len(lengths) != 1 or not num_calls:
            raise ValueError(
                f"steps: lists of {sorted(lengths)} calls; wanted all of one length, 1 or more"
            )
        for name, least in (
            ("first_step", 0),
            ("num_steps", 1),
            ("num_warm_up", 0),
            ("time_unit_us", 1),
            ("least_duration", 0),
        ):
            check_least(f"steps.{name}", getattr(self, name), least)
        if self.num_warm_up > num_calls:
            raise ValueError(
                f"steps.num_warm_up={self.num_warm_up}: wanted no more than the {num_calls} "
                "calls there are"
            )
        if min(self.duration_over_least) != 0:
            raise ValueError(
                f"steps.duration_over_least: the least is {min(self.duration_over_least)}; wanted 0"
            )
        if min(self.data_wait, default=0) < 0:
            raise ValueError(f"steps.data_wait: {min(self.data_wait)}; wanted 0 or more")
        if not 0 < self.loss_unit < math.inf:
            raise ValueError(
                f"steps.loss_unit={self.loss_unit}: wanted a finite number greater than 0"
            )
        if self.least_loss is None and any(loss is not None for loss in self.loss_over_least):
            raise ValueError("steps.least_loss is null, and there are losses")

    def columns(self) -> dict[str, Any]:
        """As `scalemark.records.step_arrays.unpack` takes them."""
        told = {name: getattr(self, name) for name in _STEP_COLUMNS}
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in told.items()
        }


_STEP_COLUMNS = [field.name for field in fields(PackedSteps)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PortableAttempt:
    """One attempt with all around it: one line says all that is known of a number."""

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
                f"attempt={self.attempt}: its repeat.num_attempts is "
                f"{self.repeat.num_attempts}; wanted no more"
            )
        if self.duration_s is not None:
            check_duration("duration_s", self.duration_s)
        check_year("started_at", self.started_at)
        if self.outcome == Outcome.COMPLETED and self.measured is None:
            raise ValueError(
                "outcome=completed, and nothing is measured; wanted a measurement, or "
                "another outcome"
            )
        check_kind_of_machine(self.spec.device_kind, self.machine)
        uuids = [one.uuid for gpu in self.machine.gpus for one in (gpu, *gpu.mig_devices)]
        pairs = [link.between for link in self.machine.links]
        if len(set(uuids)) < len(uuids) or len(set(pairs)) < len(pairs):
            raise ValueError("machine: a GPU, or a link between two, is in it twice")
        if self.environment is not None:
            check_environment(self.environment)

    @property
    def identity(self) -> tuple[str, str, int, int]:
        """The same attempt in every database."""
        return self.sweep.uid, self.trial_id, self.repeat.number, self.attempt

    def content(self) -> str:
        """Digest of what was measured: of the same attempt it is the same everywhere.

        Left out is what may become more: what people made of it (tags, notes, deleted), its steps,
        where its folder is, and what is told of its sweep and its repeat.
        """
        told = {name: getattr(self, name) for name in CONTENT}
        return digest(json.loads(canonical(told | {"machine": self.machine.key})))


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
"""Of an attempt, beside its machine's key and its steps: what never changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortableTrial:
    """What a sweep asked for of one trial, and the repeats of it that have no attempt."""

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
    """What a sweep left out, and what people said of it."""

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
    """Canonical JSON on one line: equal records give equal text."""
    (kind,) = (kind for kind, of_kind in KINDS.items() if isinstance(record, of_kind))
    told = {field.name: getattr(record, field.name) for field in fields(record)}
    if isinstance(record, PortableAttempt | PortableTrial):
        told["spec"] = json.loads(record.spec.to_json())
    return canonical(told | {"scalemark": VERSION, "kind": kind})


def from_json(text: str) -> Portable:
    """Inverse of `to_json`. Raises ValueError, with the reason, for whatever no record can be."""
    return from_told(parsed(text))


def from_told(told: object) -> Portable:
    """As `from_json`, of what was parsed already."""
    if not isinstance(told, dict) or "scalemark" not in told:
        raise ValueError('no record of scalemark: wanted an object with "scalemark": 1')
    if told["scalemark"] != VERSION:
        raise ValueError(
            f'"scalemark": {str(told["scalemark"])[:60]}: this version reads {VERSION}; upgrade scalemark'
        )
    values = {name: value for name, value in told.items() if name not in ("scalemark", "kind")}
    kind = told.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"kind={str(kind)[:60]!r}: wanted one of {', '.join(KINDS)}")
    if kind in ("attempt", "trial"):
        values["spec"] = spec_of(values.get("spec"))
    if kind == "attempt":
        values |= _attempt_parts(values)
    record: Portable = build(KINDS[kind], values)
    return record


def pack(steps: Sequence[StepSample]) -> PackedSteps | None:
    """None without steps. Raises ValueError for what no attempt's steps can be."""
    return build(PackedSteps, step_arrays.pack(steps), "steps") if steps else None


def _attempt_parts(values: dict[str, Any]) -> dict[str, Any]:
    """What is not read by its type alone."""
    found: dict[str, Any] = {}
    if isinstance(measured := values.get("measured"), dict):
        measurement = build(Measurement, measured.get("measurement"), "measurement")
        told = measured | {"measurement": asdict(measurement)}
        found["measured"] = build(Measured, told, "measured")
    if isinstance(steps := values.get("steps"), list):
        samples = [build(StepSample, step, f"steps[{index}]") for index, step in enumerate(steps)]
        found["steps"] = pack(samples)
    return found


def _check_spec(trial_id: str, spec: TrialSpec) -> None:
    check_one_of("spec.device_kind", spec.device_kind, DeviceKind)
    if trial_id != spec.trial_id:
        raise ValueError(f"trial_id={trial_id[:40]}: the digest of its spec is {spec.trial_id}")


def _check_digest(name: str, value: str) -> None:
    if len(value) != 16 or not set(value) <= set("0123456789abcdef"):
        raise ValueError(f"sweep.{name}={value[:40]}: wanted 16 hexadecimal digits")
