"""`scalemark probe`: measures how fast the devices of this machine multiply matrices; the
utilization (MFU) of a user's program is a share of these peaks.

A process for each precision measures, and prints a line of JSON; this one keeps and prints what
they say.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

import typer

from conf.schema import HardwareConfig
from scalemark.abilities import PRECISIONS
from scalemark.cli import entry_point
from scalemark.cli.terminal import make_console, print_columns, print_json
from scalemark.host import files, gpu_libraries, own_code
from scalemark.records import switches, validation
from scalemark.records.machine import DeviceKind, Machine, Probe, ProbedPeak, ProbeRequest
from scalemark.run_folder import last_error_in
from scalemark.text.untrusted import quoted
from store.command_line import Json
from store.errors import StoreError
from sweeper import SweepRefusedError
from sweeper.devices.host_lock import Held, HostLock, Lock
from sweeper.devices.machine import Inventory, describe_machine, take_inventory
from sweeper.devices.nvml import GpuUsers, said_in_use
from sweeper.starts import environment

_TRY_AGAIN_S = 1.0
_STALL_S = 300.0  # of one precision: a library hangs
_COMPILING_S = 1800.0  # where the driver compiles kernels first
_MOST_CHARACTERS = 300
COMMAND = own_code.module_command("trainer.probing")
_UNKNOWN = "-"


def probe(as_json: Json = False) -> None:
    """Measure how fast the devices of this machine multiply matrices. The newest is kept, for the
    utilization of your programs.
    """
    try:
        config = HardwareConfig(device_kind="auto")
        machine = describe_machine(config)
        measured = _measured(machine, take_inventory(machine, config))
    except SweepRefusedError as error:
        raise StoreError(str(error)) from error
    except KeyboardInterrupt:
        raise typer.Exit(entry_point.INTERRUPTED) from None
    # first kept, then printed: who reads it may have closed the pipe, as `head -1` does
    print(f"kept in {files.write_probe(measured)}", file=sys.stderr)
    if as_json:
        print_json(measured)
    else:
        print_probe(measured)


def _measured(machine: Machine, inventory: Inventory) -> Probe:
    """Measure while no trial runs on this host. Raises SweepRefusedError."""
    names: tuple[str, ...] = ("CPU device",)  # it has all cores
    gpus = inventory.gpus[: inventory.most_gpus_per_trial]
    if gpus:
        names = tuple(gpu.name for gpu in gpus)
    precisions = []
    capability = inventory.compute_capability
    for name, abilities in PRECISIONS.items():
        lacks = abilities.gpu_only if capability is None else abilities.lack_of(capability)
        if not lacks:
            precisions.append(name)
    problem = own_code.lack_of_tensorflow() or gpu_libraries.problem(gpus, inventory.libraries)
    for precision in precisions if gpus else ():
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
    within_s = _STALL_S
    if capability is not None and capability >= gpu_libraries.COMPILED_FROM:
        within_s = _COMPILING_S
    variables = environment(os.environ, ",".join(gpu.uuid for gpu in gpus))
    variables |= switches.kernel_cache(variables)
    peaks: list[ProbedPeak] = []
    doubts: list[str] = []
    with _taken(HostLock(), time.sleep):
        in_use = GpuUsers(inventory.gpu_uuids).look()
        if in_use:
            doubts.append(said_in_use(in_use))
        for precision in precisions:
            request = ProbeRequest(
                device_kind=str(inventory.kind), num_devices=len(names), precisions=(precision,)
            )
            found, said = measure(request, variables, within_s=within_s)
            peaks += found
            doubts += [f"{precision}: {doubt}" for doubt in said]
    return Probe(
        machine=machine.key,
        host=machine.host,
        device_kind=str(inventory.kind),
        devices=names,
        measured_at=validation.utc_text(datetime.now(UTC)),
        peaks=tuple(peaks),
        doubts=tuple(doubts),
    )


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


def measure(
    request: ProbeRequest,
    variables: dict[str, str],
    command: tuple[str, ...] = COMMAND,
    within_s: float = _STALL_S,
) -> tuple[list[ProbedPeak], list[str]]:
    """Return the peaks and why they may be too low; whatever ends this call ends the process, too.
    Raises SweepRefusedError.
    """
    precisions = ", ".join(request.precisions)
    devices = DeviceKind(request.device_kind).counted(request.num_devices)
    print(f"measuring {precisions} on {devices}", file=sys.stderr)
    try:
        ran = subprocess.run(
            [*command, request.to_json()],
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=within_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SweepRefusedError(
            f"{precisions}: nothing was measured within {within_s:.0f} s"
        ) from None
    if ran.returncode or not ran.stdout.strip():
        # of a process that a library ends the last line is of a stack
        cause = last_error_in(ran.stderr) if ran.returncode < 0 else ""
        last_line = (ran.stderr.strip() or "it said nothing").splitlines()[-1].strip()
        raise SweepRefusedError(
            f"{precisions}: nothing was measured: its process ended with {ran.returncode}: "
            f"{cause or quoted(last_line, _MOST_CHARACTERS)}"
        )
    answer = json.loads(ran.stdout.splitlines()[-1])  # before it libraries may have printed
    return [validation.build(ProbedPeak, peak) for peak in answer["peaks"]], answer["doubts"]


def print_probe(probe: Probe) -> None:
    """Print all that people read of a probe, a row per device."""
    kind = DeviceKind(probe.device_kind)
    devices = f"{kind.counted(len(probe.devices))} of {probe.host}"
    if kind is DeviceKind.GPU:
        devices += f" ({' and '.join(dict.fromkeys(probe.devices))})"
    print(devices)
    if kind.note:
        print(kind.note)
    print(f"measured {probe.measured_at[:16].replace('T', ' ')} UTC")
    print("\nTFLOP/s of a matrix product")
    texts = {}
    for peak in probe.peaks:
        text = _UNKNOWN if peak.value is None else f"{peak.value / 1e12:.3g}"
        texts[peak.device, peak.precision] = text
    columns = ["", *dict.fromkeys(peak.precision for peak in probe.peaks)]
    rows = []
    for number in range(len(probe.devices)):
        cells = [texts.get((number, precision), _UNKNOWN) for precision in columns[1:]]
        rows.append([f"{kind.singular} {number}", *cells])
    print_columns(make_console(), columns, rows, right=columns[1:])
    if kind is DeviceKind.CPU_DEVICE:
        print("the peak is of all cores together, which CPU devices share")
    for problem in dict.fromkeys(peak.problem for peak in probe.peaks if peak.problem):
        print(f"\nnot measured: {problem}")
    for doubt in probe.doubts:
        print(f"\nmay be too low: {doubt}")
