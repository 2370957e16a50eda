"""Axes that an engine does not know, and therefore refuses."""

from __future__ import annotations

from collections.abc import Iterator

from scalemark.records import environment_axes, switches
from scalemark.records.axes import Engine
from scalemark.records.trial import AXES, TrialSpec
from scalemark.text.wording import as_typed


def unknown_to(engine: Engine) -> tuple[str, ...]:
    """Return the axes that this engine does not know, in their order."""
    return tuple(axis.name for axis in AXES.values() if engine not in axis.engines)


_UNKNOWN = {engine: unknown_to(engine) for engine in Engine}


def unknown_axes(spec: TrialSpec) -> Iterator[str]:
    """Say in a sentence each why the trial's engine refuses it."""
    engine = Engine(spec.engine)
    for name in _UNKNOWN[engine]:
        value = getattr(spec, name)
        if value == AXES[name].default:
            continue
        why = (
            f"engine={engine} does not know it, {', '.join(AXES[name].engines)} does; leave it out"
        )
        if engine is Engine.simulated:
            why = "the cost model does not know what it changes; leave it out of simulated trials"
        yield f"{name}={as_typed(value)}: {why}"
    for name, value in spec.free:
        if environment_axes.is_variable(name):
            continue
        yield (
            f"{name}={value}: only a program that command= gives takes axes of your own; leave it "
            "out"
        )
    yield from _useless_variables(spec)


# read by the loader, the C library or Python before anything could set them in a trainer
_READ_AT_START = ("LD_", "PYTHON", "GLIBC_", "MALLOC_")


def _useless_variables(spec: TrialSpec) -> Iterator[str]:
    for name in environment_axes.variables(spec.free):
        axis = f"{environment_axes.PREFIX}{name}"
        if spec.engine == Engine.simulated:
            yield (
                f"{axis}: simulated trials run no program that could read it; leave it out, or "
                f"where from= brings it add +{axis}=inherited"
            )
        elif name in switches.OWNERS:
            owner = switches.OWNERS[name]
            yield f"{axis}: the axis {owner} sets it; leave it out, and give {owner}= instead"
        elif name.startswith(_READ_AT_START):
            yield (
                f"{axis}: a process reads it when it starts, before a trainer could set it; "
                "export it, and run a sweep for each value"
            )
