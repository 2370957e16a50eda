"""Checks one mode with a model of the user's own, as `mode_check` does with ours.

`python -m trainer.check.own_model_check PART_JSON OUT`
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np

from trainer import devices, own_model, run
from trainer.check import exactness
from trainer.check.mode_check import NUM_MICRO_BATCHES, NUM_STEPS, Changes, ModeCheck, check_mode
from trainer.check.records import Check, Part
from trainer.errors import UnsupportedTrialError

_STATE = (
    "its replicas have a state of their own (batch normalization, seeds of dropout), with which N "
    "batches are not one large batch; it trains, and cannot be compared with one device"
)


class OwnModelCheck(ModeCheck):
    """Exactness of one mode with the model that the bench names, and a short throughput."""

    def __init__(self, part: Part, on: devices.Devices) -> None:
        """Raises UnsupportedTrialError for a model that cannot be trained."""
        super().__init__(part, on)
        bench = part.bench
        own: Changes = {
            "model": bench.model,
            "model_digest": bench.model_digest,
            "image_px": 0,
            "num_classes": 0,
            "learning_rate": 0.01,
        }
        self._alone = replace(self._alone, **own)
        self._spec = replace(self._spec, **own)
        self._model = None  # the one that the trial names
        run.prepare(self._alone)
        template = own_model.load(self._alone)
        self._batches = list(exactness.batches_of(template.example, bench.num_replicas, NUM_STEPS))

    def all(self) -> Iterator[Check]:
        try:
            run.build(self._spec, self._devices)
        except UnsupportedTrialError as error:
            yield Check(mode=self._name, options="-", outcome="unsupported", problem=str(error))
            return
        if self._abilities.is_synchronous:
            yield from self._exact_ones()
        else:
            yield self._trained({}, self._drifts, None)
        yield self._checked("precision=fp32", partial(self._throughput, {}))

    def _exact_ones(self) -> Iterator[Check]:
        alone, loss = exactness.train_to_loss(self._alone, self._one, self._batches, None)
        initial = [np.asarray(each) for each in alone.template.model.non_trainable_variables]
        if any(
            (one != other).any() for one, other in zip(alone.towers.state(0), initial, strict=True)
        ):
            yield Check(mode=self._name, options="-", outcome="unsupported", problem=_STATE)
            return
        whole = alone.update.weights(0)
        packs = (0, 2) if self._spec.all_reduce in self._abilities.repacks_with else (0,)
        for num_packs, steps in product(packs, (1, NUM_STEPS)):
            changes = {"gradient_repacking": num_packs, "steps_per_execution": steps}
            yield self._exact(changes, whole, self._bound, loss)
        yield self._exact({"gradient_accumulation": NUM_MICRO_BATCHES}, whole, self._bound, loss)


if __name__ == "__main__":
    check_mode(OwnModelCheck, *sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # past the interpreter's exit, in which a library may hang or crash
