"""`scalemark probe`: measures what this machine can do, before a sweep.

A process of its own measures and prints a line of JSON per figure; this one reads them, ends it
where it hangs, and keeps and prints what is whole.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO, Annotated, Any

import typer

from conf.schema import HardwareConfig
from scalemark.abilities import PRECISIONS
from scalemark.cli import entry_point
from scalemark.cli.terminal import Progress, print_json, shown
from scalemark.host import files, gpu_libraries, own_code, processes
from scalemark.records import switches, validation
from scalemark.records.machine import DeviceKind, Figure, Gpu, Machine, Probe, Probed, ProbeRequest
from scalemark.run_folder import last_error_in
from scalemark.text.untrusted import quoted
from store.command_line import Json
from store.errors import StoreError
from sweeper import SweepRefusedError
from sweeper.devices.host_lock import Held, HostLock, Lock
from sweeper.devices.machine import Inventory, describe_machine, take_inventory
from sweeper.devices.nvml import GpuUsers, said_in_use
from sweeper.starts import environment

NUM_CPU_DEVICES = 2
MOST_CPU_DEVICES = 16
_KINDS = {"auto": "auto", "gpu": str(DeviceKind.GPU), "cpu": str(DeviceKind.CPU_DEVICE)}
_TRY_AGAIN_S = 1.0
_INCOMPLETE = 1
STALL_S = 300.0  # without another figure: a library hangs, as NCCL may
COMPILING_S = 1800.0  # where a driver may have to compile kernels first
_READ_BYTES = 2**16
_MOST_CHARACTERS = 300
COMMAND = own_code.module_command("trainer.probing")
_MIB = 2**20
_UNKNOWN = "-"


def probe(
    devices: Annotated[
        int | None,
        typer.Option(help=f"How many: all GPUs by default, or {NUM_CPU_DEVICES} CPU devices."),
    ] = None,
    hardware: Annotated[str, typer.Option(help="auto, gpu or cpu, as of a sweep.")] = "auto",
    show: Annotated[
        bool, typer.Option("--show", help="Measure nothing: show the newest that is kept.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Measure what the devices of this machine and the links between them can do: matrix products,
    memory, copies, all-reduces. The newest is kept for explanations.
    """
    try:
        if hardware not in _KINDS:
            raise SweepRefusedError(f"--hardware {hardware}: wanted {', '.join(_KINDS)}")
        config = HardwareConfig(device_kind=_KINDS[hardware])
        machine = describe_machine(config)
        inventory = take_inventory(machine, config)
        num_devices = _num_devices(devices, inventory)
        if not show:
            return _measure_and_keep(machine, inventory, num_devices, as_json=as_json)
        if devices is not None:
            raise SweepRefusedError("--show measures nothing; leave --devices out")
        kept = files.read_probe(machine.key, str(inventory.kind))
        if kept is None:
            raise SweepRefusedError(
                f"--show: no probe of {machine.host} and its {inventory.kind.plural} is kept; "
                "leave --show out to measure"
            )
        return _print(kept, as_json=as_json)
    except SweepRefusedError as error:
        raise StoreError(str(error)) from error
    except KeyboardInterrupt:
        raise typer.Exit(entry_point.INTERRUPTED) from None


def _num_devices(wanted: int | None, inventory: Inventory) -> int:
    usual = most = inventory.most_gpus_per_trial
    if inventory.kind is DeviceKind.CPU_DEVICE:
        usual, most = NUM_CPU_DEVICES, MOST_CPU_DEVICES
    if wanted is None:
        return usual
    if not 1 <= wanted <= most:
        counted = inventory.kind.counted(most)
        raise SweepRefusedError(f"--devices {wanted}: wanted 1 to {most}, for there are {counted}")
    return wanted


def _precisions(inventory: Inventory) -> tuple[str, ...]:
    """Return those that these devices have."""
    capability = inventory.compute_capability
    names = []
    for name, abilities in PRECISIONS.items():
        lack = abilities.gpu_only
        if capability is not None:
            lack = abilities.lack_of(capability)
        if not lack:
            names.append(name)
    return tuple(names)


def _measure_and_keep(
    machine: Machine, inventory: Inventory, num_devices: int, *, as_json: bool
) -> None:
    """Measure, keep and print. What is incomplete is printed, and not kept."""
    gpus = inventory.gpus[:num_devices]
    request = ProbeRequest(
        device_kind=str(inventory.kind), num_devices=num_devices, precisions=_precisions(inventory)
    )
    problem = own_code.lack_of_tensorflow() or gpu_libraries.problem(gpus, inventory.libraries)
    for precision in request.precisions if gpus else ():
        problem = problem or next(switches.overrides_of_precision(precision, os.environ), "")
    if problem:
        raise SweepRefusedError(problem)
    try:
        files.prepare_probes()
    except (OSError, RuntimeError) as error:
        raise SweepRefusedError(
            f"the probe could not be kept: {error}; choose a folder that can be written to with "
            "SCALEMARK_CACHE="
        ) from error
    measured = Measured()
    with suppress(KeyboardInterrupt), _taken(HostLock(), time.sleep):
        in_use = GpuUsers(inventory.gpu_uuids).look()
        if in_use:
            measured.doubts.append(said_in_use(in_use))
        variables = environment(os.environ, ",".join(gpu.uuid for gpu in gpus))
        # NCCL's buffers need room beside TensorFlow's memory
        variables |= switches.kernel_cache(variables) | {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}
        with shown() as progress:
            measure(request, variables, measured, progress, stall_s=patience_s(gpus))
    is_interrupted = measured.problem == "interrupted"
    if not measured.figures:
        if is_interrupted:
            raise KeyboardInterrupt
        raise SweepRefusedError(f"nothing was measured: {measured.problem}")
    probe = _probe(machine, inventory, gpus, request, measured)
    if measured.problem:
        _print(probe, as_json=as_json)
        print(f"incomplete, and not kept: {measured.problem}", file=sys.stderr)
        if is_interrupted:
            raise typer.Exit(entry_point.INTERRUPTED)
        raise typer.Exit(_INCOMPLETE)
    # first kept, then printed: who reads it may have closed the pipe, as `head -1` does
    print(f"kept in {files.write_probe(probe)}", file=sys.stderr)
    _print(probe, as_json=as_json)


def _taken(lock: Lock, sleep: Callable[[float], object]) -> Held:
    """Wait for the host, so that no trial is disturbed, nor we."""
    said = ""
    while True:
        held = lock.try_hold(shares_host=False)
        if held is not None:
            return held
        if lock.held_by != said:
            said = lock.held_by
            print(f"waiting: {said}", file=sys.stderr)
        sleep(_TRY_AGAIN_S)


def _probe(
    machine: Machine,
    inventory: Inventory,
    gpus: tuple[Gpu, ...],
    request: ProbeRequest,
    measured: "Measured",
) -> Probe:
    names, all_reduce = tuple(gpu.name for gpu in gpus), "nccl"
    if inventory.kind is DeviceKind.CPU_DEVICE:
        names, all_reduce = (inventory.kind.singular,) * request.num_devices, "ring"
    return Probe(
        machine=machine.key,
        host=machine.host,
        device_kind=str(inventory.kind),
        devices=names,
        uuids=tuple(gpu.uuid for gpu in gpus),
        measured_at=validation.utc_text(datetime.now(UTC)),
        all_reduce=all_reduce,
        figures=tuple(measured.figures),
        doubts=tuple(measured.doubts),
    )


def _print(probe: Probe, *, as_json: bool) -> None:
    if as_json:
        return print_json(probe)
    for line in lines_of(probe):
        print(line)


@dataclass(slots=True, kw_only=True)
class Measured:
    """The figures measured so far; filled while the process runs."""

    figures: list[Figure] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    problem: str = "interrupted"  # why the process ended early; empty where it did not


def patience_s(gpus: Iterable[Gpu]) -> float:
    """Return how long a figure of these GPUs may take; of none, as of CPU devices, too."""
    for gpu in gpus:
        if gpu_libraries.version(gpu.compute_capability) >= gpu_libraries.COMPILED_FROM:
            return COMPILING_S
    return STALL_S


def measure(
    request: ProbeRequest,
    environment: Mapping[str, str],
    measured: Measured,
    progress: Progress,
    command: tuple[str, ...] = COMMAND,
    stall_s: float = STALL_S,
) -> None:
    """Fill `measured`; whatever ends this call ends the process, too."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*command, request.to_json()],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            with process.stdout as output:
                is_stalled = not _read(output.fileno(), measured, progress, stall_s)
            if not is_stalled:
                process.wait()
            exit_code = process.poll()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if is_stalled:
            measured.problem = f"no figure for {stall_s:.0f} s: ended"
        elif exit_code:
            measured.problem = f"its process ended with {exit_code}: {_cause(log, exit_code)}"
        else:
            measured.problem = ""


def _read(descriptor: int, measured: Measured, progress: Progress, stall_s: float) -> bool:
    """Return whether the process closed its output; False where it was silent for too long."""
    total = 0
    for line in _lines(descriptor, stall_s):
        if line is None:
            return False
        value = _json(line)
        if "total" in value:
            total = int(value["total"])
        elif "doubt" in value:
            measured.doubts.append(str(value["doubt"]))
        elif "what" in value:
            measured.figures.append(validation.build(Figure, value))
        name = str(Probed.PEAK)
        if measured.figures:
            name = measured.figures[-1].what
        progress(f"probing: {Probed(name).about}", len(measured.figures), total)
    return True


def _lines(descriptor: int, stall_s: float) -> Iterator[bytes | None]:
    """Yield each line; None, and no more, where none comes for so long."""
    rest = b""
    while processes.wait_readable([descriptor], stall_s):
        read = os.read(descriptor, _READ_BYTES)
        if not read:
            return
        *lines, rest = (rest + read).split(b"\n")
        yield from lines
    yield None


def _json(line: bytes) -> dict[str, Any]:
    """Return an empty dict for what libraries print."""
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    if isinstance(value, dict):
        return value
    return {}


def _cause(log: IO[bytes], exit_code: int) -> str:
    """Return the last line, as of an exception; of a process ended by a signal its last error."""
    log.seek(0)
    text = log.read().decode(errors="replace")
    cause = last_error_in(text)
    if exit_code < 0 and cause:
        return cause
    if not text.strip():
        return "it said nothing"
    return quoted(text.strip().splitlines()[-1].strip(), _MOST_CHARACTERS)


def lines_of(probe: Probe) -> Iterator[str]:
    """Yield all that people read of a probe."""
    kind = probe.kind
    devices = f"{kind.counted(len(probe.devices))} of {probe.host}"
    if kind is DeviceKind.GPU:
        devices += f" ({' and '.join(dict.fromkeys(probe.devices))})"
    yield devices
    if kind.note:
        yield kind.note
    yield f"measured {probe.measured_at[:16].replace('T', ' ')} UTC"
    yield from _device_lines(probe)
    if any(probe.of(Probed.PAIR)):
        yield from _matrix_lines(probe)
    if any(probe.of(Probed.ALL_REDUCE)):
        yield from _all_reduce_lines(probe)
    for problem in probe.problems:
        yield f"\nnot measured: {problem}"
    for doubt in probe.doubts:
        yield f"\nmay be too low: {doubt}"


def _device_lines(probe: Probe) -> Iterator[str]:
    precisions = list(dict.fromkeys(each.precision for each in probe.figures if each.precision))
    yield "\nTFLOP/s of a matrix product; GB/s of memory, and of copies from and to the host"
    rows = [["", *precisions, "memory", "from host", "to host"]]
    owners: list[int | None] = [*range(len(probe.devices)), None]
    for owner in owners:
        name = "host"
        if owner is not None:
            name = f"{probe.kind.singular} {owner}"
        cells = [_peak(probe, owner, precision) for precision in precisions]
        cells.append(_rate(probe, Probed.MEMORY, owner, None))
        if owner is None:
            cells += [_UNKNOWN, _UNKNOWN]
        else:
            cells.append(_rate(probe, Probed.TO_DEVICE, None, owner))
            cells.append(_rate(probe, Probed.TO_HOST, owner, None))
        if {*cells} != {_UNKNOWN}:
            rows.append([name, *cells])
    yield from _aligned(rows)
    if probe.kind is DeviceKind.CPU_DEVICE:
        yield "the peak is of all cores together, which the devices share"
        for figure in probe.of(Probed.MEMORY):
            yield f"memory and copies: tensors of {_size(figure.num_bytes or 0)}"


def _matrix_lines(probe: Probe) -> Iterator[str]:
    yield f"\nGB/s from each {probe.kind.singular} (row) to each other (column)"
    if probe.kind is DeviceKind.CPU_DEVICE:
        yield "they share the host's memory: a copy within it"
    numbers = range(len(probe.devices))
    rows = [["", *map(str, numbers)]]
    for source in numbers:
        rates = [_rate(probe, Probed.PAIR, source, target) for target in numbers]
        rows.append([str(source), *rates])
    yield from _aligned(rows)


def _all_reduce_lines(probe: Probe) -> Iterator[str]:
    yield f"\nall-reduce over {probe.kind.counted(len(probe.devices))} by {probe.all_reduce}"
    rows = [["bytes of each", "bus GB/s", "ms"]]
    share = 2 * (len(probe.devices) - 1) / len(probe.devices)
    for figure in probe.of(Probed.ALL_REDUCE):
        assert figure.value is not None
        assert figure.num_bytes is not None
        took_ms = 1e3 * share * figure.num_bytes / figure.value
        rows.append([_size(figure.num_bytes), _giga(figure), f"{took_ms:.3g}"])
    yield from _aligned(rows)


def _peak(probe: Probe, owner: int | None, precision: str) -> str:
    for figure in probe.of(Probed.PEAK):
        if figure.source == owner and figure.precision == precision and figure.value:
            return f"{figure.value / 1e12:.3g}"
    return _UNKNOWN


def _rate(probe: Probe, what: Probed, source: int | None, target: int | None) -> str:
    for figure in probe.of(what):
        if (figure.source, figure.target) == (source, target):
            return _giga(figure)
    return _UNKNOWN


def _giga(figure: Figure) -> str:
    assert figure.value is not None
    if figure.value < 1e12:
        return f"{figure.value / 1e9:.3g}"
    return f"{figure.value / 1e9:.0f}"


def _size(num_bytes: int) -> str:
    if num_bytes >= _MIB:
        return f"{num_bytes // _MIB} MiB"
    return f"{num_bytes // 1024} KiB"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the rows with the first column to the left, all others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        yield "  ".join([first.ljust(widths[0]), *cells]).rstrip()
