"""The work of one step: the axes of a trial that the cost model sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scalemark.records.measurement import items_per_example
from simulator.costs.networks import Network, network


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work of one trial on one host."""

    network: Network
    num_gpus: int
    batch_size: int  # per GPU and micro-batch
    variable_update: str
    local_parameter_device: str
    all_reduce: str
    precision: str = "fp32"
    xla: bool = False
    real_data: bool = False
    distortions: bool = False
    gradient_repacking: int = 0
    compact_gradients: bool = False
    staged_vars: bool = False
    steps_per_execution: int = 1
    gradient_accumulation: int = 1  # micro-batches whose gradients are summed for an update
    optimizer: str = "momentum"
    recompute: bool = False  # the backward pass computes activations again

    @property
    def num_examples(self) -> int:
        """The examples of an update, of all GPUs."""
        return self.num_gpus * self.gradient_accumulation * self.batch_size

    @property
    def decodes(self) -> bool:
        """The host decodes images; tokens come as they are."""
        return self.real_data and not self.network.seq_len

    def num_items(self, item: str) -> int:
        """Return how many of these an update takes. Raises ValueError where that is unknown."""
        of_example = items_per_example(item, self.network.seq_len)
        if of_example is None:
            raise ValueError(f"{self.network.name} counts {self.network.item}, and no {item}")
        return self.num_examples * of_example

    @classmethod
    def of(cls, axes: Mapping[str, Any]) -> Work:
        """Read the fields of a TrialSpec. Raises UnknownNetworkError."""
        sizes = axes["image_px"], axes["num_classes"], axes["seq_len"]
        return cls(
            network=network(axes["model"], *sizes),
            xla=axes["xla"] != "off",
            real_data=axes["data"] != "synthetic",
            **{name: axes[name] for name in _SAME},
        )


_SAME = (  # axes that the cost model takes as they are
    *("num_gpus", "batch_size", "gradient_accumulation", "optimizer", "precision", "recompute"),
    *("variable_update", "local_parameter_device", "all_reduce", "staged_vars", "distortions"),
    *("gradient_repacking", "compact_gradients", "steps_per_execution"),
)


def step_work(axes: Mapping[str, Any]) -> float | None:
    """Return the FLOPs of a step on one device, or its examples where the layers are unknown, to
    be compared for one model only; None without a batch, as programs may be.
    """
    if not axes["batch_size"]:
        return None
    examples = float(axes["batch_size"] * (axes["gradient_accumulation"] or 1))
    try:
        of = network(axes["model"], axes["image_px"], axes["num_classes"], axes["seq_len"])
    except ValueError:  # the model is not defined, or the image is too small for it
        return examples
    again = of.forward_flops if axes["recompute"] else 0.0
    return examples * (of.training_flops + again)
