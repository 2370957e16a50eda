"""Portable records with known numbers, and all of them that a database holds."""

from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

from scalemark.records.machine import Gpu, GpuLink, PcieLevel
from scalemark.records.outcomes import Outcome, State, Verdict
from scalemark.records.placement import Placement
from scalemark.records.references import Origin, Reference
from scalemark.records.sweep import sweep_uid
from scalemark.records.trial import TrialSpec
from store.exchange.portable import (
    Annotation,
    Change,
    Measured,
    Portable,
    PortableAttempt,
    PortableRepeat,
    PortableSweep,
    PortableTrial,
    SweepHead,
    pack,
)
from tests.filled import ENVIRONMENT, MACHINE, NOON, PLACEMENT, STEPS, measurement
from tests.specs import small

HEAD = SweepHead(
    uid=sweep_uid("first", NOON, "sweep.py"),
    name="first",
    reason="",
    command="sweep.py",
    started_at=NOON,
    finished_at=NOON + timedelta(hours=1),
    run_dir="/runs/first",
    origin="",
)

_PART = Gpu(
    uuid="MIG-1",
    name="A100 1g",
    memory_bytes=5 * 2**30,
    pci_bus_id="",
    compute_capability="8.0",
    power_limit_w=None,
    mig_parent="GPU-1",
)
TWO_GPUS = replace(
    MACHINE,
    host="gpubox",
    gpus=(
        Gpu(
            uuid="GPU-0",
            name="A100",
            memory_bytes=40 * 2**30,
            pci_bus_id="0",
            compute_capability="8.0",
            power_limit_w=300.0,
            cores=(0, 1),
        ),
        Gpu(
            uuid="GPU-1",
            name="A100",
            memory_bytes=40 * 2**30,
            pci_bus_id="1",
            compute_capability="8.0",
            power_limit_w=300.0,
            numa_node=1,
            mig_mode=True,
            mig_devices=(_PART,),
        ),
    ),
    driver="550.1",
    links=(GpuLink(between=("GPU-0", "GPU-1"), num_nvlinks=12, pcie=PcieLevel.SYSTEM.value),),
)

REFERENCE = Reference(
    origin=Origin.ADDED.value, source="paper", citation="arXiv:1", hardware="8 x P100", model="resnet50", batch_size=64, data="real?",
    variable_update="replicated", all_reduce="nccl", local_parameter_device="gpu", precision="fp32", num_gpus=8, throughput=1734.5, evidence="table",
)  # fmt: skip


def measured(throughput: float = 100.0) -> Measured:
    return Measured(
        measurement=asdict(measurement(throughput)),
        op_placement={"update": {"ResourceApplyMomentum @ CPU:1": 6}},
        verdict=Verdict.VALID.value,
        verdict_reasons=(),
        gpu_telemetry=(),
        profile=None,
    )


def repeat(
    number: int = 1, *, attempts: tuple[Outcome, ...] = (Outcome.COMPLETED,)
) -> PortableRepeat:
    """With all changes that an orchestrator writes."""
    changes = [Change(at=NOON, attempt=0, state=State.PENDING.value, detail="")]
    for attempt, outcome in enumerate(attempts, 1):
        for state, of_attempt in (
            (State.CLAIMED, attempt - 1),
            (State.RUNNING, attempt),
            (State(outcome), attempt),
        ):
            at = NOON + timedelta(minutes=number, seconds=10 * attempt + len(changes))
            changes.append(Change(at=at, attempt=of_attempt, state=state.value, detail=""))
    return PortableRepeat(
        number=number,
        state=attempts[-1].value,
        reason="",
        num_attempts=len(attempts),
        changes=tuple(changes),
    )


def attempt(
    spec: TrialSpec | None = None, throughput: float | None = 100.0, **changes: Any
) -> PortableAttempt:
    """A completed attempt, or with None one that failed."""
    spec = spec or small()
    outcome = Outcome.FAILED if throughput is None else Outcome.COMPLETED
    reported: dict[str, Any] = {
        "sweep": HEAD,
        "position": 0,
        "trial_id": spec.trial_id,
        "spec": spec,
        "machine": MACHINE,
        "environment": None if throughput is None else dict(ENVIRONMENT),
        "placement": PLACEMENT,
        "repeat": repeat(attempts=(outcome,)),
        "attempt": 1,
        "outcome": outcome.value,
        "message": "it broke" if throughput is None else "",
        "exit_code": 1 if throughput is None else 0,
        "run_dir": f"{spec.trial_id[:8]}-r1-a1",
        "started_at": NOON + timedelta(minutes=1),
        "duration_s": 9.5,
        "measured": None if throughput is None else measured(throughput),
        "steps": None if throughput is None else pack(STEPS),
    }
    return PortableAttempt(**reported | changes)


def everything() -> list[Portable]:
    """All that a database can hold: two sweeps, retries, skipped repeats, GPUs, tags and notes, a deleted attempt, strange text."""
    one, two, odd = (
        small(),
        small(num_gpus=2, learning_rate=1),
        small(seed=7, data_dir="=cmd|' /C calc'!A0"),
    )
    later = replace(
        HEAD,
        uid=sweep_uid("=second", NOON, "x"),
        name="=second",
        reason='a "reason",\nwith ✓',
        command="x",
        finished_at=None,
    )
    retried = repeat(attempts=(Outcome.INTERRUPTED, Outcome.COMPLETED))
    tag, note = (
        Annotation(text="-good", added_at=NOON),
        Annotation(text="'+quoted\r\nnote" * 40, added_at=NOON),
    )
    skipped = PortableRepeat(
        number=2,
        state=State.SKIPPED.value,
        reason="enough",
        num_attempts=0,
        changes=(Change(at=NOON, attempt=0, state=State.SKIPPED.value, detail="enough"),),
    )
    on_gpus = {
        "machine": TWO_GPUS,
        "placement": Placement(
            start="fork",
            devices=(0, 1),
            visible_devices="0,1",
            cores=(2, 3),
            spare_core=4,
            shares_host=True,
            host_memory_bytes=2**34,
        ),
    }
    telemetry = {"uuid": "GPU-0", "num_samples": 3, "power_w": 250.5, "throttle_reasons": ["heat"]}
    with_all = replace(
        measured(222.25),
        verdict=Verdict.SUSPECT.value,
        verdict_reasons=("hot",),
        gpu_telemetry=(telemetry,),
        profile={"num_steps": 3, "op_class_s": {"conv": 0.5}},
        replica_times={"at_once": True, "seconds": {"GPU:0": [0.25, 0.5], "GPU:1": [0.25, 0.25]}},
    )
    return [
        PortableSweep(sweep=HEAD, left_out=(("xla=on", "later"),), tags=(tag,)),
        PortableSweep(sweep=later, notes=(note,)),
        PortableTrial(sweep=HEAD, position=0, trial_id=one.trial_id, spec=one, repeats=(skipped,), notes=(note,)),
        PortableTrial(sweep=HEAD, position=1, trial_id=two.trial_id, spec=two),
        PortableTrial(sweep=later, position=0, trial_id=odd.trial_id, spec=odd),
        attempt(one, None, repeat=retried, outcome=Outcome.INTERRUPTED.value, message="=1+1\n@x", exit_code=-9, duration_s=None),
        attempt(one, 101.5, repeat=retried, attempt=2, tags=(tag,), notes=(note,)),
        attempt(two, 222.25, position=1, measured=with_all, deleted_at=NOON, **on_gpus),
        attempt(odd, None, sweep=later, run_dir="/elsewhere/x", environment=ENVIRONMENT | {"variables": {"TF_X": "1" * 10_000}}),
        REFERENCE,
    ]  # fmt: skip
