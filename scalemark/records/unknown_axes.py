"""What an engine does not know, it refuses."""

from __future__ import annotations

from collections.abc import Iterator

from scalemark.records.axes import Axis, Engine
from scalemark.records.free_axes import PREFIX
from scalemark.records.trial import AXES, TrialSpec


def unknown_to(engine: Engine) -> tuple[str, ...]:
    """Return the axes that this engine does not know, in their order."""
    return tuple(axis.name for axis in AXES.values() if engine not in axis.engines)


_UNKNOWN = {engine: unknown_to(engine) for engine in Engine}


def unknown_axes(spec: TrialSpec) -> Iterator[str]:
    """Say of each axis that the trial's engine does not know why it is refused, in one sentence."""
    engine = Engine(spec.engine)
    for name in _UNKNOWN[engine]:
        if (value := getattr(spec, name)) != AXES[name].default:
            told = f"{name}={value}".lower() if isinstance(value, bool) else f"{name}={value}"
            yield f"{told}: {_why(engine, AXES[name])}"
    for name, value in spec.free:
        yield (f"{PREFIX}{name}={value}: engine={engine} takes no free axes; leave it out")


def _why(engine: Engine, axis: Axis) -> str:
    if engine is Engine.simulated:
        return "the cost model does not know what it changes; leave it out of simulated trials"
    return f"engine={engine} does not know it, {', '.join(axis.engines)} does; leave it out"
