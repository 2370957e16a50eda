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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO

import typer
from rich.console import Console

from conf.schema import HardwareConfig
from scalemark.abilities import PRECISIONS
from scalemark.cli import entry_point
from scalemark.cli.terminal import Progress, make_console, print_columns, print_json, shown
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
_TRY_AGAIN_S = 1.0
_INCOMPLETE = 1
STALL_S = 300.0  # without another figure: a library hangs, as NCCL may
COMPILING_S = 1800.0  # where a driver may have to compile kernels first
_READ_BYTES = 2**16
_MOST_CHARACTERS = 300
COMMAND = own_code.module_command("trainer.probing")
_UNKNOWN = "-"


def probe(as_json: Json = False) -> None:
    """Measure what the devices of this machine and the links between them can do: matrix products,
    copies, all-reduces. The newest is kept for explanations.
    """
    try:
        config = HardwareConfig(device_kind="auto")
        machine = describe_machine(config)
        inventory = take_inventory(machine, config)
        num_devices = inventory.most_gpus_per_trial
        if inventory.kind is DeviceKind.CPU_DEVICE:
            num_devices = NUM_CPU_DEVICES
        _measure_and_keep(machine, inventory, num_devices, as_json=as_json)
    except SweepRefusedError as error:
        raise StoreError(str(error)) from error
    except KeyboardInterrupt:
        raise typer.Exit(entry_point.INTERRUPTED) from None


def _measure_and_keep(
    machine: Machine, inventory: Inventory, num_devices: int, *, as_json: bool
) -> None:
    """Measure, keep and print. What is incomplete is printed, and not kept."""
    gpus = inventory.gpus[:num_devices]
    precisions = []
    capability = inventory.compute_capability
    for name, abilities in PRECISIONS.items():
        lacks = abilities.gpu_only if capability is None else abilities.lack_of(capability)
        if not lacks:
            precisions.append(name)
    request = ProbeRequest(
        device_kind=str(inventory.kind), num_devices=num_devices, precisions=tuple(precisions)
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
        print_json(probe)
    else:
        print_probe(probe)


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
        try:
            value = json.loads(line)
        except ValueError:
            continue  # libraries print it
        if not isinstance(value, dict):
            continue
        if "total" in value:
            total = int(value["total"])
        elif "doubt" in value:
            measured.doubts.append(str(value["doubt"]))
        elif "what" in value:
            measured.figures.append(validation.build(Figure, value))
        progress("probing", len(measured.figures), total)
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


def _cause(log: IO[bytes], exit_code: int) -> str:
    """Return the last line, as of an exception; of a process ended by a signal its last error."""
    log.seek(0)
    text = log.read().decode(errors="replace")
    cause = last_error_in(text) if exit_code < 0 else ""
    last_line = (text.strip() or "it said nothing").splitlines()[-1].strip()
    return cause or quoted(last_line, _MOST_CHARACTERS)


def print_probe(probe: Probe) -> None:
    """Print all that people read of a probe."""
    kind = probe.kind
    devices = f"{kind.counted(len(probe.devices))} of {probe.host}"
    if kind is DeviceKind.GPU:
        devices += f" ({' and '.join(dict.fromkeys(probe.devices))})"
    print(devices)
    if kind.note:
        print(kind.note)
    print(f"measured {probe.measured_at[:16].replace('T', ' ')} UTC")
    console = make_console()
    _print_devices(console, probe)
    if any(probe.of(Probed.ALL_REDUCE)):
        _print_all_reduces(console, probe)
    for problem in probe.problems:
        print(f"\nnot measured: {problem}")
    for doubt in probe.doubts:
        print(f"\nmay be too low: {doubt}")


def _print_devices(console: Console, probe: Probe) -> None:
    """Print a row per device: its peaks, its copies from and to the host, and to other devices."""
    texts: dict[tuple[object, ...], str] = {}
    for figure in probe.figures:
        if figure.value is not None:
            text = _giga(figure.value)
            if figure.what == Probed.PEAK:
                text = f"{figure.value / 1e12:.3g}"
            texts[figure.what, figure.precision, figure.source, figure.target] = text
    precisions = dict.fromkeys(figure.precision for figure in probe.of(Probed.PEAK))
    numbers = range(len(probe.devices))
    rows, pairs = [], []
    for number in numbers:
        keys: list[tuple[object, ...]] = [
            (Probed.PEAK, precision, number, None) for precision in precisions
        ]
        keys += [(Probed.TO_DEVICE, "", None, number), (Probed.TO_HOST, "", number, None)]
        name = f"{probe.kind.singular} {number}"
        rows.append([name, *(texts.get(key, _UNKNOWN) for key in keys)])
        to_others = [texts.get((Probed.PAIR, "", number, other), _UNKNOWN) for other in numbers]
        pairs.append([name, *to_others])
    print("\nTFLOP/s of a matrix product; GB/s of copies from and to the host")
    columns = ["", *precisions, "from host", "to host"]
    print_columns(console, columns, rows, right=columns[1:])
    if probe.kind is DeviceKind.CPU_DEVICE:
        print("the peak is of all cores together, which the devices share")
    if any(probe.of(Probed.PAIR)):
        print(f"\nGB/s from each {probe.kind.singular} (row) to each other (column)")
        columns = ["", *map(str, numbers)]
        print_columns(console, columns, pairs, right=columns[1:])


def _print_all_reduces(console: Console, probe: Probe) -> None:
    print(f"\nall-reduce over {probe.kind.counted(len(probe.devices))} by {probe.all_reduce}")
    columns = ["MiB of each", "bus GB/s", "ms"]
    rows = []
    share = 2 * (len(probe.devices) - 1) / len(probe.devices)
    for figure in probe.of(Probed.ALL_REDUCE):
        assert figure.value is not None
        assert figure.num_bytes is not None
        took_ms = 1e3 * share * figure.num_bytes / figure.value
        rows.append([f"{figure.num_bytes / 2**20:g}", _giga(figure.value), f"{took_ms:.3g}"])
    print_columns(console, columns, rows, right=columns)


def _giga(value: float) -> str:
    if value < 1e12:
        return f"{value / 1e9:.3g}"
    return f"{value / 1e9:.0f}"
