"""What the cost model knows nothing of: every axis of a trial that it is not said to know."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from scalemark.records.trial import TrialSpec

SIMULATED = (
    "model",
    "num_gpus",
    "device_kind",
    "variable_update",
    "local_parameter_device",
    "all_reduce",
    "staged_vars",
    "gradient_repacking",
    "compact_gradients",
    "precision",
    "loss_scale",
    "xla",
    "optimizer",
    "learning_rate",
    "momentum",
    "weight_decay",
    "data",
    "data_dir",
    "distortions",
    "data_format",
    "image_px",
    "num_classes",
    "batch_size",
    "scaling",
    "steps_per_execution",
    "cache",
    "min_warm_up_steps",
    "num_steps",
    "min_window_s",
    "planted",
    "seed",
)
"""Axes that simulated trials may have: the cost model looks at them, or is known to take as long
whatever they are.
"""

NOT_SIMULATED = tuple(field.name for field in fields(TrialSpec) if field.name not in SIMULATED)
"""Axes of which it does not know what they change. An axis that is added is one of them until it is
added above.
"""


def not_simulated(spec: TrialSpec) -> Iterator[str]:
    """What is wrong with each of these axes that has not its default, in one sentence each."""
    for axis in NOT_SIMULATED:
        if (value := getattr(spec, axis)) != TrialSpec.__dataclass_fields__[axis].default:
            told = f"{axis}={value}".lower() if isinstance(value, bool) else f"{axis}={value}"
            yield (
                f"{told}: the cost model does not know what it changes; leave it out of "
                "simulated trials"
            )
