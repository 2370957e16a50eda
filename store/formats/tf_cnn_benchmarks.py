"""Reads logs of tf_cnn_benchmarks, 2017 to 2020, and our trainer's `log.txt` as references."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from scalemark.records.references import Origin, Reference, Rejected
from store.formats.log_lines import numbered

_FIELD = re.compile(
    r"(?:^|[\]|>:\d-])\s*(TensorFlow|Model|Dataset|Mode|SingleSess|Batch size|Num batches|Devices"
    r"|Data format|Optimizer|Variables|AllReduce|Use NCCL|Sync|Staged vars):\s+(\S.*)$"
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
    """One run, as one process logged it."""

    line: int  # its first
    header: dict[str, str] = field(default_factory=dict)
    contradiction: str = ""
    last_step: str = ""
    totals: list[tuple[int, str]] = field(default_factory=list)  # line, figure

    def add(self, line: int, name: str, value: str) -> None:
        before = self.header.setdefault(name, value)
        if before != value and not self.contradiction:
            self.contradiction = f"{name}: {before!r}, and in line {line} {value!r}"

    @property
    def is_shared(self) -> bool:
        """Return whether several processes make the run together, and each may log it."""
        is_horovod = self.header.get("Variables") == "horovod"
        return is_horovod or "/job:" in self.header.get("Devices", "")

    def agrees_with(self, other: _Run) -> bool:
        return all(other.header.get(name, value) == value for name, value in self.header.items())

    @property
    def identity(self) -> dict[str, str]:
        """Return the part of the header that is the same in all processes of a run."""
        return {name: _TASK.sub("task", value) for name, value in self.header.items()}


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
    """Return the total of each run, and what was left out with its reason. Never raises.

    `model`, `num_gpus` and `batch_size` (per GPU) are for logs without a header, as our `log.txt`.
    `?` marks defaults of the program: no version prints precision or parameter device. Several
    processes of one run (Horovod, workers) are one figure: each prints the total of all.
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
    """Values that the caller knows."""

    model: str
    num_gpus: int | None
    batch_size: int | None


def _runs(lines: Iterable[str]) -> list[_Run]:
    """Return the runs by their first lines. Processes that mark their lines with a rank are read
    apart.
    """
    streams: dict[str, list[_Run]] = {}
    for number, line in numbered(lines):
        mark = _RANK.match(line)
        rank = (mark[1] or mark[2]) if mark else ""
        _read(streams.setdefault(rank, []), number, line)
    known: list[list[_Run]] = []  # of each stream
    found = []
    for stream in streams.values():
        runs = _with_repeated_headers_joined(stream)
        for nth, run in enumerate(runs):
            if not _is_known(run, nth, known):
                found.append(run)
        known.append(runs)
    return sorted(found, key=lambda run: run.line)


def _read(runs: list[_Run], number: int, line: str) -> None:
    """Read a line into the last run or a new one."""
    if found := _TOTAL.search(line):
        _last(runs, number).totals.append((number, found[1]))
    elif found := _STEP.search(line):
        _last(runs, number).last_step = f"step {found[1]} (line {number}: images/sec: {found[2]})"
    elif _HEADING.search(line):
        run = _last(runs, number)
        if run.totals and not run.is_shared:
            runs.append(_Run(line=number))
    elif found := _PER_DEVICE.search(line):
        _last(runs, number).add(number, "per device", found[1])
    elif found := _FIELD.search(line):
        name, value = found[1], found[2].strip()
        run = _last(runs, number)
        if name in ("TensorFlow", "Model") and (name in run.header or run.totals or run.last_step):
            runs.append(_Run(line=number))
        runs[-1].add(number, name, value)


def _last(runs: list[_Run], number: int) -> _Run:
    if not runs:
        runs.append(_Run(line=number))
    return runs[-1]


def _with_repeated_headers_joined(runs: Sequence[_Run]) -> list[_Run]:
    """Join headers that ranks of Horovod print through each other, before the first step."""
    joined: list[_Run] = []
    for run in reversed(runs):
        following = joined[-1] if joined else run
        is_header = following.is_shared and not run.last_step and not run.totals
        if following is not run and is_header and run.agrees_with(following):
            following.line = run.line
            following.header = run.header | following.header
        else:
            joined.append(run)
    return joined[::-1]


def _is_known(run: _Run, nth: int, before: Sequence[Sequence[_Run]]) -> bool:
    """Return whether another process of the same run has logged it, as its nth run, too."""
    if not run.is_shared:
        return False
    others = [runs[nth] for runs in before if nth < len(runs)]
    return any(other.totals and other.identity == run.identity for other in others)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizes:
    num_gpus: int
    batch_size: int | None


def _reference(run: _Run, given: _Given, *, source: str, citation: str, hardware: str) -> Reference:
    throughput = _total(run)
    if run.contradiction:
        raise _UnusableError(f"contradictory: {run.contradiction}")
    mode = run.header.get("Mode", "training")
    if not mode.startswith("training"):
        raise _UnusableError(f"Mode: {mode}: wanted training")
    sizes = _sizes(run, given)
    model = _agreed("model", run.header.get("Model"), given.model or None, "--model")
    if not model:
        raise _UnusableError("the log does not say the model: say it with --model")
    variable_update = run.header.get("Variables", "parameter_server?" if run.header else "")
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
        precision="fp32?" if run.header else "",
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
    whole_batch = _whole(run, "Batch size", run.header.get("Batch size", "").split(" ")[0])
    batch_size = _agreed(
        "batch size per device", _whole(run, "per device"), given.batch_size, "--batch-size"
    )
    listed = None
    if "Devices" in run.header:
        listed = run.header["Devices"].count("'") // 2 or None  # [] is not known
    if whole_batch and batch_size and whole_batch % batch_size:
        raise _UnusableError(
            f"contradictory: batch of {whole_batch} over devices with {batch_size} each"
        )
    counted = whole_batch // batch_size if whole_batch and batch_size else listed
    if counted is not None and listed is not None:
        # a process of several lists its own devices only
        is_part = run.is_shared and counted % listed == 0
        if counted != listed and not is_part:
            raise _UnusableError(
                f"contradictory: batch of {whole_batch}, {batch_size} per device, but {listed} "
                "devices"
            )
    num_gpus = _agreed("number of devices", counted, given.num_gpus, "--num-gpus")
    if num_gpus is None:
        raise _UnusableError("the log does not say how many devices: say it with --num-gpus")
    if whole_batch and not batch_size and whole_batch % num_gpus == 0:
        batch_size = whole_batch // num_gpus
    return _Sizes(num_gpus=num_gpus, batch_size=batch_size)


def _whole(run: _Run, name: str, text: str | None = None) -> int | None:
    """Return a count of images in the header, or None. Raises _UnusableError."""
    if name not in run.header:
        return None
    found = _WHOLE.fullmatch(text if text is not None else run.header[name])
    if found is None or int(found[1]) < 1:
        raise _UnusableError(
            f"{name}: {run.header[name]}: wanted a whole number of images, 1 or more"
        )
    return int(found[1])


def _agreed(what: str, logged: _T | None, given: _T | None, option: str) -> _T | None:
    if logged is not None and given is not None and logged != given:
        raise _UnusableError(f"contradictory: {what} {logged} in the log, {given} by {option}")
    return given if logged is None else logged


def _data(run: _Run) -> str:
    if "Dataset" not in run.header:
        # versions before 2018 do not print it; without --data_dir it is synthetic
        return "synthetic?" if run.header else ""
    return "synthetic" if "(synthetic)" in run.header["Dataset"] else "real"


def _all_reduce(run: _Run, variable_update: str) -> str:
    if "AllReduce" in run.header:
        return "none" if run.header["AllReduce"] == "None" else run.header["AllReduce"]
    if "Use NCCL" in run.header:
        return "nccl" if run.header["Use NCCL"] == "True" else "none"
    if variable_update in _REDUCING:
        # --use_nccl was on by default until all_reduce_spec, which is printed, replaced it
        return "nccl?"
    return "none" if run.header and variable_update != "horovod" else ""


def _local_parameter_device(run: _Run, variable_update: str) -> str:
    if not run.header or variable_update in _NO_SHARED_VARIABLES:
        return ""
    return "cpu?" if "/cpu:" in run.header.get("Devices", "") else "gpu?"


def _note(run: _Run) -> str:
    dataset = run.header.get("Dataset", "").removesuffix(" (synthetic)")
    notes = [
        f"TensorFlow {run.header['TensorFlow']}" if "TensorFlow" in run.header else "",
        f"optimizer {run.header['Optimizer']}" if "Optimizer" in run.header else "",
        run.header.get("Data format", ""),
        f"{run.header['Num batches']} batches" if "Num batches" in run.header else "",
        dataset if dataset not in ("", "imagenet", "ImageNet") else "",
        "staged variables" if run.header.get("Staged vars") == "True" else "",
        "asynchronous" if run.header.get("Sync") == "False" else "",
        "on CPUs" if "/cpu:" in run.header.get("Devices", "") else "",
    ]
    return "; ".join(note for note in notes if note)
