"""Records of what one attempt measured: steps, figures, telemetry, profile, outcome, verdict."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any

from scalemark.records.validation import JsonRecord, check_least, check_one_of
from scalemark.text.untrusted import quoted_lines


class Outcome(StrEnum):
    """The end of one attempt."""

    COMPLETED = "completed"
    FAILED = "failed"
    OUT_OF_MEMORY = "out_of_memory"
    TIMED_OUT = "timed_out"
    HUNG = "hung"
    INTERRUPTED = "interrupted"
    UNSUPPORTED = "unsupported"
    INVALID = "invalid"


class State(StrEnum):
    """The state of one repeat in its sweep; after `running` the outcome of its last attempt."""

    PENDING = "pending"  # to be run, or to be tried again
    CLAIMED = "claimed"  # one orchestrator has taken it; nothing is started yet
    RUNNING = "running"  # its process is started, or about to be
    COMPLETED = "completed"
    FAILED = "failed"
    OUT_OF_MEMORY = "out_of_memory"
    TIMED_OUT = "timed_out"
    HUNG = "hung"
    INTERRUPTED = "interrupted"
    UNSUPPORTED = "unsupported"
    INVALID = "invalid"
    SKIPPED = "skipped"  # never run, for a reason that stands beside it


class Doing(StrEnum):
    """The phase of a trainer, as its run folder says; each has its own deadline."""

    BUILDING = "building"  # until the first step is done
    STEPPING = "stepping"
    PROFILING = "profiling"  # and whatever else comes after the last measured step


IN_FLIGHT = (State.CLAIMED, State.RUNNING)
"""States of repeats that an orchestrator has taken."""


class Phase(StrEnum):
    """The part of an attempt that a step belongs to; only `measure` steps make the numbers."""

    WARM_UP = "warm_up"
    MEASURE = "measure"


class Verdict(StrEnum):
    """Says whether a measurement may be quoted."""

    VALID = "valid"
    SUSPECT = "suspect"
    INVALID = "invalid"


TRAINER_EXIT_CODES = {
    0: Outcome.COMPLETED,
    1: Outcome.FAILED,
    3: Outcome.UNSUPPORTED,
    4: Outcome.OUT_OF_MEMORY,
    5: Outcome.INVALID,
    6: Outcome.HUNG,  # a rank of a distributed trial
    130: Outcome.INTERRUPTED,
}
"""Exit status of `python -m trainer`; every other status is `failed`."""
EXIT_CODES = {outcome: code for code, outcome in TRAINER_EXIT_CODES.items()}

LAST_LINES = "Its last lines:"
"""Begins the line of a message that what a program printed in the end follows."""

WENT_ON = "it printed that memory ran out, and went on"
"""Begins a doubt of a program that may have trained with less than was asked for."""
LINES_COUNT = "; the second counts"
"""Is in a doubt of rates that the time between lines denies, and that do not count."""


def without_last_lines(message: str) -> str:
    """Return why an attempt did not complete, without the last lines of a program."""
    return message.partition(f"\n{LAST_LINES}")[0]


INJECTED = {
    "noise": "standard deviation of a step's time within a process, over its mean",
    "process_noise": "standard deviation of processes' mean step times, over their mean",
    "drift": "growth of the step time over the whole attempt, over its mean",
    "throttling": "share of the GPUs' clock that is lost",
    "contention": "share of the host's cores that others take",
    "launch_s": "seconds more per step between kernels",
    "reduction_s": "seconds more per step while gradients are reduced",
    "input_s": "seconds more that each batch takes to make",
    "slow_replica_by": "share of its own compute that one replica takes longer",
    "slow_replica": "number of that replica, counted from 0",
    "failure_rate": (
        "share of attempts that fail without a result, drawn by the seed and the attempt's folder"
    ),
}
"""Faults that simulated trials can have, by name, with their meaning."""

_RETIRED = ("hang", "link_mbit", "out_of_memory")  # that trials in older databases have

NOISE = ("noise", "process_noise")
"""Noise that simulated trials have as real ones do; it is no fault."""

INJECTED_REASON = "injected: "
"""Begins the reason of a verdict that is suspect only for injected faults."""


def injected_text(values: Mapping[str, float]) -> str:
    """Return faults as canonical text, the same for equal values."""
    return " ".join(f"{name}={values[name]:g}" for name in sorted(values))


def read_injected(text: str) -> dict[str, float]:
    """Invert `injected_text`. Raises ValueError for text that is not canonical."""
    values: dict[str, float] = {}
    for part in text.split():
        name, _, value = part.partition("=")
        if name not in INJECTED and name not in _RETIRED:
            raise ValueError(f"injected={text}: no {name}; there are {', '.join(INJECTED)}")
        try:
            values[name] = float(value)
        except ValueError:
            raise ValueError(f"injected={text}: wanted NAME=NUMBER, found {part}") from None
        if not 0 <= values[name] < float("inf"):
            raise ValueError(f"injected.{part}: wanted a finite number, 0 or more")
    if injected_text(values) != text:
        raise ValueError(
            f"injected={text}: wanted {injected_text(values)}, each name once and in order"
        )
    return values


ITEMS = "items"
"""The item where nothing says what is counted."""

STEPS = "steps"
"""The item of a program whose items per step are unknown."""

IMAGES = "images"
"""The default item of throughput. An item is a plural, as tokens."""

TOKENS = "tokens"
"""The item of models that read sequences."""

BY_EXAMPLE = (IMAGES, "samples", "sequences")
"""Items of which an example, as batch_size counts them, has one."""

LARGEST_THROUGHPUT = 1e300
"""In items/s; a throughput is less than that."""

SLOWEST, FASTEST = 1e-12, 1e15
"""In items/s; what a program prints lies far within, and statistics of it do not overflow."""

_ITEM = re.compile(r"[a-z]{1,20}", re.ASCII)


def is_item(item: str) -> bool:
    """Return whether a word can be an item."""
    return bool(_ITEM.fullmatch(item))


def check_item(item: str) -> None:
    """Raises ValueError."""
    if not is_item(item):
        raise ValueError(f"item={item[:40]}: wanted a word of small letters, as images or tokens")


def items_per_example(item: str, seq_len: int) -> int | None:
    """Return how many of these an example of such a sequence has; None where it is unknown."""
    if item in BY_EXAMPLE:
        return 1
    if item == TOKENS and seq_len:
        return seq_len
    return None


def unit_of(item: str) -> str:
    """Return the unit of throughput, as `images/s`."""
    return f"{item}/s"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSample:
    """One call of the training function: a line of `steps.jsonl`."""

    step: int  # its first step, counted from 0 over warm-up and measurement
    phase: str  # a Phase
    start_s: float  # since the first step began, monotonic clock
    duration_s: float  # batch wait and steps together
    data_wait_s: float  # part of duration_s spent waiting for the batch
    # of its last step: mean cross entropy over all replicas; none when it is not a finite number
    loss: float | None
    num_steps: int = 1  # training steps in the call


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The figures of one attempt, made of its measured steps.

    Of a user's program, None stands for what cannot be seen from outside.
    """

    throughput: float  # items of all replicas / time of the whole measured window
    # 95 % CI within this process, see scalemark.stats.within_process; None with less than 8 calls
    throughput_low: float | None = None
    throughput_high: float | None = None
    # of the step time; None where `reported`, as all that follows from steps
    median_step_s: float | None = None
    jitter_s: float | None = None  # 1.4826 x median absolute deviation
    p90_step_s: float | None = None
    num_steps: int  # measured
    window_s: float  # from the first measured step to idle devices after the last
    num_warm_up_steps: int
    steady: bool  # the steady state was seen before measuring began
    # start of process to end of first step; a forked one had TensorFlow imported before its start
    time_to_first_step_s: float | None = None
    # building the step's graph, and with NCCL that of one replica alone
    trace_s: float | None = None
    # first call and compilation; with NCCL one replica alone before it
    first_step_s: float | None = None
    data_wait_share: float | None = None  # of the measured window, 0..1
    # CPU seconds in the window of the process (of worker 0), or of all processes of a user's
    # program; divided by window_s: cores it got
    cpu_s: float | None = None
    # mean over the window, hypervisor included; None where it is not known
    cores_taken_by_others: float | None = None
    # largest resident size of the process; forked, without pages of libraries it did not touch;
    # of a user's program: the largest sum seen over its processes
    peak_host_memory_bytes: int | None = None
    # largest of the GPUs of worker 0's host; None on CPU devices
    peak_device_memory_bytes: int | None = None
    # of the step that compiles, before the samples; none when not finite
    first_loss: float | None = None
    # median of the last five steps, or of a tenth of what a program printed; none when not finite
    last_loss: float | None = None
    # of all steps so far, those whose gradients overflowed the loss scale
    num_skipped_steps: int = 0
    last_loss_scale: float | None = None  # none without a loss scale
    num_parameters: int | None = None  # trainable, of one replica
    # slowest rate seen between two of its hosts; earlier versions measured it
    link_bytes_per_s: float | None = None
    item: str = IMAGES  # what is counted per second
    # `throughput` is the program's own number of its whole run; no step was timed, and num_steps
    # is 0
    reported: bool = False
    # model FLOPs utilization, 0..1: FLOPs of the definition, forward and backward, that a device
    # trains per second, divided by its peak. None where FLOPs or peak are unknown; more than 1 is
    # a defect, but of simulated GPUs whose fast convolutions compute less than is counted
    mfu: float | None = None
    # of one device: the fastest product of matrices in the trial's precision, measured on it after
    # the steps (of simulated GPUs the profile's); of CPU devices an equal part of all cores'
    peak_flops_per_s: float | None = None
    # largest of any device, the host's CPU included: copies of the trained variables, and the
    # slots of the optimizer beside them; None where they are not our own
    variable_bytes: int | None = None
    optimizer_state_bytes: int | None = None


MAX_FOREIGN_SHARE = 0.10  # of a process's cores that others take, before its number is in doubt


def check_measurement(values: Mapping[str, Any]) -> None:
    """Raises ValueError for fields of a Measurement that are impossible, or too large to store."""
    low, high = values["throughput_low"], values["throughput_high"]
    if not 0 <= values["throughput"] < LARGEST_THROUGHPUT:
        raise ValueError(
            f"throughput={values['throughput']}: wanted 0 or more, and less than "
            f"{LARGEST_THROUGHPUT:g}"
        )
    if low is not None and high is not None and low > high:
        raise ValueError(f"throughput_low={low} is more than throughput_high={high}")
    check_item(values["item"])
    for name in _NEVER_NEGATIVE:
        if values[name] is not None:
            check_least(name, values[name], 0)


_MAY_BE_NEGATIVE = {"first_loss", "last_loss", "cores_taken_by_others"} | {
    *("steady", "item", "reported")
}
_NEVER_NEGATIVE = [each.name for each in fields(Measurement) if each.name not in _MAY_BE_NEGATIVE]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTelemetry:
    """NVML's view of one GPU during the measured window. None where the GPU does not report it."""

    uuid: str
    num_samples: int
    sm_clock_mhz: float | None = None  # median
    max_sm_clock_mhz: int | None = None  # the most this GPU can
    power_w: float | None = None  # mean
    power_limit_w: float | None = None
    temperature_c: int | None = None  # highest
    utilization: float | None = None  # mean share of time with a kernel running, 0..1
    memory_used_bytes: int | None = None  # highest, all processes together
    # as trainer/watching/telemetry.py names them; empty also where the GPU does not report them
    throttle_reasons: tuple[str, ...]
    num_foreign_processes: int | None = None  # most other processes seen computing on it at once
    xids: tuple[int, ...] = ()  # each kind of Xid error that it reported, from the trial's start on
    # memory errors since the trial's start; None without ECC
    num_corrected_errors: int | None = None
    num_uncorrected_errors: int | None = None


def said_of_others(gpu: GpuTelemetry) -> str:
    """Return the reason to doubt a measurement whose GPU other programs used."""
    num = gpu.num_foreign_processes
    return f"{num} other process{'' if num == 1 else 'es'} computed on {gpu.uuid}"


class TimedPart(StrEnum):
    """A part of the step of a user's program that was timed from inside."""

    COMPUTE = "compute"
    INPUT = "waiting for batches"
    LAUNCH = "launching operations"  # where compute has no such time
    HOST = "the program's own code"  # outside of all other parts
    IDLE = "idle"  # as HOST, with a main thread that takes no CPU time
    COMMUNICATION = "communication"
    RANKS = "waiting for the last rank"
    CORE = "waiting for a core"  # that other threads have


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The parts of a step's time, from TensorFlow's profile of a few steps after the measurement.

    A step is one call of the training function here, and figures are means over the steps.
    Profiling takes time itself, so that shares can be compared with other runs, and seconds cannot.
    TensorFlow does not record its cheapest ops (Identity, Const, Reshape).
    """

    num_steps: int
    step_s: float  # while profiled, from beginning to beginning
    # per step: time in which any gradient was reduced, or travelled from or to a reduction
    reduction_s: float
    exposed_reduction_s: float  # part of reduction_s in which no device computed anything else
    # of the step's time, GPUs idle between its first and last kernel; None on CPU devices
    launch_gap_share: float | None
    input_wait_s: float  # per step: waiting for a batch
    problems: str  # what TensorFlow could not record; empty when nothing
    folder: str  # in the run folder; TensorBoard and xprof open it
    # of the step's time, GPUs idle from its last kernel to the next step's first; None on CPU
    # devices, and in records of before it was counted
    step_gap_share: float | None = None
    # of a program, timed from inside instead: TimedPart -> seconds per step, mean of its ranks
    parts_s: dict[str, float] = field(default_factory=dict)
    # of a user's program on GPUs: clocks of the host do not see what these do
    is_of_gpus: bool = False
    num_operations: int = 0  # whose gradients a step computes; 0 = not counted
    compute_cpu_s: float | None = None  # per step, of its main thread in forward and backward


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaTimes:
    """How long each replica takes for its own forward and backward pass, after the measurement.

    Steps hide it: replicas wait for the slowest in each.
    """

    # GPUs, as in training, where heat and power slow them; CPU devices share cores: one by one
    at_once: bool
    # device, as "GPU:0", in the order of the replicas -> seconds of each round
    seconds: dict[str, tuple[float, ...]]

    def __post_init__(self) -> None:
        if len({len(rounds) for rounds in self.seconds.values()}) > 1:
            raise ValueError("seconds: wanted as many rounds of each replica")
        for device, rounds in self.seconds.items():
            if min(rounds, default=1.0) <= 0:
                raise ValueError(f"seconds.{device}: wanted times above 0, found {min(rounds)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptResult(JsonRecord):
    """The outcome of an attempt, and what it measured: `result.json`."""

    outcome: str  # an Outcome
    message: str  # why it did not complete, or what else is missing; empty when all is there
    measurement: Measurement | None = None
    # role -> "op type @ device" -> how many nodes
    op_placement: dict[str, dict[str, int]] = field(default_factory=dict)
    verdict: str | None = None  # a Verdict on the measurement
    verdict_reasons: tuple[str, ...] = ()  # why it is not valid
    # of the trial's GPUs in worker 0's machine; of other hosts' nothing is seen
    gpu_telemetry: tuple[GpuTelemetry, ...] = ()
    profile: Profile | None = None
    replica_times: ReplicaTimes | None = None
    # of a simulated attempt: what the cost model made it from, seconds per step by part
    truth: dict[str, float] | None = None
    # of a user's program: the last values of the other numbers that it printed, by name
    metrics: dict[str, float] | None = None

    def __post_init__(self) -> None:
        check_one_of("outcome", self.outcome, Outcome)
        if self.verdict is not None:
            check_one_of("verdict", self.verdict, Verdict)
        if self.measurement:
            check_measurement(asdict(self.measurement))
        object.__setattr__(self, "message", quoted_lines(self.message))  # without secrets


def judge_kill(*, by_kernel: bool, shares_host: bool) -> tuple[Outcome, str]:
    """Return the outcome of a process that SIGKILL has ended, and by whom.

    `by_kernel` says that the kernel killed for memory meanwhile: it counts that for all of a
    control group, and so for all trials that share the host.
    """
    if not by_kernel:
        return Outcome.FAILED, "killed by SIGKILL from outside (perhaps for lack of memory)"
    if shares_host:
        return Outcome.FAILED, (
            "killed by SIGKILL, perhaps by the kernel: it lacked host memory, for this trial or "
            "one beside it"
        )
    return Outcome.OUT_OF_MEMORY, "killed by the kernel for lack of host memory"


def ended(outcome: Outcome, message: str) -> AttemptResult:
    """Return a result without a measurement."""
    return AttemptResult(outcome=outcome, message=message)


BESIDE_A_MEASUREMENT = (
    "verdict",
    "verdict_reasons",
    "gpu_telemetry",
    "profile",
    "replica_times",
    "truth",
    "metrics",
)
"""Fields of Result that are columns of its measurement."""


def counted_calls(samples: Sequence[StepSample]) -> list[StepSample]:
    """Return the measured ones but the first, which begins with idle devices and waits for none."""
    measured = [sample for sample in samples if sample.phase == Phase.MEASURE]
    return measured[1:] or measured
