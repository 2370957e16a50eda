"""Collects what other models and batches lose on as many devices of the same box, the same way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analysis.explanation.ablations import COMPARED, AblationFinder, reads
from analysis.explanation.communication.growth import Point
from analysis.explanation.communication.host_links import BYTES_PER_PARAMETER, COMPACT_BYTES
from analysis.explanation.step_times import step_s
from analysis.results import Result
from scalemark.records.trial import free_names
from simulator.costs.networks import network

NO_STEP_IS_SHORTER = 0.5  # of the step of one replica alone

_OF_ITS_WORK = (
    "model",
    "model_digest",
    "image_px",
    "seq_len",
    "batch_size",
    "gradient_accumulation",
    "compact_gradients",
)
"""Axes by which trials differ in what they compute and send, and not in how they send it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The loss of one trial that exchanges gradients and reads nothing, against one replica."""

    result: Result
    point: Point


class BoxLosses:
    """The losses of all results of a finder, each group once."""

    def __init__(self, finder: AblationFinder) -> None:
        self._finder = finder
        self._of_way: dict[object, list[Result]] = defaultdict(list)
        self._known: dict[object, list[Loss]] = {}
        for result in finder.results:
            if result.num_gpus > 1 and not reads(result.axes) and not result.trains_apart:
                self._of_way[_way(result)].append(result)

    def like(self, result: Result) -> list[Loss]:
        """Return those of as many devices that exchange in the same way, its own among them.

        Each model and batch is there once, and none of which two rows contradict each other.
        """
        way = _way(result)
        if way not in self._known:
            by_work = {_work(one): one for one in self._of_way[way]}
            plain = (one for one in by_work.values() if not self._finder.contradicting(one))
            self._known[way] = [one for one in map(self.of, plain) if one is not None]
        return self._known[way]

    def of(self, result: Result) -> Loss | None:
        """Return None without one replica alone, of a model whose gradients nobody counted, and
        where the step is so short that one of the two figures is wrong.
        """
        alone = self._finder.alone(result)
        sent = gradient_bytes(result.axes)
        if alone is None or sent is None:
            return None
        alone_s = step_s(alone).value
        lost_s = step_s(result).value - alone_s
        if lost_s < -NO_STEP_IS_SHORTER * alone_s:
            return None
        point = Point(sent_bytes=sent, alone_s=alone_s, lost_s=lost_s)
        return Loss(result=result, point=point)


def gradient_bytes(axes: Mapping[str, Any], num_parameters: int | None = None) -> float | None:
    """Return the bytes of the gradients of one replica, sent once; None for an unknown network."""
    if num_parameters is None:
        try:
            known = network(
                str(axes["model"]).rstrip("?"), axes.get("image_px"), axes.get("num_classes")
            )
        except ValueError:  # unknown, or of an image too small for it
            return None
        num_parameters = known.num_parameters
    per_element = COMPACT_BYTES if axes.get("compact_gradients") else BYTES_PER_PARAMETER
    return float(per_element * num_parameters)


def _way(result: Result) -> tuple[object, ...]:
    """Return what is the same of trials that differ in their work alone."""
    axes = result.axes
    compared = [name for name in COMPARED if name in axes and name not in _OF_ITS_WORK]
    same = [(name, axes[name]) for name in (*compared, *free_names(axes))]
    return result.environment.key, result.item, *same


def _work(result: Result) -> tuple[object, ...]:
    return tuple(result.axes.get(name) for name in _OF_ITS_WORK)
