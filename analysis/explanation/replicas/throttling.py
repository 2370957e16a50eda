"""Lists what to do where GPUs were throttled, by the reason that NVML gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.explanation.remedies import Remedy
from analysis.explanation.replicas.gpu_clocks import GpuClock
from scalemark.text.wording import listed

WORTH_A_REMEDY = 0.02  # of the clock: what a card at its power limit loses is mostly less


def against_throttling(
    gpus: Sequence[GpuClock], clock_loss: float | None = None
) -> Iterator[Remedy]:
    """Yield what to do against each reason that was seen, the gravest first.

    `clock_loss` is of the slowest; nothing is done about a small one. None where it is not known.
    """
    if clock_loss is not None and clock_loss < WORTH_A_REMEDY:
        return
    for reason, (change, why) in _AGAINST.items():
        meant = [gpu for gpu in gpus if reason in gpu.reasons]
        if not meant or (reason == "hw_slowdown" and _has_a_cause(meant)):
            continue
        which = listed([gpu.uuid for gpu in meant])
        heats = [gpu.temperature_c for gpu in meant if gpu.temperature_c is not None]
        heat = f" at up to {max(heats):.0f} °C" if heats and "thermal" in reason else ""
        yield Remedy(change=f"{change} {which}", why=f"{reason}{heat}: {why}", command="")


def _has_a_cause(gpus: Sequence[GpuClock]) -> bool:
    """Return whether each of these says which of both its hardware slows down for."""
    causes = {"hw_thermal_slowdown", "hw_power_brake_slowdown"}
    return all(causes.intersection(gpu.reasons) for gpu in gpus)


_AGAINST = {
    "hw_thermal_slowdown": (
        "to cool",
        "too hot, it halves its clock or worse; look at fans, dust and the air that reaches it",
    ),
    "sw_thermal_slowdown": (
        "to cool",
        "the driver lowers its clock to keep it below its highest temperature; look at fans and "
        "at the GPUs beside it",
    ),
    "hw_power_brake_slowdown": (
        "to check the power supply of",
        "the box cuts its power; a supply that failed, a cable or a limit of the chassis does that",
    ),
    "hw_slowdown": (
        "to check heat and power supply of",
        "its hardware halves its clock or worse, and does not say for which of both",
    ),
    "sw_power_cap": (
        "to raise the power limit of",
        "it draws all it may; nvidia-smi -q -d POWER shows its limits beside the others', and "
        "nvidia-smi -pl WATTS sets one",
    ),
    "applications_clocks": (
        "to reset the clocks of",
        "they are limited by hand; nvidia-smi -rac resets them",
    ),
}
"""NVML's reason -> what to try, and why; nvml.h, `nvmlClocksEventReasons`."""
