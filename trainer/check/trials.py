"""The trials that the self-check trains, and the variables that TensorFlow must see first.

TensorFlow reads these once, at its import. Trials of other precisions need others, so that the
checks of a mode are made in as many processes as there are different ones: on GPUs one with half
precision and one without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from scalemark.abilities import PRECISIONS, VARIABLE_UPDATES
from scalemark.records import switches
from scalemark.records.devices import DeviceKind
from scalemark.records.trial import TrialSpec
from trainer.check.records import Bench, Mode, Part

BASE = TrialSpec(
    model="resnet18_cifar",
    num_gpus=1,
    device_kind=DeviceKind.CPU_DEVICE,
    variable_update="replicated",
    local_parameter_device="gpu",
    all_reduce="none",
    precision="fp32",
    optimizer="momentum",
    learning_rate=0.1,
    momentum=0.9,
    weight_decay=4e-5,
    data="synthetic",
    distortions=False,
    image_px=32,
    num_classes=10,
    batch_size=16,
    min_warm_up_steps=2,
    num_steps=10,
    seed=1,
)


def of_one_device(bench: Bench) -> TrialSpec:
    """Return the trial that others are compared with."""
    return replace(BASE, device_kind=bench.device_kind)


def of_mode(mode: Mode, bench: Bench) -> TrialSpec:
    """Return the plain trial of a mode on all devices of the bench."""
    return replace(
        of_one_device(bench),
        num_gpus=bench.num_replicas,
        hosts=bench.num_hosts,
        variable_update=mode.variable_update,
        local_parameter_device=mode.local_parameter_device,
        all_reduce=mode.all_reduce,
        batch_size=16 if bench.kind == "cpu_device" else 128,
    )


def parts(
    mode: Mode, bench: Bench, inherited: Mapping[str, str]
) -> Iterator[tuple[Part, dict[str, str]]]:
    """Yield the parts of a mode's checks, the plain ones first, and the variables of each."""
    of_variables: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for precision in _precisions(mode, bench):
        spec = replace(of_mode(mode, bench), precision=precision)
        variables = tuple(sorted(switches.variables(spec, inherited).items()))
        of_variables.setdefault(variables, []).append(precision)
    for variables, precisions in of_variables.items():
        yield Part(mode=mode, bench=bench, precisions=tuple(precisions)), dict(variables)


def _precisions(mode: Mode, bench: Bench) -> list[str]:
    if bench.model or VARIABLE_UPDATES[mode.variable_update].is_of_one_host:
        return [BASE.precision]  # those checks do not vary it
    return [BASE.precision, *(name for name in PRECISIONS if name != BASE.precision)]
