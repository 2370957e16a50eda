"""A database with known numbers, written by the real writer."""

from datetime import UTC, datetime, timedelta
from typing import Any

from store import software
from store.finished_attempt import FinishedAttempt
from store.ledger import Ledger
from store.records import Machine, Measurement, Outcome, Phase, Placement, ProcessIdentity, Result, StepSample, TrialSpec, Verdict
from store.writer import NewSweep, Writer

MACHINE = Machine(host="testbox", cpu="Testium", num_cores=2, memory_bytes=8 * 2**30, gpus=(), driver="")
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
ENVIRONMENT = {
    "python": "3.11.7",
    "kernel": "6.1",
    "packages": {"tensorflow": "2.21.0", "keras": "3.15.1", "numpy": "2.4.6", "scalemark": "0.1.0"},
    "commit": "abc",
    "variables": {},
}

SOFTWARE_KEY = software.key(ENVIRONMENT)
PROCESS = ProcessIdentity(host="testbox", boot_id="b", pid_namespace="pid:[1]", pid=4711, start_ticks=1)
PLACEMENT = Placement(start="spawn", devices=(0,), visible_devices="")


def measurement(images_per_second: float) -> Measurement:
    return Measurement(
        images_per_second=images_per_second,
        images_per_second_low=0.95 * images_per_second,
        images_per_second_high=1.05 * images_per_second,
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


STEPS = [
    StepSample(step=0, phase=Phase.WARM_UP, start_s=0.0, duration_s=0.2, data_wait_s=0.0, loss=7.0),
    StepSample(step=1, phase=Phase.MEASURE, start_s=0.2, duration_s=0.1, data_wait_s=0.0, loss=6.8),
    StepSample(step=2, phase=Phase.MEASURE, start_s=0.3, duration_s=0.1, data_wait_s=0.0, loss=6.5),
]


def attempt(
    spec: TrialSpec,
    images_per_second: float | None,
    *,
    repeat: int = 1,
    number: int = 1,
    outcome: Outcome = Outcome.FAILED,
    environment: dict[str, Any] = ENVIRONMENT,
) -> FinishedAttempt:
    """A completed attempt, or with None one that ended with `outcome`."""
    result = (
        Result(outcome=outcome, message="it broke", measurement=None, op_placement={})
        if images_per_second is None
        else Result(
            outcome=Outcome.COMPLETED,
            message="",
            measurement=measurement(images_per_second),
            op_placement={"update": {"ResourceApplyMomentum @ CPU:1": 6}},
            verdict=Verdict.VALID,
        )
    )
    return FinishedAttempt(
        trial_id=spec.trial_id,
        repeat=repeat,
        attempt=number,
        exit_code=0,
        placement=PLACEMENT,
        run_dir="/runs/x",
        started_at=NOON + timedelta(minutes=repeat),
        duration_s=9.5,
        result=result,
        steps=STEPS if images_per_second is not None else [],
        environment=environment if images_per_second is not None else None,
    )


def begin(
    writer: Writer,
    num_repeats: dict[TrialSpec, int],
    *,
    name: str = "first",
    machine: Machine = MACHINE,
    environment: dict[str, Any] = ENVIRONMENT,
    process: ProcessIdentity = PROCESS,
    wanted_repeats: int = 1,
    rerun: bool = False,
    shares_host: bool = False,
    alive: bool = False,
    started_at: datetime = NOON,
) -> Ledger:
    """A sweep of these trials; `alive`: whether other orchestrators are."""
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
        machine=machine,
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
    machine: Machine = MACHINE,
    environment: dict[str, Any] = ENVIRONMENT,
) -> None:
    """One sweep with one attempt per entry; entries of the same trial are its repeats."""
    writer = Writer(url)
    specs = [spec for spec, _ in results]
    num_repeats = {spec: specs.count(spec) for spec in specs}
    ledger = begin(writer, num_repeats, name=name, machine=machine, environment=environment, rerun=True)
    waiting = {(repeat.trial_id, repeat.repeat): repeat for repeat in ledger.open_repeats()}
    seen: dict[str, int] = {}
    for spec, images_per_second in results:
        seen[spec.trial_id] = seen.get(spec.trial_id, 0) + 1
        repeat = waiting[spec.trial_id, seen[spec.trial_id]]
        ledger.claim(repeat, NOON)
        number = ledger.run(repeat, "/runs/x", PLACEMENT, NOON)
        finished = attempt(spec, images_per_second, repeat=repeat.repeat, number=number, environment=environment)
        ledger.finish(repeat.repeat_id, finished, NOON)
    ledger.end(NOON, finished=True)
    writer.close()
