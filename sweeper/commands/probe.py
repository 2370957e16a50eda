"""`scalemark probe`: measures what this machine can do, before a sweep."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from conf.schema import HardwareConfig, LauncherConfig
from costs.profiles import own_profile_file, profiles
from scalemark.abilities import PRECISIONS
from scalemark.cli import entry_point
from scalemark.cli.progress import shown
from scalemark.cli.terminal import print_json
from scalemark.host import gpu_libraries, kept_probes
from scalemark.host.extras import lack_of_tensorflow
from scalemark.records.devices import DeviceKind
from scalemark.records.machine import Gpu, Machine
from scalemark.records.probe import Probe, ProbeRequest
from scalemark.records.switches import kernel_cache, overrides_of_precision
from scalemark.records.validation import utc_text
from store.command_line import Json
from store.errors import StoreError
from sweeper.devices.gpu_users import GpuUsers, said_in_use
from sweeper.devices.host_lock import Held, HostLock, Lock
from sweeper.devices.machine import Inventory, describe_machine, take_inventory
from sweeper.errors import SweepRefusedError
from sweeper.probing.process import Measured, first_figure_s, measure
from sweeper.probing.profile import check_one_kind, profile_of, yaml_of
from sweeper.probing.tables import lines_of
from sweeper.starts.environment import environment

NUM_CPU_DEVICES = 2
MOST_CPU_DEVICES = 16
_KINDS = {"auto": "auto", "gpu": str(DeviceKind.GPU), "cpu": str(DeviceKind.CPU_DEVICE)}
_TRY_AGAIN_S = 1.0
_INCOMPLETE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The request of a probe, checked against the machine that is here."""

    machine: Machine
    inventory: Inventory
    request: ProbeRequest
    profile: Path | None  # to be written

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """Return those that are probed; none of CPU devices."""
        return self.inventory.gpus[: self.request.num_devices]


def probe(
    devices: Annotated[
        int | None,
        typer.Option(help=f"How many: all GPUs by default, or {NUM_CPU_DEVICES} CPU devices."),
    ] = None,
    hardware: Annotated[str, typer.Option(help="auto, gpu or cpu, as of a sweep.")] = "auto",
    precision: Annotated[
        str | None, typer.Option(help="As fp32,bf16; by default all that the devices have.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer sizes and repeats, and one device for all.")
    ] = False,
    profile: Annotated[
        str | None,
        typer.Option(
            help="Write a hardware profile of this box: a NAME for your settings folder, or a "
            "FILE.yaml; hardware=NAME or hardware=FILE.yaml takes it."
        ),
    ] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Measure nothing: show the newest that is kept.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Measure what the devices of this machine and the links between them can do: matrix products,
    memory, copies, reductions. The newest is kept for explanations.
    """
    try:
        asked = _checked(devices, hardware, precision, profile, is_quick=quick)
        if not show:
            return _measure(asked, as_json=as_json)
        if devices is not None or precision is not None or quick:
            raise SweepRefusedError(
                "--show measures nothing; leave --devices, --precision and --quick out"
            )
        _print(found := _kept(asked), as_json=as_json)
        _write_profile(asked, found)
    except SweepRefusedError as error:
        raise StoreError(str(error)) from error
    except KeyboardInterrupt:
        raise typer.Exit(entry_point.INTERRUPTED) from None


def _checked(
    devices: int | None,
    hardware: str,
    precision: str | None,
    profile: str | None,
    *,
    is_quick: bool,
) -> _Asked:
    """Refuse what cannot be before a device is taken. Raises SweepRefusedError."""
    if hardware not in _KINDS:
        raise SweepRefusedError(f"--hardware {hardware}: wanted {', '.join(_KINDS)}")
    config = HardwareConfig(device_kind=_KINDS[hardware])
    machine = describe_machine(config)
    inventory = take_inventory(machine, config)
    request = ProbeRequest(
        device_kind=str(inventory.kind),
        num_devices=_num_devices(devices, inventory),
        precisions=_precisions(precision, inventory),
        is_quick=is_quick,
    )
    file = None if profile is None else _profile_file(profile, inventory)
    return _Asked(machine=machine, inventory=inventory, request=request, profile=file)


def _num_devices(wanted: int | None, inventory: Inventory) -> int:
    is_cpu = inventory.kind is DeviceKind.CPU_DEVICE
    most = MOST_CPU_DEVICES if is_cpu else inventory.most_gpus_per_trial
    if wanted is None:
        return NUM_CPU_DEVICES if is_cpu else most
    if not 1 <= wanted <= most:
        counted = inventory.kind.counted(most)
        limit = f"1 to {counted}" if is_cpu else f"1 to {most}, for there are {counted}"
        if most == 1:
            limit = f"1, for a process here has {counted} at most"
        raise SweepRefusedError(f"--devices {wanted}: wanted {limit}")
    return wanted


def _precisions(asked: str | None, inventory: Inventory) -> tuple[str, ...]:
    if asked is None:
        return tuple(name for name in PRECISIONS if not _lack_of(name, inventory))
    names = tuple(dict.fromkeys(asked.split(",")))
    for name in names:
        if name not in PRECISIONS:
            raise SweepRefusedError(f"--precision {name}: wanted {', '.join(PRECISIONS)}")
        if lack := _lack_of(name, inventory):
            raise SweepRefusedError(f"--precision {name}: {lack}; leave it out")
    return names


def _lack_of(precision: str, inventory: Inventory) -> str:
    """Return why these devices have no such precision; empty where they have it."""
    abilities, capability = PRECISIONS[precision], inventory.compute_capability
    return abilities.gpu_only if capability is None else abilities.lack_of(capability)


def _profile_file(name: str, inventory: Inventory) -> Path:
    if inventory.kind is not DeviceKind.GPU:
        raise SweepRefusedError(
            f"--profile {name}: a hardware profile describes GPUs, and here are "
            f"{inventory.kind.plural}; leave it out"
        )
    file = own_profile_file(name)
    if file is None:
        raise SweepRefusedError(
            f"--profile {name}: wanted a FILE.yaml, or a NAME of letters, digits and _ for the "
            "settings folder of a user with a home"
        )
    if file.exists() or name in profiles():
        raise SweepRefusedError(f"--profile {name}: there is one already; choose another name")
    return file


def _kept(asked: _Asked) -> Probe:
    found = kept_probes.read(asked.machine.key, str(asked.inventory.kind))
    if found is None:
        raise SweepRefusedError(
            f"--show: no probe of {asked.machine.host} and its {asked.inventory.kind.plural} is "
            "kept; leave --show out to measure"
        )
    return found


def _measure(asked: _Asked, *, as_json: bool) -> None:
    """Measure, keep and print. What is incomplete is printed, and not kept."""
    gpus = asked.gpus
    problem = lack_of_tensorflow() or gpu_libraries.problem(gpus, asked.inventory.libraries)
    for precision in asked.request.precisions if gpus else ():
        problem = problem or next(overrides_of_precision(precision, os.environ), "")
    if problem:
        raise SweepRefusedError(problem)
    if asked.profile:
        check_one_kind(asked.profile.stem, gpus)
    _check_kept_folder()
    if note := gpu_libraries.compiled_note(gpus):
        print(note, file=sys.stderr)
    measured = Measured()
    is_interrupted = False
    try:
        with _taken(HostLock(), time.sleep):
            _run(asked, measured)
    except KeyboardInterrupt:
        is_interrupted = True
    if not measured.figures:
        if is_interrupted:
            raise KeyboardInterrupt
        raise SweepRefusedError(f"nothing was measured: {measured.problem}")
    found = _probe(asked, measured)
    if is_interrupted or measured.problem:
        _print(found, as_json=as_json)
        why = "interrupted" if is_interrupted else measured.problem
        print(f"incomplete, and not kept: {why}", file=sys.stderr)
        raise typer.Exit(entry_point.INTERRUPTED if is_interrupted else _INCOMPLETE)
    # first kept, then printed: who reads it may have closed the pipe, as `head -1` does
    print(f"kept in {kept_probes.write(found)}", file=sys.stderr)
    try:
        _write_profile(asked, found)
    finally:
        _print(found, as_json=as_json)


def _check_kept_folder() -> None:
    try:
        kept_probes.prepare()
    except (OSError, RuntimeError) as error:
        raise SweepRefusedError(
            f"the probe could not be kept: {error}; choose a folder that can be written to with "
            "SCALEMARK_CACHE="
        ) from error


def _taken(lock: Lock, sleep: Callable[[float], object]) -> Held:
    """Wait for the host, so that no trial is disturbed, nor we."""
    said = ""
    while (held := lock.try_hold(shares_host=False)) is None:
        if lock.held_by != said:
            said = lock.held_by
            print(f"waiting: {said}", file=sys.stderr)
        sleep(_TRY_AGAIN_S)
    return held


def _run(asked: _Asked, measured: Measured) -> None:
    in_use = GpuUsers(asked.inventory, LauncherConfig().in_use_from_mib).look()
    if in_use:
        measured.doubts.append(said_in_use(in_use))
    variables = environment(os.environ, ",".join(gpu.uuid for gpu in asked.gpus))
    # NCCL's buffers need room beside TensorFlow's memory
    variables |= kernel_cache(variables) | {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    with shown() as progress:
        first_s = first_figure_s(asked.gpus)
        measure(asked.request, variables, measured, progress, first_s=first_s)


def _probe(asked: _Asked, measured: Measured) -> Probe:
    inventory, num = asked.inventory, asked.request.num_devices
    is_cpu = inventory.kind is DeviceKind.CPU_DEVICE
    gpus = asked.gpus
    return Probe(
        machine=asked.machine.key,
        host=asked.machine.host,
        device_kind=str(inventory.kind),
        devices=(inventory.kind.singular,) * num if is_cpu else tuple(gpu.name for gpu in gpus),
        uuids=tuple(gpu.uuid for gpu in gpus),
        measured_at=utc_text(datetime.now(UTC)),
        is_quick=asked.request.is_quick,
        all_reduce="ring" if is_cpu else "nccl",
        figures=tuple(measured.figures),
        doubts=tuple(measured.doubts),
    )


def _print(found: Probe, *, as_json: bool) -> None:
    if as_json:
        return print_json(asdict(found))
    for line in lines_of(found):
        print(line)


def _write_profile(asked: _Asked, found: Probe) -> None:
    file = asked.profile
    if file is None:
        return
    hardware = profile_of(file.stem, found, asked.machine)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml_of(hardware), encoding="utf-8")
    except OSError as error:
        raise SweepRefusedError(
            f"--profile: {file}: {error.strerror}; with --show it can be written elsewhere"
        ) from error
    print(f"wrote {file}", file=sys.stderr)
