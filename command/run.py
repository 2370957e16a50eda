"""Runs one trial of a user's program from its spec to its result. Read this file first.

```
  command line ─► program ─► lines ─► reader ─► steps ─► warm-up, window ─► measurement ─► verdict
                     └─► CPU seconds, memory, GPU telemetry, exit status ───────────────────┘
```
"""

import json
import os
import resource
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass, replace

from command import children, outcomes, parts, start
from command.curve import PrintedNumbers
from command.measuring import NothingReadError, ProgramRun, measured_by
from command.watch import Listener, Looks, Moments, Output, ProgramEnd, ProgramLog, Signals, Watch
from scalemark.host.files import read_probe
from scalemark.host.orphans import Guard
from scalemark.host.processes import num_kernel_kills
from scalemark.program import expression
from scalemark.readers.log_text import Lines
from scalemark.readers.opening import ReadError, open_reader
from scalemark.records import measurement
from scalemark.records.attempt import Placement
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec
from scalemark.records.validation import JsonRecord
from scalemark.run_folder import RunFolder, open_regular, read_regular
from scalemark.text.untrusted import without_secrets
from scalemark.text.wording import counted
from trainer import UnsupportedTrialError, own_process
from trainer.measured import judge, with_mfu
from trainer.own_rank import OwnRank, start_beat
from trainer.watching import telemetry

WENT_ON_S = 0.1  # numbers that come later after the end of the program are of what it has left
_IN_BACKGROUND = (
    "it went on in the background after it had ended, and was stopped there; start it in the "
    "foreground"
)
_TAKEN_APART = "its steps were timed from inside, which slows them: its speed counts for nothing"


def run(
    spec: TrialSpec, folder: RunFolder, given: Placement | None, own: OwnRank | None = None
) -> measurement.AttemptResult:
    """Run the program and measure it; write log, steps and environment into the folder.

    A trial started by hand has no placement (`given`); `own` is the first of several hosts. Raises
    UnsupportedTrialError, CannotStartError, and OSError, where this host lacks what watching needs.
    """
    if given:
        own_process.take(given)
    try:
        reader = open_reader(spec.read, spec.item, spec.num_gpus)
    except ReadError as error:
        raise UnsupportedTrialError(str(error)) from error
    program = start.program_of(spec, folder.path, os.environ, own)
    # before the start: lines are stamped when they are read, and it may ask git for long
    began_s = time.time()
    described = start.record_software(program, folder)
    with ExitStack() as stack:
        ours = _guarded(program, folder, own, stack)
        signals = Signals()
        log = stack.enter_context(closing(ProgramLog(folder.log)))
        gpus = telemetry.watched(spec, given)
        spare_core = given.spare_core if given else None
        stack.enter_context(telemetry.watching(gpus.uuids, folder.telemetry, spare_core))
        if gpus.uuids:
            ours += [child.pid for child in children.living(ours)]
        attempt = _Attempt(spec, folder, PrintedNumbers(spec, reader), Moments(ours))
        try:
            ended = _follow(program, _memory_bytes(spec, given), signals, log, attempt, ours)
            doubt = start.software_doubt(program, described, began_s)
            return attempt.result(ended, log, gpus.num_wanted, given, doubt)
        except ReadError as error:
            return measurement.ended(measurement.Outcome.INVALID, f"read={spec.read}: {error}")


def accompany(
    spec: TrialSpec, folder: RunFolder, given: Placement | None, own: OwnRank
) -> measurement.AttemptResult:
    """Run the program on a host that is not the first; nothing of it is measured.

    Its output goes to the log of the rank. Raises UnsupportedTrialError, CannotStartError, OSError.
    """
    if given:
        own_process.take(given)
    program = start.program_of(spec, folder.path, os.environ, own)
    with ExitStack() as stack:
        ours = _guarded(program, folder, own, stack)
        signals = Signals()
        log = stack.enter_context(closing(ProgramLog(folder.rank_log(own.rank))))
        ended = _follow(program, _memory_bytes(spec, given), signals, log, Listener(), ours)
        shares_host = given is not None and given.shares_host
        failed = outcomes.failed(ended, shares_host=shares_host)
        return failed or measurement.ended(measurement.Outcome.COMPLETED, "")


def _guarded(
    program: start.Program, folder: RunFolder, own: OwnRank | None, stack: ExitStack
) -> list[int]:
    """See to it that nothing of the program survives this process; return what is not its own."""
    children.adopt_orphans()
    guard = Guard()
    stack.callback(guard.close)
    if own:
        start_beat(folder, own.rank)
    return [guard.pid]


def _follow(
    program: start.Program,
    memory_bytes: int | None,
    signals: Signals,
    log: ProgramLog,
    listener: Listener,
    ours: Sequence[int],
) -> ProgramEnd:
    """Start the program, and watch it to its end; `ours` are processes that are not its own.

    Raises CannotStartError, and what `log` and `listener` raise; then nothing of it runs any more.
    """
    reading, writing = start.pipe()
    with ExitStack() as stack:
        stack.callback(os.close, reading)
        try:
            started_s, num_kills = time.monotonic(), num_kernel_kills()
            process = start.start(program, writing)
        finally:
            os.close(writing)
        end_all = stack.enter_context(ExitStack())  # where watching fails
        end_all.callback(children.end_all, ours)
        if memory_bytes is not None:
            with suppress(ProcessLookupError):  # it has ended already
                resource.prlimit(process.pid, resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
        output = Output(reading, log, listener)
        ended = Watch(process, output, signals, spared=ours).until_it_ends(started_s, num_kills)
        end_all.pop_all()
        return ended


@dataclass
class _Attempt(Listener):
    """What is known of the program while it runs, and after."""

    spec: TrialSpec
    folder: RunFolder
    printed: PrintedNumbers
    moments: Moments
    last_step_written: int = -1

    def take_line(self, line: str, arrival_s: float) -> None:
        is_first = self.printed.first_arrival_s is None
        self.printed.take_line(line, arrival_s)
        if is_first and self.printed.first_arrival_s is not None:
            self.folder.write(self.folder.doing, measurement.Doing.STEPPING)
            self.moments.look()

    def look(self, now_s: float) -> None:
        """Look at what it takes, whatever it prints."""
        self.moments.look_if_due(now_s)

    def beat(self, _: float) -> None:
        """Show that the program lives: it has printed something."""
        self.folder.heartbeat.touch()
        step = self.printed.curve.num_steps - 1
        if step > self.last_step_written:
            self.last_step_written = step
            with self.folder.steps.open("a") as file:  # written anew in the end
                file.write(json.dumps({"step": step}) + "\n")

    def result(
        self,
        ended: ProgramEnd,
        log: ProgramLog,
        num_gpus: int,
        given: Placement | None,
        software_doubt: str,
    ) -> measurement.AttemptResult:
        looks = self.moments.end()
        self.folder.steps.unlink(missing_ok=True)
        shares_host = given is not None and given.shares_host
        if failed := outcomes.failed(ended, shares_host=shares_host):
            return failed
        watched = Watched(
            end=ended,
            looks=looks,
            epoch_s=time.monotonic() - time.time(),
            num_gpus=num_gpus,
            num_cores=len(os.sched_getaffinity(0)),
            shares_host=shares_host,
            software_doubt=software_doubt,
            log_begin_bytes=log.begin_bytes,
            chunk_ends_bytes=tuple(log.ends_bytes),
            arrivals_s=tuple(log.arrivals_s),
        )
        if log.is_whole:
            left_behind = tuple(map(without_secrets, ended.left_behind))
            kept = replace(watched, end=replace(ended, last_lines=(), left_behind=left_behind))
            self.folder.write(self.folder.watched, json.dumps(asdict(kept)))
        result, steps = _result(self.spec, self.folder, self.printed, watched)
        if steps:
            lines = [json.dumps(asdict(sample)) + "\n" for sample in steps]
            self.folder.write(self.folder.steps, "".join(lines))
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched(JsonRecord):
    """The content of `watched.json` after a program ended well: all but its lines."""

    end: ProgramEnd
    looks: Looks
    epoch_s: float  # 1970 on the monotonic clock
    num_gpus: int  # that were to be watched
    num_cores: int  # of its watcher
    shares_host: bool  # with other trials of its sweep
    software_doubt: str
    log_begin_bytes: int  # where its output begins in the log
    # the chunks in which its output came: where each ends in the log, and when it came
    chunk_ends_bytes: tuple[int, ...]
    arrivals_s: tuple[float, ...]


def read_again(
    spec: TrialSpec, folder: RunFolder
) -> tuple[measurement.AttemptResult, Sequence[measurement.StepSample]]:
    """Read the kept log of a program that ended well as `spec` says; write nothing.

    Each line is as old as it was. Raises ReadError, OSError, and ValueError for what no log can be
    read by.
    """
    watched = Watched.from_json(read_regular(folder.watched))
    printed = PrintedNumbers(spec, open_reader(spec.read, spec.item, spec.num_gpus))
    lines = Lines()
    with open_regular(folder.log) as file:
        begin = file.seek(watched.log_begin_bytes)
        for chunk_end, arrival_s in zip(watched.chunk_ends_bytes, watched.arrivals_s, strict=True):
            for line, came_s in lines.feed(file.read(chunk_end - begin), arrival_s):
                printed.take_line(line, came_s)
            begin = chunk_end
        if file.tell() != begin:
            raise ValueError(f"{folder.log} is shorter than it was")
    for line, came_s in lines.end():
        printed.take_line(line, came_s)
    return _result(spec, folder, printed, watched)


def _result(
    spec: TrialSpec, folder: RunFolder, printed: PrintedNumbers, watched: Watched
) -> tuple[measurement.AttemptResult, Sequence[measurement.StepSample]]:
    """Measure a program that ended well, and judge it. Raises ReadError."""
    ended = watched.end
    printed.read_files(folder.path, ended.started_s, ended.ended_s, watched.epoch_s)
    if hidden := outcomes.out_of_memory(printed):
        return hidden, ()
    items_per_step = expression.amount("items_per_step", spec.axes)
    try:
        run = ProgramRun(
            spec=spec,
            printed=printed,
            looks=watched.looks,
            started_s=ended.started_s,
            ended_s=ended.ended_s,
        )
        measured = measured_by(run, items_per_step)
    except NothingReadError as error:
        return outcomes.no_number(str(error), spec, ended), ()
    figures = _with_utilization(measured.measurement, spec, folder)
    seen = telemetry.summarize(folder.telemetry, *measured.window_s)
    problem = None
    if printed.num_unfinite_losses:
        problem = f"the loss is not finite in {counted(printed.num_unfinite_losses, 'line')}"
    verdict, reasons = judge(
        spec,
        figures,
        measured.durations_s,
        seen,
        watched.num_gpus,
        num_cores=watched.num_cores,
        shares_host=watched.shares_host,
        problem=problem,
    )
    doubts = [*measured.doubts, *outcomes.doubts(printed)]
    if watched.software_doubt:
        doubts.append(watched.software_doubt)
    if ended.left_behind and printed.curve.last_arrival_s > ended.ended_s + WENT_ON_S:
        doubts.append(_IN_BACKGROUND)
    if doubts and verdict != measurement.Verdict.INVALID:
        verdict, reasons = measurement.Verdict.SUSPECT, (*doubts, *reasons)
    notes = outcomes.completion_notes(ended, spec, watched.num_gpus, printed.rated_by)
    result = measurement.AttemptResult(
        outcome=measurement.Outcome.INVALID if problem else measurement.Outcome.COMPLETED,
        message=problem or "; ".join(filter(None, (*notes, measured.note))),
        measurement=figures,
        verdict=verdict,
        verdict_reasons=reasons,
        gpu_telemetry=seen,
        metrics=dict(printed.metrics) or None,
    )
    if spec.takes_apart:
        result = _taken_apart(result, folder, measured.window_s)
    return result, measured.samples


def _taken_apart(
    result: measurement.AttemptResult, folder: RunFolder, window_s: tuple[float, float]
) -> measurement.AttemptResult:
    """Add the parts of its steps, as they were timed from inside."""
    result = replace(result, verdict=measurement.Verdict.INVALID, verdict_reasons=(_TAKEN_APART,))
    try:
        profile, replica_times = parts.read(folder.path, window_s)
    except ValueError as error:
        return replace(result, verdict_reasons=(str(error), _TAKEN_APART))
    return replace(result, profile=profile, replica_times=replica_times)


def _with_utilization(
    figures: measurement.Measurement, spec: TrialSpec, folder: RunFolder
) -> measurement.Measurement:
    """Add the memory of its GPUs, and model FLOPs utilization where FLOPs and peak are known."""
    figures = replace(figures, peak_device_memory_bytes=telemetry.peak_own_bytes(folder.telemetry))
    flops_per_item, peak = expression.amount("flops_per_item", spec.axes), _peak(spec, folder)
    is_counted = figures.item != measurement.STEPS or spec.item == measurement.STEPS
    if not flops_per_item or not peak or not is_counted:
        return figures
    return with_mfu(
        figures,
        num_gpus=spec.num_gpus,
        flops_per_item=flops_per_item,
        peak_flops_per_s=peak,
    )


def _peak(spec: TrialSpec, folder: RunFolder) -> float | None:
    """Return the FLOP/s of one device as `scalemark probe` measured it in this box and precision,
    undisturbed; None where it did not. CPU devices share those of all cores.
    """
    machine = folder.read_machine()
    probe = read_probe(machine.key, spec.device_kind) if machine else None
    if probe is None or probe.doubts:
        return None
    peaks = [peak.value for peak in probe.peaks if peak.precision == spec.precision and peak.value]
    peak = min(peaks, default=None)
    if peak and spec.device_kind == DeviceKind.CPU_DEVICE:
        return peak / spec.gpus_per_host
    return peak


def _memory_bytes(spec: TrialSpec, given: Placement | None) -> int | None:
    """Return what each process of the program may have; what they take together is not limited."""
    if given is None or given.host_memory_bytes is None:
        return None
    return given.host_memory_bytes // own_process.num_processes(given, spec)
