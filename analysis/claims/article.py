"""Errors inside the cloud article (source 004), by our own count of the networks that it names."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.conclusions.sizes import mb_per_gflop, parameter_mb
from costs.networks import network

_TOLD = {
    "alexnet": 60e6,
    "vgg16": 130e6,
    "resnet50": 0.9e6,
    "resnet152": 2.3e6,
    "inception3": 2.5e6,
}
"""Parameters that its section 2 names: more than these; of inception3 less."""

_RIGHT = 1.5  # times, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Parameters of a network as the article has them, and as counted."""

    model: str
    told: float
    counted: int

    @property
    def factor(self) -> float:
        return self.counted / self.told

    @property
    def is_right(self) -> bool:
        return 1 / _RIGHT < self.factor < _RIGHT

    @property
    def sentence(self) -> str:
        numbers = (
            f"the article tells of {self.told / 1e6:g} million parameters, its layers have "
            f"{self.counted / 1e6:.1f} million"
        )
        return (
            f"{self.model}: "
            f"{numbers}{'' if self.is_right else f', {self.factor:.0f} times as many'}."
        )


def counts() -> list[Count]:
    """All that it names."""
    return [
        Count(model=model, told=told, counted=network(model).num_parameters)
        for model, told in _TOLD.items()
    ]


def errors() -> list[str]:
    """In sentences."""
    deep, wide = network("resnet152"), network("alexnet")
    small = (
        f"ResNet-152 counts there as a network of few parameters: its gradients are {parameter_mb(deep):.0f} MB, AlexNet's "
        f"{parameter_mb(wide):.0f} MB; what differs is how much is computed with them, {mb_per_gflop(deep):.1f} against "
        f"{mb_per_gflop(wide):.0f} MB per GFLOP of one image."
    )
    return [*(count.sentence for count in counts() if not count.is_right), small]
