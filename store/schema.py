"""Defines the tables of what was measured; what follows is a view or a pure function of a frame."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from sqlalchemy import (
    JSON,
    CheckConstraint,
    Column,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Table,
    TextClause,
    TypeDecorator,
    UniqueConstraint,
    text,
    types,
)
from sqlalchemy.ext.compiler import compiles

from scalemark.records.axes import Axis, AxisValue
from scalemark.records.measurement import Outcome, Phase, State, Verdict
from scalemark.records.trial import ALWAYS_OF_COMMANDS, AXES
from scalemark.records.validation import canonical

if TYPE_CHECKING:
    from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
else:
    from store.declared import DeclarativeBase, mapped_column


class UtcDateTime(TypeDecorator[datetime]):
    """A point in time, stored in UTC; refuses naive datetimes."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        offset = value.utcoffset()
        if offset is None:
            raise ValueError(f"{value}: a time without zone")
        return (value - offset).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC)


class CanonicalJson(TypeDecorator[dict[str, Any]]):
    """A small object as JSON text, the same for equal objects."""

    impl = types.Text
    cache_ok = True

    def process_bind_param(self, value: dict[str, Any] | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        return canonical(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> dict[str, Any] | None:
        return None if value is None else json.loads(value)


class Flag(types.Boolean):
    """True or false."""


class Real(types.Double[float]):
    """A number."""


class Whole(types.BigInteger):
    """A whole number of 64 bits."""


class JsonObject(JSON):
    """An object as JSON."""


class JsonArray(JSON):
    """A list as JSON."""


# A STRICT table of SQLite knows few types. INT stands for a flag and INTEGER for a number, so that
# the columns of free axes can be read back.
STRICT_TYPES = {
    Flag: "INT",
    Whole: "INTEGER",
    Real: "REAL",
    JsonObject: "TEXT",
    JsonArray: "TEXT",
    UtcDateTime: "TEXT",
}


def _compile_on_sqlite(kind: type[Any], name: str) -> None:
    compiles(kind, "sqlite")(lambda *_, **__: name)


for _kind, _name in STRICT_TYPES.items():
    _compile_on_sqlite(_kind, _name)


class Base(DeclarativeBase):
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        datetime: UtcDateTime,
        dict[str, Any]: JsonObject,
        list[Any]: JsonArray,
        str: types.Text,
        bool: Flag,
        float: Real,
    }


def _one_of(column: str, choices: type[Outcome] | type[Phase] | type[State] | type[Verdict]) -> str:
    return f"{column} IN ({', '.join(repr(choice.value) for choice in choices)})"


_ONE_SUBJECT = " + ".join(
    f"(CASE WHEN {column} IS NULL THEN 0 ELSE 1 END)"
    for column in ("sweep_id", "trial_id", "attempt_id")
)


class InfoRow(Base):
    """A fact about the database itself: the version of its tables, or the `id` by which other
    databases know where rows are from.
    """

    __tablename__ = "database_info"

    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str]


class MachineRow(Base):
    """A machine that numbers were made on."""

    __tablename__ = "machines"

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(unique=True)  # digest of the columns below
    host: Mapped[str]
    cpu: Mapped[str]
    num_cores: Mapped[int]
    memory_bytes: Mapped[int] = mapped_column(Whole)
    num_gpus: Mapped[int]
    gpu: Mapped[str]  # name of the GPUs, empty without
    driver: Mapped[str]  # of the GPUs
    # canonical JSON of simulator.costs.box.Hardware; empty of a machine that exists
    hardware_profile: Mapped[str]
    # equal hosts that share sweeps count as one machine, which `host` calls by this name; empty:
    # one host
    pool: Mapped[str]


class GpuRow(Base):
    """A GPU of a machine, or a MIG device cut from one (`scalemark.records.machine.Gpu`)."""

    __tablename__ = "gpus"

    machine_id: Mapped[int] = mapped_column(ForeignKey("machines.id"), primary_key=True)
    uuid: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int]  # in PCI order; MIG devices after the GPU they are cut from
    name: Mapped[str]
    memory_bytes: Mapped[int | None] = mapped_column(Whole)
    pci_bus_id: Mapped[str]
    compute_capability: Mapped[str]
    power_limit_w: Mapped[float | None]
    numa_node: Mapped[int | None]
    cores: Mapped[str]  # CPU cores near it, as "0,1,4"
    mig_parent: Mapped[str | None]
    mig_mode: Mapped[bool]


class GpuLinkRow(Base):
    """A link between two GPUs of a machine: `scalemark.records.machine.GpuLink`."""

    __tablename__ = "gpu_links"

    machine_id: Mapped[int] = mapped_column(ForeignKey("machines.id"), primary_key=True)
    first_uuid: Mapped[str] = mapped_column(primary_key=True)
    second_uuid: Mapped[str] = mapped_column(primary_key=True)
    num_nvlinks: Mapped[int]
    pcie: Mapped[str | None]  # scalemark.records.machine.PcieLevel


class EnvironmentRow(Base):
    """The software and result-changing variables of an attempt, as its trainer saw them."""

    __tablename__ = "environments"

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(unique=True)  # digest of the description
    # digest without the commit: numbers are mixed only when it is equal
    software_key: Mapped[str] = mapped_column(index=True)
    python: Mapped[str]
    tensorflow: Mapped[str]
    keras: Mapped[str]
    scalemark: Mapped[str]
    revision: Mapped[str]  # git commit of scalemark, +dirty when changed
    diff: Mapped[str]  # digest of what was changed; empty when nothing, or not known
    cuda: Mapped[str]  # version TensorFlow was built for; empty without, or not known
    cudnn: Mapped[str]
    description: Mapped[dict[str, Any]]  # the whole environment.json


class SweepRow(Base):
    """One invocation."""

    __tablename__ = "sweeps"

    id: Mapped[int] = mapped_column(primary_key=True)
    # scalemark.records.attempt.sweep_uid: distinguishes it from sweeps of other databases
    uid: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str] = mapped_column(unique=True)
    reason: Mapped[str]
    command: Mapped[str]
    started_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]  # null while running, and after a crash
    # folder of the run folders; null before the first attempt has ended
    run_dir: Mapped[str | None]
    origin: Mapped[str]  # the database or file it was imported from; empty: measured into this one


def _axis_column(axis: Axis) -> Any:
    column_type = {str: types.Text, int: types.Integer, float: Real, bool: Flag}
    # as in databases that lacked it: a program that does not know the axis can write trials, too
    default = None if axis.default is None else sql_default(axis.default)
    kind = column_type[axis.type]()
    return mapped_column(kind, nullable=is_lacked(axis), server_default=default)


def is_lacked(axis: Axis) -> bool:
    """Return whether some trials lack this axis: their engine knows nothing of it."""
    return axis.name not in ALWAYS_OF_COMMANDS


def sql_default(value: AxisValue | None) -> TextClause:
    """Return the default of an axis as both engines take it in a definition of a column."""
    if value is None:
        return text("NULL")
    if isinstance(value, str):
        return text(f"'{value}'")
    return text(str(value).lower())


class TrialRow(Base):
    """One cell of a grid: a column for each axis of `scalemark.records.trial.TrialSpec`, and its
    identity. The table has more columns where sweeps brought axes of their own.
    """

    __tablename__ = "trials"
    __table_args__ = (
        Index("ix_trials_curve", "curve", "num_gpus"),
        Index("ix_trials_model", "model", "num_gpus"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)  # TrialSpec.trial_id
    # TrialSpec.curve: the same for trials that differ in GPUs, hosts and their links alone
    curve: Mapped[str]
    strategy: Mapped[str]  # scalemark.records.trial.strategy_name
    if TYPE_CHECKING:  # those that queries name; all follow from the definitions
        model: Mapped[str]
        num_gpus: Mapped[int]
        hosts: Mapped[int]
        device_kind: Mapped[str]
        precision: Mapped[str]
        data: Mapped[str]
        batch_size: Mapped[int]
    else:
        vars().update({axis.name: _axis_column(axis) for axis in AXES.values()})
    spec: Mapped[str]  # canonical JSON


class SweepTrialRow(Base):
    """A trial that a sweep asked for, in its order, also when it was finished already."""

    __tablename__ = "sweep_trials"
    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012

    sweep_id: Mapped[int] = mapped_column(ForeignKey("sweeps.id"), primary_key=True)
    trial_id: Mapped[str] = mapped_column(ForeignKey("trials.id"), primary_key=True)
    position: Mapped[int]


class LeftOutRow(Base):
    """A cell of a grid that means nothing or cannot run on the machine."""

    __tablename__ = "left_out"

    sweep_id: Mapped[int] = mapped_column(ForeignKey("sweeps.id"), primary_key=True)
    overrides: Mapped[str] = mapped_column(primary_key=True)  # as on the command line
    reason: Mapped[str]


class OrchestratorRow(Base):
    """A process that runs a sweep, and the signs by which others know whether it still lives."""

    __tablename__ = "orchestrators"

    id: Mapped[int] = mapped_column(primary_key=True)
    sweep_id: Mapped[int] = mapped_column(ForeignKey("sweeps.id"), index=True)
    machine_id: Mapped[int] = mapped_column(ForeignKey("machines.id"))
    software_key: Mapped[str]  # as in environments
    shares_host: Mapped[bool]  # runs trials side by side
    host: Mapped[str]
    boot_id: Mapped[str]  # of the kernel: process numbers mean something within one boot
    pid_namespace: Mapped[str]  # and within one container
    pid: Mapped[int]
    # since boot: distinguishes it from a later process of that number
    start_ticks: Mapped[int] = mapped_column(Whole)
    started_at: Mapped[datetime]
    heartbeat_at: Mapped[datetime]
    # null while it runs, and after a crash until somebody notices
    ended_at: Mapped[datetime | None]
    note: Mapped[str]  # for people, by itself or by who ended it


# SQLite uses the index only for a condition of the same text
IN_FLIGHT = "state IN ('claimed', 'running')"


class RepeatRow(Base):
    """One repeat of a trial in a sweep. Every change is written before it is acted upon."""

    __tablename__ = "repeats"
    __table_args__ = (
        CheckConstraint(_one_of("state", State), name="repeats_state"),
        UniqueConstraint("sweep_id", "trial_id", "repeat", name="repeats_once"),
        Index(
            "ix_repeats_in_flight",
            "trial_id",
            sqlite_where=text(IN_FLIGHT),  # `store.postgresql` makes it the same there
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    sweep_id: Mapped[int] = mapped_column(ForeignKey("sweeps.id"))
    trial_id: Mapped[str] = mapped_column(ForeignKey("trials.id"))
    repeat: Mapped[int]  # counted from 1 within the sweep
    state: Mapped[str]
    reason: Mapped[str]  # why it was skipped; else empty
    num_attempts: Mapped[int]  # made so far, a running one included
    # who took it last; null: nobody has it
    orchestrator_id: Mapped[int | None] = mapped_column(ForeignKey("orchestrators.id"))
    # of the attempt that runs, as all below; null when none does
    started_at: Mapped[datetime | None]
    run_dir: Mapped[str | None]
    placement: Mapped[dict[str, Any] | None]  # scalemark.records.attempt.Placement
    pid: Mapped[int | None]  # leader of its process group
    start_ticks: Mapped[int | None] = mapped_column(Whole)


class PlacementRow(Base):
    """The devices and cores an attempt was given: `scalemark.records.attempt.Placement`."""

    __tablename__ = "placements"

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(unique=True)  # digest of the columns below
    start: Mapped[str]  # fork or spawn
    devices: Mapped[str]  # numbers of the slots it held, as "0,1"
    visible_devices: Mapped[str]  # CUDA_VISIBLE_DEVICES it was given; empty on CPU devices
    cores: Mapped[str]  # CPU cores it was given, as "0,1,4"; empty = all
    spare_core: Mapped[int | None]
    shares_host: Mapped[bool]
    host_memory_bytes: Mapped[int | None] = mapped_column(Whole)
    hosts: Mapped[str]  # that its ranks ran on, as "node1,node2"; empty = one host alone
    rank_start: Mapped[str]  # prefix: commands started them there; empty = its trainer itself


class AttemptRow(Base):
    """One try to run one repeat of a trial, once it has ended."""

    __tablename__ = "attempts"
    __table_args__ = (
        CheckConstraint(_one_of("outcome", Outcome), name="attempts_outcome"),
        UniqueConstraint("trial_id", "sweep_id", "repeat", "attempt", name="attempts_once"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    sweep_id: Mapped[int] = mapped_column(ForeignKey("sweeps.id"), index=True)
    trial_id: Mapped[str] = mapped_column(ForeignKey("trials.id"))
    machine_id: Mapped[int] = mapped_column(ForeignKey("machines.id"))
    # null: ended before it was known
    environment_id: Mapped[int | None] = mapped_column(ForeignKey("environments.id"))
    placement_id: Mapped[int] = mapped_column(ForeignKey("placements.id"))
    repeat: Mapped[int]  # counted from 1 within the sweep
    attempt: Mapped[int]  # counted from 1 within the repeat
    outcome: Mapped[str]
    message: Mapped[str]  # why it did not complete
    # of the process; -N = ended by signal N; null when nobody saw it end
    exit_code: Mapped[int | None]
    shares_host: Mapped[bool]  # other trials of its sweep may have run beside it
    run_dir: Mapped[str]  # within sweeps.run_dir; whole when it is elsewhere
    started_at: Mapped[datetime]
    duration_s: Mapped[float | None]  # null when nobody saw it end
    # null: counts; else left out of every view and result until it is restored
    deleted_at: Mapped[datetime | None]


class OpPlacementRow(Base):
    """The devices on which operations of a step were seen to run: attempts of a trial share it."""

    __tablename__ = "op_placements"

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(unique=True)  # digest of the description
    description: Mapped[dict[str, Any]]  # role -> "op @ device" -> how many nodes


class MeasurementRow(Base):
    """The numbers that follow from the measured steps: the fields of
    `scalemark.records.measurement.Measurement`, and of Result around it.

    Numbers of simulated GPUs were computed, not measured: `trials.device_kind` says so, and the
    views keep them apart.
    """

    __tablename__ = "measurements"
    __table_args__ = (
        CheckConstraint(_one_of("verdict", Verdict), name="measurements_verdict"),
        CheckConstraint(
            "throughput >= 0 AND throughput < 1e300",
            name="measurements_throughput",
        ),
    )

    attempt_id: Mapped[int] = mapped_column(ForeignKey("attempts.id"), primary_key=True)
    throughput: Mapped[float]
    # null of too few calls, see Measurement
    throughput_low: Mapped[float | None]
    throughput_high: Mapped[float | None]
    median_step_s: Mapped[float | None]
    jitter_s: Mapped[float | None]
    p90_step_s: Mapped[float | None]
    num_steps: Mapped[int]
    window_s: Mapped[float]
    num_warm_up_steps: Mapped[int]
    steady: Mapped[bool]
    time_to_first_step_s: Mapped[float | None]
    trace_s: Mapped[float | None]
    first_step_s: Mapped[float | None]
    data_wait_share: Mapped[float | None]
    cpu_s: Mapped[float | None]
    cores_taken_by_others: Mapped[float | None]
    peak_host_memory_bytes: Mapped[int | None] = mapped_column(Whole)
    peak_device_memory_bytes: Mapped[int | None] = mapped_column(Whole)
    first_loss: Mapped[float | None]
    last_loss: Mapped[float | None]
    num_skipped_steps: Mapped[int]
    last_loss_scale: Mapped[float | None]
    num_parameters: Mapped[int | None] = mapped_column(Whole)
    link_bytes_per_s: Mapped[float | None]  # of earlier versions
    item: Mapped[str]  # what is counted per second
    reported: Mapped[bool]  # by the program, of its whole run
    mfu: Mapped[float | None]  # model FLOPs utilization, 0..1; null where it is not known
    peak_flops_per_s: Mapped[float | None]  # of one device, that mfu was divided by
    # largest of any device; null where they are not our own
    variable_bytes: Mapped[int | None] = mapped_column(Whole)
    optimizer_state_bytes: Mapped[int | None] = mapped_column(Whole)
    op_placement_id: Mapped[int] = mapped_column(ForeignKey("op_placements.id"))
    verdict: Mapped[str | None]
    verdict_reasons: Mapped[list[Any] | None]
    # as in scalemark.records.measurement: a GpuTelemetry of each GPU, a Profile, and ReplicaTimes
    gpu_telemetry: Mapped[list[Any] | None]
    profile: Mapped[dict[str, Any] | None]
    replica_times: Mapped[dict[str, Any] | None]
    # of a simulated attempt: what the cost model made it from; null of a measurement
    truth: Mapped[dict[str, Any] | None]
    # of a user's program: the last values of other numbers that it printed
    metrics: Mapped[dict[str, Any] | None]


class StepArraysRow(Base):
    """The steps of one attempt, as `scalemark.records.attempt` packs them. The view
    `step_samples` has a row per step.

    Times have five digits of the shortest step, losses five of the smallest; the run folder keeps
    them as they were measured.
    """

    __tablename__ = "step_arrays"

    attempt_id: Mapped[int] = mapped_column(ForeignKey("attempts.id"), primary_key=True)
    first_step: Mapped[int]
    num_steps: Mapped[int]  # training steps in each call
    num_warm_up: Mapped[int]  # calls before measuring began
    time_unit_us: Mapped[int] = mapped_column(Whole)  # of all times below
    least_duration: Mapped[int] = mapped_column(Whole)
    least_loss: Mapped[float | None]  # null when no loss was finite
    loss_unit: Mapped[float]
    duration_over_least: Mapped[list[Any]]
    data_wait: Mapped[list[Any]]  # empty when none waited, as for synthetic data
    # between the end of the call before and the beginning of this one
    gap_before: Mapped[list[Any]]
    loss_over_least: Mapped[list[Any]]  # in loss_unit; null where it was not finite


class TagRow(Base):
    """A word that a person gave a sweep, a trial or an attempt: one of the ids says which."""

    __tablename__ = "tags"
    __table_args__ = (CheckConstraint(f"{_ONE_SUBJECT} = 1", name="tags_one_subject"),)

    tag: Mapped[str]
    id: Mapped[int] = mapped_column(primary_key=True)
    sweep_id: Mapped[int | None] = mapped_column(ForeignKey("sweeps.id"), index=True)
    trial_id: Mapped[str | None] = mapped_column(ForeignKey("trials.id"), index=True)
    attempt_id: Mapped[int | None] = mapped_column(ForeignKey("attempts.id"), index=True)
    added_at: Mapped[datetime]


class ReferenceRow(Base):
    """A figure that others measured: `scalemark.records.references.Reference`."""

    __tablename__ = "reference_results"
    __table_args__ = (
        CheckConstraint("num_gpus >= 1", name="reference_results_num_gpus"),
        CheckConstraint("throughput > 0", name="reference_results_throughput"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(unique=True)  # Reference.key
    origin: Mapped[str]
    source: Mapped[str]
    citation: Mapped[str]
    hardware: Mapped[str]
    model: Mapped[str]
    batch_size: Mapped[int | None]
    data: Mapped[str]
    variable_update: Mapped[str]
    all_reduce: Mapped[str]
    local_parameter_device: Mapped[str]
    precision: Mapped[str]
    num_gpus: Mapped[int]
    throughput: Mapped[float]
    evidence: Mapped[str]
    note: Mapped[str]
    item: Mapped[str]  # what is counted per second
    hosts: Mapped[int | None]
    axes: Mapped[dict[str, Any]] = mapped_column(CanonicalJson)  # free ones
    compare: Mapped[str]  # the free axis that plays the part of the strategy; empty: all do
    repeat: Mapped[int]  # counted from 1 over rows of a table that say the same


def _be_strict(table: Table) -> None:
    """Let SQLite refuse cells of another type, and text that is no JSON."""
    table.dialect_options["sqlite"]["strict"] = True
    for column in table.columns:
        condition = condition_of(column)
        if condition:
            check = CheckConstraint(
                f'"{column.name}" IS NULL OR {condition}', name=f"{table.name}_{column.name}_cells"
            )
            table.append_constraint(check.ddl_if(dialect="sqlite"))


def condition_of(column: Column[Any]) -> str:
    """Return what holds of every cell that is not null; empty where STRICT says it all."""
    name = f'"{column.name}"'
    if isinstance(column.type, UtcDateTime):
        return f"length({name}) = 26 AND julianday({name}) IS NOT NULL"
    if isinstance(column.type, Flag):
        return f"{name} IN (0, 1)"
    if isinstance(column.type, JsonArray):
        return f"json_valid({name}) AND json_type({name}) IN ('array', 'null')"
    # a null may be stored as JSON's
    if isinstance(column.type, JsonObject | CanonicalJson):
        return f"json_valid({name}) AND json_type({name}) IN ('object', 'null')"
    if column.key == "spec":
        return f"json_valid({name})"
    return ""


for _table in Base.metadata.tables.values():
    _be_strict(_table)
