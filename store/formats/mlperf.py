"""MLPerf training logs: those of others read as references, our attempts written as such logs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from statistics import median

from scalemark.records.devices import DeviceKind
from scalemark.records.outcomes import Outcome
from scalemark.records.references import Origin, Reference, Rejected
from scalemark.records.strategies import STRATEGY_COLUMNS
from store.formats import mllog
from store.formats.mllog import Event, EventType

IMAGE_BENCHMARKS = {
    "resnet": "resnet50_v1.5",
    "ssd": "ssd",
    "maskrcnn": "maskrcnn",
    "retinanet": "retinanet",
}
"""MLPerf's name -> model. Its other benchmarks train on words, moves or clicks: their samples are
no images.
"""

SAMPLES_BY_RULE = {"resnet": 1_281_167}
"""Images in an epoch, of benchmarks whose rules leave no choice: round 0.6 does not tell."""

OURS = "scalemark"
"""Stands as submission_org in the logs that we write."""

_ANNOUNCING = ("submission_benchmark", "run_clear_caches")  # come before anything else of a run
_BEGINNING = (*_ANNOUNCING, "cache_clear", "init_start", "run_start")
_BATCH_KEYS = ("global_batch_size", "input_batch_size")  # the second: first round
_SAMPLES_KEYS = ("train_samples", "preproc_num_train_examples")
_THROUGHPUTS = ("throughput", "imgs_sec")  # in tracked_stats
_ACCELERATOR = (
    r"(?:(?:NVIDIA|AMD|Intel|Google|Tesla|GeForce)[\s-]*)*"
    r"(?:[APVTKLBH]\d{2,3}S?\b|[TL]4\b|GH200|GB\d00|MI\d{3}|RTX|TITAN|Gaudi|HL-)"
)
# "8xNVIDIA H200", not the nodes of "8xDGX H200"
_PLATFORM = re.compile(rf"(\d{{1,6}})\s*x\s*{_ACCELERATOR}", re.ASCII)
_NODES_PLATFORM = re.compile(
    rf"(\d{{1,6}})\s*x\s*[\w. ]*?x\s*(\d{{1,4}})\s*x?\s*{_ACCELERATOR}", re.ASCII
)  # "2xXE9680x8H100"
_ENTRY = {
    name: re.compile(rf"'{name}':\s*'(\d{{1,6}})'", re.ASCII)
    for name in ("num_nodes", "num_accelerators")
}
_MOST = 10**9  # of accelerators or images in a batch: what is more is no count


class _UnusableError(Exception):
    """The run gives no figure. The text says why."""


def parse(
    lines: Iterable[str], *, source: str, citation: str, hardware: str, num_gpus: int | None = None
) -> tuple[list[Reference], list[Rejected]]:
    """One figure per run of the log, and what was left out with its reason. Never raises, whatever
    the text.

    Images/s is the median of what the log tells of its throughput; where it tells none, of epochs,
    blocks or the time between two evaluations, evaluations themselves left out. `num_gpus` is for
    logs that tell their nodes but not their accelerators.
    """
    references: list[Reference] = []
    events, rejected = mllog.read(lines, source=source)
    for run in _runs(events):
        try:
            references.append(
                _reference(run, num_gpus, source=source, citation=citation, hardware=hardware)
            )
        except (_UnusableError, ValueError, RecursionError) as error:
            rejected.append(Rejected(where=f"{source} line {run[0].line}", reason=str(error)))
    if not events and not rejected:
        rejected.append(
            Rejected(where=source, reason="no line of an MLPerf log in it: wanted ':::MLLOG {...}'")
        )
    return references, rejected


def write(attempt: Mapping[str, object]) -> Iterator[str]:
    """The log of one attempt of ours. What was not measured is not written.

    The run begins when the first step is over; its time to accuracy is not measured, so `run_stop`
    tells how the attempt ended, no more. Where nobody saw the end, that is the earliest time it can
    have.
    """
    began = _time_s(attempt["started_at"])
    first_step = began + _or_0(attempt["time_to_first_step_s"])
    duration_s = attempt["duration_s"]
    ended = (
        first_step + _or_0(attempt["window_s"])
        if duration_s is None
        else max(began + _or_0(duration_s), first_step)
    )
    for key, value, metadata in _settings(attempt):
        yield mllog.written(began, EventType.POINT, key, value, metadata)
    yield mllog.written(began, EventType.START, "init_start", None, {})
    yield mllog.written(first_step, EventType.END, "init_stop", None, {})
    yield mllog.written(first_step, EventType.START, "run_start", None, {})
    steps = _known({"step_num": attempt["num_steps"]})
    if attempt["throughput"] is not None:
        measured = steps | _known(
            {"window_s": attempt["window_s"], "num_warm_up_steps": attempt["num_warm_up_steps"]}
        )
        yield mllog.written(first_step, EventType.START, "block_start", None, {})
        yield mllog.written(
            ended,
            EventType.POINT,
            "tracked_stats",
            {"throughput": attempt["throughput"]},
            measured,
        )
        yield mllog.written(ended, EventType.END, "block_stop", None, steps)
    if attempt["last_loss"] is not None:
        yield mllog.written(ended, EventType.POINT, "train_loss", attempt["last_loss"], steps)
    status = "success" if attempt["outcome"] == Outcome.COMPLETED else "aborted"
    yield mllog.written(
        ended, EventType.END, "run_stop", None, {"status": status, "outcome": attempt["outcome"]}
    )


def _settings(attempt: Mapping[str, object]) -> list[tuple[str, object, dict[str, object]]]:
    """Key, value and metadata."""
    num_gpus, batch_size = attempt["num_gpus"], attempt["batch_size"]
    assert isinstance(num_gpus, int)
    assert isinstance(batch_size, int)
    axes = {name: attempt[name] for name in ("strategy", "precision", "data", "device_kind")}
    where = _known({name: attempt[name] for name in ("host", "machine_num_gpus")})
    kind = DeviceKind(str(attempt["device_kind"]))
    device = {
        DeviceKind.GPU: attempt["gpu"],
        DeviceKind.SIMULATED_GPU: f"simulated {attempt['gpu']}",
    }.get(kind, kind.singular)
    return [
        ("submission_benchmark", attempt["model"], {"trial": attempt["id"], **axes}),
        ("submission_org", OURS, {}),
        ("submission_platform", f"{num_gpus}x{device}", where),
        ("number_of_nodes", attempt.get("hosts", 1), {}),
        ("accelerators_per_node", num_gpus, {}),
        ("global_batch_size", num_gpus * batch_size, {}),
        ("opt_name", attempt["optimizer"], {}),
        ("opt_base_learning_rate", attempt["learning_rate"], {}),
        ("seed", attempt["seed"], {}),
    ]


def _time_s(at: object) -> float:
    assert isinstance(at, datetime)
    if at.utcoffset() is None:
        raise ValueError(f"{at}: a time without zone")
    return at.timestamp()


def _or_0(seconds: object) -> float:
    return float(seconds) if isinstance(seconds, int | float) else 0.0


def _known(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _runs(events: Sequence[Event]) -> list[list[Event]]:
    """A file may hold several runs one after the other; processes of one run may repeat each
    other's lines.
    """
    runs: list[list[Event]] = []
    begun = stopped = True
    for event in events:
        if (
            (stopped and event.key in _BEGINNING)
            or (begun and event.key in _ANNOUNCING)
            or not runs
        ):
            runs.append([])
            begun = stopped = False
        begun = begun or event.key in ("init_start", "run_start")
        stopped = stopped or event.key == "run_stop"
        runs[-1].append(event)
    return runs


def _reference(
    run: Sequence[Event], given_num_gpus: int | None, *, source: str, citation: str, hardware: str
) -> Reference:
    """Raises _UnusableError."""
    if _announced(run).get("device_kind") == DeviceKind.SIMULATED_GPU:
        raise _UnusableError("simulated by scalemark: nobody measured it, so it is no reference")
    stop = next((event for event in run if event.key == "run_stop"), None)
    if stop is None:
        raise _UnusableError(
            f"interrupted: no run_stop; the last line tells of {run[-1].key} (line {run[-1].line})"
        )
    model = _model(run)
    num_gpus = _num_gpus(run, given_num_gpus)
    batch_size = _batch_size(run, num_gpus)
    throughput, evidence = _throughput(run)
    axes = _axes(run)
    return Reference(
        origin=Origin.MLPERF,
        source=source,
        citation=citation,
        hardware=hardware,
        model=model,
        batch_size=batch_size,
        data=axes["data"],
        variable_update=axes["variable_update"],
        all_reduce=axes["all_reduce"],
        local_parameter_device=axes["local_parameter_device"],
        precision=axes["precision"],
        num_gpus=num_gpus,
        throughput=throughput,
        evidence=evidence,
        note=_note(run, stop),
    )


def _model(run: Sequence[Event]) -> str:
    told = _told(run, "submission_benchmark") or next(
        (event.benchmark for event in run if event.benchmark), None
    )
    if not isinstance(told, str) or not told:
        raise _UnusableError("no submission_benchmark: the log does not tell what was trained")
    if _told(run, "submission_org") == OURS:
        return told
    if told not in IMAGE_BENCHMARKS:
        raise _UnusableError(
            f"benchmark {_short(told)}: its samples are no images; wanted one of "
            f"{', '.join(IMAGE_BENCHMARKS)}"
        )
    return IMAGE_BENCHMARKS[told]


def _announced(run: Sequence[Event]) -> Mapping[str, object]:
    """What stands beside the benchmark's name: of our own logs the axes."""
    return next((event.metadata for event in run if event.key == "submission_benchmark"), {})


def _told(run: Sequence[Event], *keys: str) -> object:
    """The value of the first of these keys that the run tells, or None. Raises _UnusableError when
    it tells two.
    """
    for key in keys:
        found = [event for event in run if event.key == key and event.value is not None]
        for event in found[1:]:
            if event.value != found[0].value:
                first, other = _short(found[0].value), _short(event.value)
                raise _UnusableError(
                    f"contradictory: {key} {first} in line {found[0].line}, {other} in line "
                    f"{event.line}"
                )
        if found:
            return found[0].value
    return None


def _count(run: Sequence[Event], *keys: str) -> int | None:
    told = _told(run, *keys)
    if told is None:
        return None
    if not isinstance(told, int) or isinstance(told, bool) or not 1 <= told <= _MOST:
        raise _UnusableError(
            f"{' or '.join(keys)}: {_short(told)}: wanted a whole number, 1 or more"
        )
    return told


def _num_gpus(run: Sequence[Event], given: int | None) -> int:
    told = (
        _counted_accelerators(run) or _accelerators_of_platform(run) or _accelerators_of_entry(run)
    )
    if told and given and told != given:
        raise _UnusableError(
            f"contradictory: {told} accelerators in the log, {given} by --num-gpus"
        )
    if not (num_gpus := told or given):
        platform = _short(_told(run, "submission_platform") or "not told")
        raise _UnusableError(
            f"the log does not tell how many accelerators (submission_platform: {platform}): "
            "say it with --num-gpus"
        )
    return num_gpus


def _counted_accelerators(run: Sequence[Event]) -> int | None:
    nodes, per_node = _count(run, "number_of_nodes"), _count(run, "accelerators_per_node")
    return nodes * per_node if nodes and per_node else None


def _accelerators_of_platform(run: Sequence[Event]) -> int | None:
    platform = _told(run, "submission_platform")
    if not isinstance(platform, str) or len(platform) > 200:
        return None
    if found := _PLATFORM.match(platform):
        return int(found[1])
    found = _NODES_PLATFORM.match(platform)
    return int(found[1]) * int(found[2]) if found else None


def _accelerators_of_entry(run: Sequence[Event]) -> int | None:
    """Round 0.6 told its system in one string, made of Python's own quotes."""
    entry = _told(run, "submission_entry")
    if not isinstance(entry, str):
        return None
    nodes, per_node = (pattern.search(entry) for pattern in _ENTRY.values())
    return int(nodes[1]) * int(per_node[1]) if nodes and per_node else None


def _batch_size(run: Sequence[Event], num_gpus: int) -> int | None:
    whole_batch = _count(run, *_BATCH_KEYS)
    if whole_batch is None:
        return None
    if whole_batch % num_gpus:
        raise _UnusableError(
            f"contradictory: a batch of {whole_batch} cannot be shared evenly by {num_gpus} "
            "accelerators"
        )
    return whole_batch // num_gpus


def _axes(run: Sequence[Event]) -> dict[str, str]:
    """What only our own logs tell, beside their model."""
    told = _announced(run)
    if _told(run, "submission_org") != OURS:
        told = {"data": "real"}  # MLPerf's rules
    named = {name: axes for axes, name in STRATEGY_COLUMNS.items()}
    strategy = str(told.get("strategy", ""))
    update, device, all_reduce = named.get(strategy, (strategy, "", ""))
    return {
        "data": str(told.get("data", "")),
        "precision": str(told.get("precision", "")),
        "variable_update": update,
        "local_parameter_device": device,
        "all_reduce": all_reduce,
    }


def _note(run: Sequence[Event], stop: Event) -> str:
    optimizer, platform = _told(run, "opt_name"), _told(run, "submission_platform")
    status = stop.metadata.get("status", "success")
    told = [
        _short(platform) if platform else "",
        f"optimizer {_short(optimizer)}" if optimizer else "",
        "on CPU stand-ins" if _announced(run).get("device_kind") == DeviceKind.CPU_STAND_IN else "",
        f"run_stop: {_short(status)}"
        if status != "success" or stop.value == {"success": False}
        else "",
    ]
    return "; ".join(filter(None, told))


def _throughput(run: Sequence[Event]) -> tuple[float, str]:
    """Images/s and the evidence for it. Raises _UnusableError."""
    told = _throughputs(run)
    if told:
        for line, figure in told:
            if not 0 < figure < math.inf:
                raise _UnusableError(
                    f"line {line}: throughput {figure}: wanted a finite number greater than 0"
                )
        return median(figure for _, figure in told), f"log: throughput, median of {len(told)}"
    if derived := _derived(run):
        name, rates = derived
        return median(rates), f"log, derived: {name}, median of {len(rates)}"
    raise _UnusableError("no throughput, and no epochs or blocks whose samples and times are told")


def _throughputs(run: Sequence[Event]) -> list[tuple[int, float]]:
    """Line and figure; `tracked_stats` where there are any, for some logs tell each figure
    twice.
    """
    tracked = [
        (event.line, figure)
        for event in run
        if event.key == "tracked_stats" and isinstance(event.value, dict)
        for name in _THROUGHPUTS
        if (figure := _number(event.value.get(name))) is not None
    ]
    alone = [
        (event.line, figure)
        for event in run
        if event.key == "throughput" and (figure := _number(event.value)) is not None
    ]
    return tracked or alone


def _number(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _derived(run: Sequence[Event]) -> tuple[str, list[float]] | None:
    """What was timed, and images/s of each."""
    samples = _count(run, *_SAMPLES_KEYS) or SAMPLES_BY_RULE.get(
        str(_told(run, "submission_benchmark"))
    )
    evaluations = _intervals(run, "eval_start", "eval_stop")
    for name, timed in (
        ("epochs", _epochs(run)),
        ("blocks", _blocks(run)),
        ("intervals between evaluations", _between_evaluations(run)),
        ("epochs", _marked_epochs(run)),
    ):
        rates = [
            images / seconds
            for start, stop, epochs, told in timed
            if (images := told or epochs * (samples or 0)) > 0
            if (seconds := stop - start - _overlap(start, stop, evaluations)) > 0
        ]
        if rates:
            return name, rates
    return None


# start, stop, epochs in it, samples in it where told, else 0
_Timed = tuple[float, float, float, float]


def _intervals(run: Sequence[Event], start_key: str, stop_key: str) -> list[tuple[Event, Event]]:
    """Starts with the stops that follow them. Lines repeated by other processes are passed over."""
    pairs: list[tuple[Event, Event]] = []
    opened: Event | None = None
    for event in run:
        if event.key == start_key:
            opened = opened or event
        elif event.key == stop_key and opened:
            pairs.append((opened, event))
            opened = None
    return pairs


def _overlap(start: float, stop: float, evaluations: Sequence[tuple[Event, Event]]) -> float:
    return sum(
        max(0.0, min(stop, last.time_s) - max(start, first.time_s)) for first, last in evaluations
    )


def _epochs(run: Sequence[Event]) -> list[_Timed]:
    return [
        (start.time_s, stop.time_s, 1, 0)
        for start, stop in _intervals(run, "epoch_start", "epoch_stop")
    ]


def _blocks(run: Sequence[Event]) -> list[_Timed]:
    return [
        (
            start.time_s,
            stop.time_s,
            _number(start.metadata.get("epoch_count")) or 0,
            (_number(stop.metadata.get("samples_count")) or 0)
            - (_number(start.metadata.get("samples_count")) or 0),
        )
        for start, stop in _intervals(run, "block_start", "block_stop")
    ]


def _between_evaluations(run: Sequence[Event]) -> list[_Timed]:
    """First round: each evaluation tells its epoch. Some told their other epochs only when all was
    over.
    """
    evaluations = _intervals(run, "eval_start", "eval_stop")
    told = [event.value for event in run if event.key == "eval_accuracy"]
    epochs = [_number(value.get("epoch")) if isinstance(value, dict) else None for value in told]
    if len(epochs) != len(evaluations):
        return []
    return [
        (before[1].time_s, after[0].time_s, last - first, 0)
        for (before, after), (first, last) in zip(
            pairwise(evaluations), pairwise(epochs), strict=True
        )
        if first is not None and last is not None
    ]


def _marked_epochs(run: Sequence[Event]) -> list[_Timed]:
    """First round: `train_epoch` where one begins; it ends with the next, with an evaluation or
    with the run.

    Marks behind the last evaluation time nothing: some told all their epochs there, at once.
    """
    marks = [
        event
        for event in run
        if event.key in ("train_epoch", "eval_start", "eval_stop", "run_stop")
    ]
    evaluated = max((mark.time_s for mark in marks if mark.key == "eval_start"), default=math.inf)
    return [
        (mark.time_s, after.time_s, 1, 0)
        for mark, after in pairwise(marks)
        if mark.key == "train_epoch" and mark.time_s < evaluated
    ]


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
