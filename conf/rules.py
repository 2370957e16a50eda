"""Refuses combinations of axes that mean nothing, by what each choice declares in its own file."""

from collections.abc import Iterator, Mapping

from scalemark import abilities
from scalemark.records.machine import DeviceKind
from scalemark.records.switches import unknown_axes
from scalemark.records.trial import STRATEGY_NAMES, TrialSpec

_AN_HOUR_S = 3600.0  # waits of more per step are slips of units
INJECTED_AT_MOST = {
    "throttling": 0.95,
    "contention": 0.95,
    "launch_s": _AN_HOUR_S,
    "reduction_s": _AN_HOUR_S,
    "input_s": _AN_HOUR_S,
    "slow_replica_by": 100.0,
    "slow_replica": 1e6,
}
"""The largest faults that mean something; of others 1."""


def problems(spec: TrialSpec) -> Iterator[str]:
    """Yield everything that is wrong with a resolved trial, each in one sentence."""
    yield from unknown_axes(spec)
    update = abilities.VARIABLE_UPDATES.get(spec.variable_update)
    if update:
        yield from _problems_of_update(spec, update)
        yield from _problems_of_gradients(spec, update)
    else:
        yield (
            f"variable_update={spec.variable_update}: trainer/variable_updates/ has no file of it; "
            f"there are {', '.join(abilities.VARIABLE_UPDATES)}"
        )
    if spec.device_kind == DeviceKind.CPU_DEVICE:
        yield from _problems_of_cpu_devices(spec)
    if spec.device_kind == DeviceKind.SIMULATED_GPU:
        yield from _problems_of_simulated(spec)
    yield from _problems_of_injected(spec)
    if spec.loss_scale != "none" and not abilities.PRECISIONS[spec.precision].is_loss_scaled:
        scaled = _able(abilities.PRECISIONS, "is_loss_scaled")
        yield (
            f"loss_scale={spec.loss_scale}: only {scaled} needs one, the trial says "
            f"precision={spec.precision}; leave it out"
        )
    if spec.momentum and not abilities.OPTIMIZERS[spec.optimizer].has_momentum:
        having = _able(abilities.OPTIMIZERS, "has_momentum")
        yield (
            f"momentum={spec.momentum:g}: optimizer={spec.optimizer} has none; leave it out, or "
            f"choose one of {having}"
        )


def _problems_of_cpu_devices(spec: TrialSpec) -> Iterator[str]:
    precision = abilities.PRECISIONS[spec.precision]
    for axis, why in (
        ("all_reduce", abilities.ALL_REDUCES[spec.all_reduce].gpu_only),
        ("precision", precision.gpu_only),
    ):
        if why:
            yield f"{axis}={getattr(spec, axis)}: {why}; these replicas are CPU devices"
    if spec.data_format == "NCHW" and precision.no_nchw_on_cpu:
        yield f"data_format=NCHW: {precision.no_nchw_on_cpu}; choose another precision, or NHWC"


def _problems_of_simulated(spec: TrialSpec) -> Iterator[str]:
    update = abilities.VARIABLE_UPDATES.get(spec.variable_update)
    if update and update.sends is abilities.Sends.UNKNOWN:
        why = "the cost model does not know what it sends"
        if update.is_distributed:
            why = "is of several processes, and the cost model knows one on one host"
        yield (
            f"variable_update={spec.variable_update}: {why}; choose another, or leave "
            "engine=simulated out"
        )


def _problems_of_injected(spec: TrialSpec) -> Iterator[str]:
    for name, value in spec.injected_values.items():
        setting = f"injected.{name}={value:g}"
        most = INJECTED_AT_MOST.get(name, 1.0)
        if value > most:
            yield f"{setting}: wanted {most:g} or less"
        if name == "slow_replica":  # a trial on fewer GPUs may name one that it lacks
            if value != int(value):
                yield f"{setting}: wanted a whole number, counted from 0"
            if not spec.injected_values.get("slow_replica_by"):
                yield f"{setting}: nothing slows it; add injected.slow_replica_by, as 0.2"


def _problems_of_update(spec: TrialSpec, rule: abilities.VariableUpdateAbilities) -> Iterator[str]:
    """Yield what is wrong with the hosts, devices and all-reduce of a variable update."""
    update = f"variable_update={spec.variable_update}"
    yield from rule.refusals(spec)
    if spec.hosts > 1 and not rule.goes_over_hosts:
        updates = abilities.distributed()
        strategies = [name for axes, name in STRATEGY_NAMES.items() if axes[0] in updates]
        choice = f"strategy={', '.join(strategies)} (variable_update={', '.join(updates)})"
        yield f"hosts={spec.hosts}: {update} is of one host; choose {choice}"
    is_on_cpu = spec.device_kind == DeviceKind.CPU_DEVICE
    if rule.one_cpu_device_per_host and is_on_cpu and spec.gpus_per_host > 1:
        wanted = f"choose num_gpus={spec.hosts}, or as many hosts as replicas"
        yield f"num_gpus={spec.num_gpus}: on CPUs {update} uses one device per host; {wanted}"
    if spec.all_reduce not in rule.all_reduces:
        yield (
            f"all_reduce={spec.all_reduce}: not with {update}, because {rule.why}; it takes "
            f"{', '.join(rule.all_reduces)}"
        )
    if spec.local_parameter_device not in rule.local_parameter_devices:
        yield (
            f"local_parameter_device={spec.local_parameter_device}: not with {update}, because "
            f"{rule.why}"
        )
    if spec.num_gpus < rule.least_replicas:
        yield (
            f"num_gpus={spec.num_gpus}: {update} takes {rule.least_replicas} replicas or more; "
            f"raise num_gpus, or choose variable_update={abilities.DEFAULT_UPDATE}"
        )
    if spec.all_reduce in rule.even_only and spec.num_gpus > 1 and spec.num_gpus % 2:
        why = rule.even_only[spec.all_reduce]
        yield f"all_reduce={spec.all_reduce}: {why}; num_gpus={spec.num_gpus}"


def _problems_of_gradients(
    spec: TrialSpec, rule: abilities.VariableUpdateAbilities
) -> Iterator[str]:
    """Yield what a variable update cannot do with weights and gradients."""
    update = f"variable_update={spec.variable_update}"
    if spec.staged_vars and not rule.stages:
        yield (
            f"staged_vars=true: not with {update}; only a parameter server's weights can be "
            "fetched a step ahead"
        )
    if spec.gradient_repacking and spec.all_reduce not in rule.repacks_with:
        choice = f"choose variable_update={_able(abilities.VARIABLE_UPDATES, 'repacks_with')}"
        if rule.repacks_with:
            choice = f"it takes all_reduce={', '.join(rule.repacks_with)}"
        packs = f"gradient_repacking={spec.gradient_repacking}"
        yield f"{packs}: not with {update} all_reduce={spec.all_reduce}; {choice}"
    if spec.loss_scale != "none" and not rule.is_synchronous:
        yield (
            f"loss_scale={spec.loss_scale}: not with {update}, whose replicas would have to "
            "agree on skipping; choose none"
        )
    if spec.compact_gradients and not rule.compacts:
        choices = _able(abilities.VARIABLE_UPDATES, "compacts")
        yield (
            f"compact_gradients=true: not with {update}, which sends gradients as they are; "
            f"choose variable_update={choices}"
        )


def _able(folder: Mapping[str, object], ability: str) -> str:
    """List the names whose files declare an ability."""
    return ", ".join(name for name, choice in folder.items() if getattr(choice, ability))
