"""`scalemark probe`: measures what this machine can do, before a sweep."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated

import typer

from conf.schema import HardwareConfig, LauncherConfig
from scalemark.abilities import PRECISIONS
from scalemark.cli import entry_point
from scalemark.cli.terminal import print_json, shown
from scalemark.host import gpu_libraries
from scalemark.host.files import prepare_probes, read_probe, write_probe
from scalemark.host.own_code import lack_of_tensorflow
from scalemark.records.machine import DeviceKind, Gpu, Machine, Probe, ProbeRequest
from scalemark.records.switches import kernel_cache, overrides_of_precision
from scalemark.records.validation import utc_text
from store.command_line import Json
from store.errors import StoreError
from sweeper.devices.gpu_users import GpuUsers, said_in_use
from sweeper.devices.host_lock import Held, HostLock, Lock
from sweeper.devices.machine import Inventory, describe_machine, take_inventory
from sweeper.errors import SweepRefusedError
from sweeper.probing.probe_words import lines_of
from sweeper.probing.process import Measured, measure, patience_s
from sweeper.starts.environment import environment

NUM_CPU_DEVICES = 2
MOST_CPU_DEVICES = 16
_KINDS = {"auto": "auto", "gpu": str(DeviceKind.GPU), "cpu": str(DeviceKind.CPU_DEVICE)}
_TRY_AGAIN_S = 1.0
_INCOMPLETE = 1


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
            return _measure(machine, inventory, num_devices, as_json=as_json)
        if devices is not None:
            raise SweepRefusedError("--show measures nothing; leave --devices out")
        kept = read_probe(machine.key, str(inventory.kind))
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
    is_cpu = inventory.kind is DeviceKind.CPU_DEVICE
    most = MOST_CPU_DEVICES if is_cpu else inventory.most_gpus_per_trial
    if wanted is None:
        return NUM_CPU_DEVICES if is_cpu else most
    if not 1 <= wanted <= most:
        counted = inventory.kind.counted(most)
        raise SweepRefusedError(f"--devices {wanted}: wanted 1 to {most}, for there are {counted}")
    return wanted


def _precisions(inventory: Inventory) -> tuple[str, ...]:
    """Return those that these devices have."""
    capability = inventory.compute_capability
    names = []
    for name, abilities in PRECISIONS.items():
        lack = abilities.gpu_only if capability is None else abilities.lack_of(capability)
        if not lack:
            names.append(name)
    return tuple(names)


def _measure(machine: Machine, inventory: Inventory, num_devices: int, *, as_json: bool) -> None:
    """Measure, keep and print. What is incomplete is printed, and not kept."""
    gpus = inventory.gpus[:num_devices]
    request = ProbeRequest(
        device_kind=str(inventory.kind),
        num_devices=num_devices,
        precisions=_precisions(inventory),
    )
    problem = lack_of_tensorflow() or gpu_libraries.problem(gpus, inventory.libraries)
    for precision in request.precisions if gpus else ():
        problem = problem or next(overrides_of_precision(precision, os.environ), "")
    if problem:
        raise SweepRefusedError(problem)
    try:
        prepare_probes()
    except (OSError, RuntimeError) as error:
        raise SweepRefusedError(
            f"the probe could not be kept: {error}; choose a folder that can be written to with "
            "SCALEMARK_CACHE="
        ) from error
    measured = Measured()
    with suppress(KeyboardInterrupt), _taken(HostLock(), time.sleep):
        in_use = GpuUsers(inventory, LauncherConfig().in_use_from_mib).look()
        if in_use:
            measured.doubts.append(said_in_use(in_use))
        variables = environment(os.environ, ",".join(gpu.uuid for gpu in gpus))
        # NCCL's buffers need room beside TensorFlow's memory
        variables |= kernel_cache(variables) | {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}
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
        raise typer.Exit(entry_point.INTERRUPTED if is_interrupted else _INCOMPLETE)
    # first kept, then printed: who reads it may have closed the pipe, as `head -1` does
    print(f"kept in {write_probe(probe)}", file=sys.stderr)
    _print(probe, as_json=as_json)


def _taken(lock: Lock, sleep: Callable[[float], object]) -> Held:
    """Wait for the host, so that no trial is disturbed, nor we."""
    said = ""
    while (held := lock.try_hold(shares_host=False)) is None:
        if lock.held_by != said:
            said = lock.held_by
            print(f"waiting: {said}", file=sys.stderr)
        sleep(_TRY_AGAIN_S)
    return held


def _probe(
    machine: Machine,
    inventory: Inventory,
    gpus: tuple[Gpu, ...],
    request: ProbeRequest,
    measured: Measured,
) -> Probe:
    is_cpu = inventory.kind is DeviceKind.CPU_DEVICE
    names = tuple(gpu.name for gpu in gpus)
    if is_cpu:
        names = (inventory.kind.singular,) * request.num_devices
    return Probe(
        machine=machine.key,
        host=machine.host,
        device_kind=str(inventory.kind),
        devices=names,
        uuids=tuple(gpu.uuid for gpu in gpus),
        measured_at=utc_text(datetime.now(UTC)),
        all_reduce="ring" if is_cpu else "nccl",
        figures=tuple(measured.figures),
        doubts=tuple(measured.doubts),
    )


def _print(probe: Probe, *, as_json: bool) -> None:
    if as_json:
        return print_json(probe)
    for line in lines_of(probe):
        print(line)
