"""Logs of tf_cnn_benchmarks, of any version from 2017 to 2020, as references; our own trainer's
`log.txt`, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from scalemark.records.references import Origin, Reference, Rejected
from store.formats.log_lines import numbered

_FIELD = re.compile(
    r"(?:^|[\]|>:\d-])\s*(TensorFlow|Model|Dataset|Mode|SingleSess|Batch size|Num batches|Devices|Data format"
    r"|Optimizer|Variables|AllReduce|Use NCCL|Sync|Staged vars):\s+(\S.*)$"
)
_PER_DEVICE = re.compile(r"(?:^|\s)(\S+) per device\b")
_STEP = re.compile(r"(?:^|[\s|>:\]])(\d+)\s+images/sec:\s*(\S+)")
_HEADING = re.compile(r"\bStep\s+Img/sec\b")
_TOTAL = re.compile(r"\btotal images/sec:\s*(\S+)")
# "[1,3]<stdout>:" of mpirun, "[3]:", "3: " of srun
_RANK = re.compile(r"^\s*(?:\[(?:\d+,)?(\d+)\]|(\d+):\s)")
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d+)?(?:[eE][-+]?\d{1,3})?|-?inf|nan", re.ASCII)
# Python 3 divides 64 images by 1 device to 64.0
_WHOLE = re.compile(r"(\d{1,9})(?:\.0*)?", re.ASCII)
_T = TypeVar("_T", str, int)
_TASK = re.compile(r"task:?\d+")

_NO_SHARED_VARIABLES = ("independent", "horovod")
_REDUCING = ("replicated", "distributed_all_reduce", "collective_all_reduce")


@dataclass(slots=True)
class _Run:
    """What one process told of one run, so far."""

    line: int  # its first
    told: dict[str, str] = field(default_factory=dict)  # header: name -> value
    contradiction: str = ""
    last_step: str = ""
    totals: list[tuple[int, str]] = field(default_factory=list)  # line, figure

    def tell(self, line: int, name: str, value: str) -> None:
        before = self.told.setdefault(name, value)
        if before != value and not self.contradiction:
            self.contradiction = f"{name}: {before!r}, and in line {line} {value!r}"

    @property
    def is_shared(self) -> bool:
        """Several processes make the run together, and each may tell of it."""
        return self.told.get("Variables") == "horovod" or "/job:" in self.told.get("Devices", "")

    def agrees_with(self, other: _Run) -> bool:
        return all(other.told.get(name, value) == value for name, value in self.told.items())

    @property
    def identity(self) -> dict[str, str]:
        """What all processes of one run tell alike."""
        return {name: _TASK.sub("task", value) for name, value in self.told.items()}


class _UnusableError(Exception):
    """The run gives no figure. The text says why."""


def parse(
    lines: Iterable[str],
    *,
    source: str,
    citation: str,
    hardware: str,
    model: str = "",
    num_gpus: int | None = None,
    batch_size: int | None = None,
) -> tuple[list[Reference], list[Rejected]]:
    """The total of each run in a log, and what was left out with its reason. Never raises, whatever
    the text.

    `model`, `num_gpus` and `batch_size` (per GPU) say what a log without its header does not tell,
    as our own `log.txt`. Empty is what the log does not tell; `?` marks what is only the program's
    default: no version prints precision or parameter device. Several processes of one run (Horovod,
    workers) count as one figure: each prints the total of all.
    """
    references: list[Reference] = []
    rejected: list[Rejected] = []
    given = _Given(model=model, num_gpus=num_gpus, batch_size=batch_size)
    runs = _runs(lines)
    for run in runs:
        try:
            references.append(
                _reference(run, given, source=source, citation=citation, hardware=hardware)
            )
        except (_UnusableError, ValueError) as error:
            rejected.append(Rejected(where=f"{source} line {run.line}", reason=str(error)))
    if not runs:
        reason = (
            "no run of tf_cnn_benchmarks in it: wanted its header, its steps and the line "
            "'total images/sec: ...'"
        )
        rejected.append(Rejected(where=source, reason=reason))
    return references, rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """What the caller knows of the runs."""

    model: str
    num_gpus: int | None
    batch_size: int | None


def _runs(lines: Iterable[str]) -> list[_Run]:
    """In the order of their first lines. Processes that mark their lines with a rank are read
    apart.
    """
    streams: dict[str, list[_Run]] = {}
    for number, line in numbered(lines):
        rank = _RANK.match(line)
        _read(streams.setdefault((rank[1] or rank[2]) if rank else "", []), number, line)
    whole = [_with_repeated_headers_joined(runs) for runs in streams.values()]
    told = [
        run
        for rank, runs in enumerate(whole)
        for nth, run in enumerate(runs)
        if not _was_told(run, nth, whole[:rank])
    ]
    return sorted(told, key=lambda run: run.line)


def _read(runs: list[_Run], number: int, line: str) -> None:
    """One line, into the last run or a new one."""
    if found := _TOTAL.search(line):
        _last(runs, number).totals.append((number, found[1]))
    elif found := _STEP.search(line):
        _last(runs, number).last_step = f"step {found[1]} (line {number}: images/sec: {found[2]})"
    elif _HEADING.search(line):
        run = _last(runs, number)
        if run.totals and not run.is_shared:
            runs.append(_Run(line=number))
    elif found := _PER_DEVICE.search(line):
        _last(runs, number).tell(number, "per device", found[1])
    elif found := _FIELD.search(line):
        name, value = found[1], found[2].strip()
        run = _last(runs, number)
        if name in ("TensorFlow", "Model") and (name in run.told or run.totals or run.last_step):
            runs.append(_Run(line=number))
        runs[-1].tell(number, name, value)


def _last(runs: list[_Run], number: int) -> _Run:
    if not runs:
        runs.append(_Run(line=number))
    return runs[-1]


def _with_repeated_headers_joined(runs: Sequence[_Run]) -> list[_Run]:
    """Ranks of Horovod that do not mark their lines print their headers through each other, before
    the first step.
    """
    joined: list[_Run] = []
    for run in reversed(runs):
        following = joined[-1] if joined else None
        if (
            following
            and following.is_shared
            and not run.last_step
            and not run.totals
            and run.agrees_with(following)
        ):
            following.line, following.told = run.line, run.told | following.told
        else:
            joined.append(run)
    return joined[::-1]


def _was_told(run: _Run, nth: int, before: Sequence[Sequence[_Run]]) -> bool:
    """By another of the processes that make it together: it is their nth run, too."""
    told = [runs[nth] for runs in before if nth < len(runs)]
    return run.is_shared and any(other.totals and other.identity == run.identity for other in told)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizes:
    num_gpus: int
    batch_size: int | None


def _reference(run: _Run, given: _Given, *, source: str, citation: str, hardware: str) -> Reference:
    """Raises _UnusableError."""
    throughput = _total(run)
    if run.contradiction:
        raise _UnusableError(f"contradictory: {run.contradiction}")
    if not (mode := run.told.get("Mode", "training")).startswith("training"):
        raise _UnusableError(f"Mode: {mode}: wanted training")
    sizes = _sizes(run, given)
    if not (model := _agreed("model", run.told.get("Model"), given.model or None, "--model")):
        raise _UnusableError("the log does not tell the model: say it with --model")
    variable_update = run.told.get("Variables", "parameter_server?" if run.told else "")
    return Reference(
        origin=Origin.TF_CNN_BENCHMARKS,
        source=source,
        citation=citation,
        hardware=hardware,
        model=model,
        batch_size=sizes.batch_size,
        data=_data(run),
        variable_update=variable_update,
        all_reduce=_all_reduce(run, variable_update),
        local_parameter_device=_local_parameter_device(run, variable_update),
        precision="fp32?" if run.told else "",
        num_gpus=sizes.num_gpus,
        throughput=throughput,
        evidence="log",
        note=_note(run),
    )


def _total(run: _Run) -> float:
    if not run.totals:
        last = run.last_step or "its header"
        raise _UnusableError(f"interrupted: no line 'total images/sec' after {last}")
    line, text = run.totals[0]
    figure = float(text) if _NUMBER.fullmatch(text) else None
    if figure is None or not 0 < figure < float("inf"):
        raise _UnusableError(
            f"line {line}: total images/sec: {text}: wanted a finite number greater than 0"
        )
    if len(run.totals) > 1 and not run.is_shared:
        raise _UnusableError(
            f"contradictory: a second total in line {run.totals[1][0]}, {run.totals[1][1]}, "
            "without a run of its own"
        )
    return figure


def _sizes(run: _Run, given: _Given) -> _Sizes:
    whole_batch = _whole(run, "Batch size", run.told.get("Batch size", "").split(" ")[0])
    batch_size = _agreed(
        "batch size per device", _whole(run, "per device"), given.batch_size, "--batch-size"
    )
    listed = run.told["Devices"].count("'") // 2 if "Devices" in run.told else None
    if whole_batch and batch_size and whole_batch % batch_size:
        raise _UnusableError(
            f"contradictory: batch of {whole_batch} over devices with {batch_size} each"
        )
    counted = whole_batch // batch_size if whole_batch and batch_size else listed
    if (
        counted is not None
        and listed is not None
        and counted != listed
        and (counted % max(listed, 1) or not run.is_shared)
    ):
        raise _UnusableError(
            f"contradictory: batch of {whole_batch}, {batch_size} per device, but {listed} devices"
        )
    num_gpus = _agreed("number of devices", counted, given.num_gpus, "--num-gpus")
    if num_gpus is None:
        raise _UnusableError("the log does not tell how many devices: say it with --num-gpus")
    if whole_batch and not batch_size and whole_batch % num_gpus == 0:
        batch_size = whole_batch // num_gpus
    return _Sizes(num_gpus=num_gpus, batch_size=batch_size)


def _whole(run: _Run, name: str, text: str | None = None) -> int | None:
    """A count of images that the header tells; none where it does not. Raises _UnusableError where
    it is no such count.
    """
    if name not in run.told:
        return None
    found = _WHOLE.fullmatch(text if text is not None else run.told[name])
    if found is None or int(found[1]) < 1:
        raise _UnusableError(
            f"{name}: {run.told[name]}: wanted a whole number of images, 1 or more"
        )
    return int(found[1])


def _agreed(what: str, told: _T | None, given: _T | None, option: str) -> _T | None:
    if told is not None and given is not None and told != given:
        raise _UnusableError(f"contradictory: {what} {told} in the log, {given} by {option}")
    return told if told is not None else given


def _data(run: _Run) -> str:
    if "Dataset" not in run.told:
        # versions before 2018 do not tell; without --data_dir it is synthetic
        return "synthetic?" if run.told else ""
    return "synthetic" if "(synthetic)" in run.told["Dataset"] else "real"


def _all_reduce(run: _Run, variable_update: str) -> str:
    if "AllReduce" in run.told:
        return "none" if run.told["AllReduce"] == "None" else run.told["AllReduce"]
    if "Use NCCL" in run.told:
        return "nccl" if run.told["Use NCCL"] == "True" else "none"
    if variable_update in _REDUCING:
        # --use_nccl was on by default until all_reduce_spec, which is printed, replaced it
        return "nccl?"
    return "none" if run.told and variable_update != "horovod" else ""


def _local_parameter_device(run: _Run, variable_update: str) -> str:
    if not run.told or variable_update in _NO_SHARED_VARIABLES:
        return ""
    return "cpu?" if "/cpu:" in run.told.get("Devices", "") else "gpu?"


def _note(run: _Run) -> str:
    dataset = run.told.get("Dataset", "").removesuffix(" (synthetic)")
    told = [
        f"TensorFlow {run.told['TensorFlow']}" if "TensorFlow" in run.told else "",
        f"optimizer {run.told['Optimizer']}" if "Optimizer" in run.told else "",
        run.told.get("Data format", ""),
        f"{run.told['Num batches']} batches" if "Num batches" in run.told else "",
        dataset if dataset not in ("", "imagenet", "ImageNet") else "",
        "staged variables" if run.told.get("Staged vars") == "True" else "",
        "asynchronous" if run.told.get("Sync") == "False" else "",
        "on CPUs" if "/cpu:" in run.told.get("Devices", "") else "",
    ]
    return "; ".join(filter(None, told))
