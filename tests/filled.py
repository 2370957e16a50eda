"""A database with known numbers, written by the real writer."""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scalemark.host import software
from scalemark.host.processes import ProcessIdentity
from scalemark.records.attempt import Placement
from scalemark.records.machine import DeviceKind, Gpu, GpuLink, Machine, PcieLevel
from scalemark.records.measurement import (
    AttemptResult,
    Measurement,
    Outcome,
    Phase,
    Profile,
    ReplicaTimes,
    StepSample,
    Verdict,
)
from scalemark.records.trial import TrialSpec
from simulator.costs.box import profile
from store.ledger import Ledger
from store.rows import FinishedAttempt
from store.writer import NewSweep, Writer
from sweeper.devices.machine import machine_of
from tests.empty import make_copy, make_empty

MACHINE = Machine(
    host="testbox", cpu="Testium", num_cores=2, memory_bytes=8 * 2**30, gpus=(), driver=""
)
SIMULATED_MACHINE = machine_of(profile("dgx1_p100"))
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
ENVIRONMENT = {
    "python": "3.11.7",
    "kernel": "6.1",
    "packages": {"tensorflow": "2.21.0", "keras": "3.15.1", "numpy": "2.4.6", "scalemark": "0.1.0"},
    "commit": "abc",
    "variables": {},
}

SOFTWARE_KEY = software.key(ENVIRONMENT)
PROCESS = ProcessIdentity(
    host="testbox", boot_id="b", pid_namespace="pid:[1]", pid=4711, start_ticks=1
)
PLACEMENT = Placement(start="spawn", devices=(0,), visible_devices="")


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


def measurement(throughput: float, **changes: Any) -> Measurement:
    found = Measurement(
        throughput=throughput,
        throughput_low=0.95 * throughput,
        throughput_high=1.05 * throughput,
        median_step_s=0.1,
        jitter_s=0.01,
        p90_step_s=0.11,
        num_steps=2,
        window_s=0.2,
        num_warm_up_steps=1,
        steady=True,
        time_to_first_step_s=6.0,
        trace_s=1.0,
        first_step_s=2.0,
        data_wait_share=0.0,
        cpu_s=3.0,
        cores_taken_by_others=0.0,
        peak_host_memory_bytes=5 * 2**30,
        peak_device_memory_bytes=None,
        first_loss=7.0,
        last_loss=6.5,
        num_skipped_steps=0,
        last_loss_scale=None,
        num_parameters=1000,
    )
    return replace(found, **changes)


STEPS = [
    StepSample(step=0, phase=Phase.WARM_UP, start_s=0.0, duration_s=0.2, data_wait_s=0.0, loss=7.0),
    StepSample(step=1, phase=Phase.MEASURE, start_s=0.2, duration_s=0.1, data_wait_s=0.0, loss=6.8),
    StepSample(step=2, phase=Phase.MEASURE, start_s=0.3, duration_s=0.1, data_wait_s=0.0, loss=6.5),
]


def attempt(
    spec: TrialSpec,
    throughput: float | None,
    *,
    repeat: int = 1,
    number: int = 1,
    outcome: Outcome = Outcome.FAILED,
    message: str = "it broke",
    environment: dict[str, Any] = ENVIRONMENT,
    steps: Sequence[StepSample] = STEPS,
    profile: Profile | None = None,
    replica_times: ReplicaTimes | None = None,
    verdict: Verdict = Verdict.VALID,
    reasons: Sequence[str] = (),
    placement: Placement = PLACEMENT,
    started_at: datetime | None = None,
    duration_s: float | None = 9.5,
    truth: dict[str, float] | None = None,
    metrics: dict[str, float] | None = None,
    **measured: Any,
) -> FinishedAttempt:
    """A completed attempt, or with None one that ended with `outcome`; `measured`: of its measurement what is to be different."""
    result = (
        AttemptResult(outcome=outcome, message=message)
        if throughput is None
        else AttemptResult(
            outcome=Outcome.COMPLETED,
            message="",
            measurement=measurement(throughput, **measured),
            op_placement={"update": {"ResourceApplyMomentum @ CPU:1": 6}},
            verdict=verdict,
            verdict_reasons=tuple(reasons),
            profile=profile,
            replica_times=replica_times,
            truth=truth,
            metrics=metrics,
        )
    )
    return FinishedAttempt(
        trial_id=spec.trial_id,
        repeat=repeat,
        attempt=number,
        exit_code=0,
        placement=placement,
        run_dir="/runs/x",
        started_at=started_at or NOON + timedelta(minutes=repeat),
        duration_s=duration_s,
        result=result,
        steps=steps if throughput is not None else [],
        environment=environment if throughput is not None else None,
    )


def begin(
    writer: Writer,
    num_repeats: dict[TrialSpec, int],
    *,
    name: str = "first",
    machine: Machine | None = None,
    environment: dict[str, Any] = ENVIRONMENT,
    process: ProcessIdentity = PROCESS,
    wanted_repeats: int = 1,
    rerun: bool = False,
    shares_host: bool = False,
    alive: bool = False,
    started_at: datetime = NOON,
) -> Ledger:
    """A sweep of these trials, of simulated ones on SIMULATED_MACHINE; `alive`: whether other orchestrators are."""
    is_simulated = any(spec.device_kind == DeviceKind.SIMULATED_GPU for spec in num_repeats)
    sweep = NewSweep(
        name=name,
        reason="",
        command="sweep.py",
        started_at=started_at,
        trials=list(num_repeats),
        num_repeats={spec.trial_id: num for spec, num in num_repeats.items()},
        left_out=[("xla=on", "later")],
        wanted_repeats=wanted_repeats,
        rerun=rerun,
        machine=machine or (SIMULATED_MACHINE if is_simulated else MACHINE),
        software_key=software.key(environment),
        shares_host=shares_host,
        process=process,
    )
    return writer.begin_sweep(sweep, lambda *_: alive)


def fill(
    url: str,
    results: list[tuple[TrialSpec, float | None]],
    *,
    name: str = "first",
    machine: Machine | None = None,
    environment: dict[str, Any] = ENVIRONMENT,
    details: Sequence[Mapping[str, Any]] = (),
) -> None:
    """One sweep with one attempt per entry; entries of the same trial are its repeats. `details`: of each what `attempt` takes."""
    if "://" in url or Path(url).exists():
        _write(url, results, name, machine, environment, details)
    else:
        make_copy(url, _written(pickle.dumps((results, name, machine, environment, details))))


@lru_cache(maxsize=100)  # the tests of a file fill many databases alike
def _written(arguments: bytes) -> bytes:
    """Return the file of a database that a writer made anew and filled with these."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "filled.db"
        make_empty(path)
        _write(str(path), *pickle.loads(arguments))
        return path.read_bytes()


def _write(
    url: str,
    results: list[tuple[TrialSpec, float | None]],
    name: str,
    machine: Machine | None,
    environment: dict[str, Any],
    details: Sequence[Mapping[str, Any]],
) -> None:
    writer = Writer(url)
    specs = [spec for spec, _ in results]
    num_repeats = {spec: specs.count(spec) for spec in specs}
    ledger = begin(
        writer, num_repeats, name=name, machine=machine, environment=environment, rerun=True
    )
    waiting = {(repeat.trial_id, repeat.repeat): repeat for repeat in ledger.open_repeats()}
    seen: dict[str, int] = {}
    for (spec, throughput), detail in zip(results, details or [{}] * len(results), strict=True):
        seen[spec.trial_id] = seen.get(spec.trial_id, 0) + 1
        repeat = waiting[spec.trial_id, seen[spec.trial_id]]
        ledger.claim(repeat)
        number = ledger.run(repeat, "/runs/x", PLACEMENT, NOON)
        reported = {"repeat": repeat.repeat, "number": number, "environment": environment, **detail}
        finished = attempt(spec, throughput, **reported)
        ledger.finish(repeat.repeat_id, finished)
    ledger.end(NOON, finished=True)
    writer.close()
