"""Every replica trains alone: own variables, own gradients, nothing is shared. The ceiling without
communication.
"""

from collections.abc import Sequence

import numpy as np

from scalemark.records.trial import TrialSpec
from trainer.devices import Devices
from trainer.towers import Optimizer
from trainer.variable_updates import Abilities
from trainer.variable_updates.replicated import Replicated

ABILITIES = Abilities(is_synchronous=False)


def create(
    spec: TrialSpec, initial: Sequence[np.ndarray], devices: Devices, optimizer: Optimizer
) -> Replicated:
    return Replicated(initial, devices, optimizer, packs=None)
